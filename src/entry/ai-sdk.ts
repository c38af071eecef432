/**
 * quantlet/ai-sdk: a model as the Vercel AI SDK's language, embedding or reranking model
 * (specificationVersion v3), and as the transport of a chat in a page.
 */
export {
  chatTransport,
  type ChatModel,
  type ChatTransportOptions,
  type QuantletChatTransport,
  type TransportChunk,
} from '../ai-sdk/chat-transport.ts';
export { languageModel } from '../ai-sdk/language-model.ts';
export { embeddingModel, rerankingModel } from '../ai-sdk/vector-models.ts';
export type { UiMessage, UiPart } from '../ai-sdk/ui-messages.ts';
export type { TransportTool } from '../ai-sdk/ui-tools.ts';
export type { Backend } from '../server/backend.ts';
