/**
 * quantlet/openai: the HTTP interfaces of OpenAI, Anthropic and llama-server over models, for every
 * runtime with Request and Response.
 */
export type { Backend } from '../openai/backend.ts';
export {
  openBatches,
  type BatchObject,
  type Batches,
  type BatchesOptions,
  type BatchServer,
  type BatchStatus,
  type BatchStore,
  type FileObject,
} from '../openai/batch-state.ts';
export type { AskLine } from '../openai/batch-run.ts';
export { createHandler, type Beside, type Lifetime } from '../openai/handler.ts';
export {
  createModels,
  type Lease,
  type LoadedModel,
  type ModelEntry,
  type Models,
  type ModelsOptions,
  type ModelStatus,
} from '../openai/models.ts';
export type { ChatOptions } from '../chat/options.ts';
export type { Access, ChatDefaults, HandlerOptions, RequestDefaults, SlotStore } from '../openai/options.ts';
export { nodeListener, type NodeRequest, type NodeResponse } from '../openai/node-listener.ts';
export { chatPage } from '../openai/page.ts';
export { LOOPBACK_HOSTS } from '../openai/request.ts';
