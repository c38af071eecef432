/** What a server needs of a model. */
import type { ChatBackend } from '../chat/run.ts';

/** What the HTTP handler and the AI SDK provider need of a model: quantlet's Model has it. */
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
  /** Vectors of texts, in their order. Absent, or throwing, where the model gives no embeddings. */
  embed?(inputs: readonly (string | readonly number[])[], options: { signal?: AbortSignal }): Promise<readonly Float32Array[]>;
  /** Scores of documents for a query, in their order; higher is more relevant. Absent, or throwing, where the model is no reranker. */
  rank?(query: string, documents: readonly string[], options: { signal?: AbortSignal }): Promise<readonly number[]>;
}

/** How many tokens texts have together, as `usage` counts them. */
export function countTokens(backend: Pick<Backend, 'tokenize'>, inputs: readonly (string | readonly number[])[]): number {
  return inputs.reduce((sum, input) => sum + (typeof input === 'string' ? backend.tokenize(input).length : input.length), 0);
}
