/**
 * quantlet/openai: the HTTP interfaces of OpenAI, Anthropic, Ollama and llama-server over models, for every
 * runtime with Request and Response.
 */
export type { Backend, VectorOptions } from '../server/backend.ts';
export {
  openBatches,
  type BatchObject,
  type Batches,
  type BatchesOptions,
  type BatchServer,
  type BatchStatus,
  type BatchStore,
  type FileObject,
} from '../server/batch/batch-state.ts';
export type { AskLine } from '../server/batch/batch-run.ts';
export { createHandler, type Beside, type Lifetime } from '../server/handler.ts';
export { createModels, type ModelsOptions } from '../server/models-on-demand.ts';
export type { MediaOptions } from '../server/media.ts';
export type { ModelDescription, ModelLibrary, PullProgress } from '../server/library.ts';
export type { Lease, LoadedModel, ModelEntry, Models, ModelStatus } from '../server/models.ts';
export type { ChatOptions } from '../chat/options.ts';
export type { Access, ChatDefaults, HandlerOptions, RequestDefaults, SlotStore } from '../server/options.ts';
export { nodeListener, type NodeRequest, type NodeResponse } from '../server/http/node-listener.ts';
export { chatPage } from '../server/page.ts';
export { LOOPBACK_HOSTS } from '../server/http/request.ts';
