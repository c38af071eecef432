/**
 * quantlet/ai-sdk: a model as the Vercel AI SDK's language, embedding or reranking model
 * (specificationVersion v3).
 */
export { languageModel } from '../ai-sdk/language-model.ts';
export { embeddingModel, rerankingModel } from '../ai-sdk/vector-models.ts';
export type { Backend } from '../server/backend.ts';
