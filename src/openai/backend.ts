import type { ChatBackend } from '../chat/run.ts';

/** Vectors of texts, in their order. */
export interface Embeddings {
  readonly vectors: readonly Float32Array[];
  readonly promptTokens: number;
}

/** Scores of documents for a query, in their order; higher is more relevant. */
export interface Ranking {
  readonly scores: readonly number[];
  readonly promptTokens: number;
}

/** What the HTTP handler and the AI SDK provider need of a model. */
export interface Backend extends ChatBackend {
  /** Name under which clients know the model. */
  readonly name: string;
  /** Text of the end-of-sequence token, '' where the model has none. */
  readonly eos: string;
  /** Generations that run at the same time; the rest of the requests wait. */
  readonly parallel: number;
  detokenize(ids: Iterable<number>, options?: { special?: boolean }): string;
  /** The bytes of one token, control tokens by their names. */
  tokenBytes(id: number): Uint8Array;
  /** Absent where the model gives no embeddings. */
  embed?(inputs: readonly (string | readonly number[])[], options: { signal?: AbortSignal }): Promise<Embeddings>;
  /** Absent where the model is no reranker. */
  rank?(query: string, documents: readonly string[], options: { signal?: AbortSignal }): Promise<Ranking>;
}
