/** A model as the AI SDK's embedding model or reranking model. */
import type { EmbeddingModelV3, RerankingModelV3 } from '@ai-sdk/provider';
import { QuantletError } from '../errors.ts';
import { countTokens, type Backend, type VectorOptions } from '../server/backend.ts';
import { inSlices } from '../slices.ts';
import { unknownSettings } from './prompt.ts';

/** Options of embed() that `providerOptions.quantlet` takes. */
const SETTINGS = ['pooling', 'normalize', 'truncate', 'dimensions', 'prompt', 'promptName'] as const satisfies (keyof VectorOptions)[];

/**
 * An embedder as the AI SDK's embedding model:
 * `embedMany({ model: embeddingModel(backend), values })`.
 * @throws QuantletError ERR_INVALID_ARGUMENT if the model makes no embeddings
 */
export function embeddingModel(backend: Backend): EmbeddingModelV3 {
  if (!backend.embed)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `The model ${backend.name} gives no embeddings; expected an embedding model (bert, nomic-bert ...).`,
    );
  return {
    specificationVersion: 'v3',
    provider: 'quantlet',
    modelId: backend.name,
    // The model itself batches texts, so a call may have any number.
    maxEmbeddingsPerCall: undefined,
    supportsParallelCalls: false,
    async doEmbed({ values, abortSignal, providerOptions }) {
      const own = providerOptions?.quantlet ?? {};
      const known = SETTINGS.filter((name) => own[name] !== undefined);
      const settings = Object.fromEntries(known.map((name) => [name, own[name]])) as VectorOptions;
      const vectors = await (backend as Required<Backend>).embed(values, { ...settings, ...(abortSignal ? { signal: abortSignal } : {}) });
      return {
        embeddings: vectors.map((vector) => [...vector]),
        usage: { tokens: await inSlices(countTokens(backend, values, backend.contextLength), abortSignal) },
        warnings: unknownSettings(own, SETTINGS),
      };
    },
  };
}

/**
 * A reranker as the AI SDK's reranking model:
 * `rerank({ model: rerankingModel(backend), query, documents })`. Objects are ranked as their JSON.
 * @throws QuantletError ERR_INVALID_ARGUMENT if the model is not a reranker
 */
export function rerankingModel(backend: Backend): RerankingModelV3 {
  if (!backend.rank) throw new QuantletError('ERR_INVALID_ARGUMENT', `The model ${backend.name} does not rank; expected a reranker.`);
  return {
    specificationVersion: 'v3',
    provider: 'quantlet',
    modelId: backend.name,
    async doRerank({ documents, query, topN, abortSignal }) {
      const texts = documents.type === 'text' ? documents.values : documents.values.map((value) => JSON.stringify(value));
      const scores = await (backend as Required<Backend>).rank(query, texts, abortSignal ? { signal: abortSignal } : {});
      const ranking = scores.map((relevanceScore, index) => ({ index, relevanceScore }));
      ranking.sort((a, b) => b.relevanceScore - a.relevanceScore || a.index - b.index);
      return { ranking: ranking.slice(0, topN ?? ranking.length), response: { timestamp: new Date(), modelId: backend.name } };
    },
  };
}
