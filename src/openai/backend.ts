/** What a server needs of a model. */
import type { ChatBackend } from '../chat/options.ts';
import { encode } from '../chat/run.ts';
import type { AppliedAdapter } from '../engine/lora.ts';
import type { GenerateOptions } from '../generate/generate.ts';
import type { EmbedOptions } from '../generate/embed.ts';
import type { ModelSlots } from '../generate/slot-actions.ts';
import type { SamplerOptions } from '../sample/options.ts';
import type { Work } from '../slices.ts';
import type { FimTokens } from '../tokenize/special-tokens.ts';

/** What the HTTP handler and the AI SDK provider need of a model: quantlet's Model has it. */
export interface Backend extends ChatBackend {
  /** Name under which clients know the model. */
  readonly name: string;
  /** Finds what is wrong with a generation before it waits for its place. Absent: a stream tells it in an event. @throws what generate() throws */
  checkGenerate?(ids: readonly number[], options: GenerateOptions): Promise<void>;
  /** Text of the end-of-sequence token, '' where the model has none. */
  readonly eos: string;
  /** Generations that run at the same time; the rest of the requests wait. */
  readonly parallel: number;
  /** The kernels' build, and whether they have 256-bit code: for /props. */
  readonly build?: string | undefined;
  readonly turbo?: boolean | undefined;
  /** What the model's file sets in place of the sampler's defaults. */
  readonly samplerDefaults?: SamplerOptions | undefined;
  /** Whether tokens are drafted and verified several at a time. */
  readonly speculative?: boolean | undefined;
  detokenize(ids: Iterable<number>, options?: { special?: boolean }): string;
  /** detokenize() as work that pauses. Absent: long lists of ids hold up the event loop. */
  decodeWork?(ids: Iterable<number>, options?: { special?: boolean }): Work<string>;
  /** The bytes of one token, control tokens by their names. */
  tokenBytes(id: number): Uint8Array;
  /** Vectors of texts, in their order. Absent, or throwing, where the model gives no embeddings. */
  embed?(inputs: readonly (string | readonly number[])[], options: EmbedOptions): Promise<readonly Float32Array[]>;
  /** Scores of documents for a query, in their order; higher is more relevant. Absent, or throwing, where the model is not a reranker. */
  rank?(query: string, documents: readonly string[], options: { signal?: AbortSignal }): Promise<readonly number[]>;
  /** `general.architecture` of the model's file. */
  readonly architecture?: string | undefined;
  /** The sequences in the cache. Absent where there are none. */
  readonly slots?: ModelSlots | undefined;
  /** Absent where the model cannot fill in the middle of a text. */
  readonly fim?: FimTokens | undefined;
  /** The LoRA adapters that are applied. */
  readonly adapters?: readonly AppliedAdapter[] | undefined;
}

/** How many tokens texts have together, as `usage` counts them. */
export function* countTokens(
  backend: Pick<Backend, 'tokenize' | 'encodeWork'>,
  inputs: readonly (string | readonly number[])[],
): Work<number> {
  let sum = 0;
  for (const input of inputs) {
    sum += typeof input === 'string' ? (yield* encode(backend, input, {})).length : input.length;
    yield;
  }
  return sum;
}
