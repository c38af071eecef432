/** quantlet/openai: OpenAI's HTTP interface and llama-server's over a model, for every runtime that has Request and Response. */
export type { Backend } from '../openai/backend.ts';
export { createHandler, type Access, type HandlerOptions, type Lifetime } from '../openai/handler.ts';
export { nodeListener } from '../openai/node-listener.ts';
export { chatPage } from '../openai/page.ts';
export { LOOPBACK_HOSTS } from '../openai/request.ts';
