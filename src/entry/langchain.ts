/** quantlet/langchain: a model in this process as LangChain's chat model, LLM or embeddings. */
export { ChatQuantlet, type ChatQuantletInput } from '../langchain/chat-model.ts';
export {
  QuantletEmbeddings,
  QuantletLLM,
  type QuantletEmbeddingsInput,
  type QuantletLLMCallOptions,
  type QuantletLLMInput,
  type TextSettings,
} from '../langchain/text-models.ts';
export type { ChatQuantletCallOptions, Settings } from '../langchain/settings.ts';
export type { Backend } from '../server/backend.ts';
