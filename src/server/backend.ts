/** Interface between the server and a model. */
import type { ChatBackend } from '../chat/options.ts';
import { encode } from '../chat/run.ts';
import type { AppliedAdapter } from '../plan/lora.ts';
import type { GenerateOptions } from '../generate/generate.ts';
import type { EmbedOptions } from '../generate/embed.ts';
import type { GGUFValue } from '../gguf/types.ts';
import type { ModelSlots } from '../generate/slot-actions.ts';
import type { Modalities } from '../run/image-tokens.ts';
import type { SamplerOptions } from '../sample/options.ts';
import type { Work } from '../slices.ts';
import type { FimTokens } from '../tokenize/special-tokens.ts';

/**
 * Model interface for the HTTP handler and the AI SDK provider; implemented by quantlet's Model.
 */
export interface Backend extends ChatBackend {
  /** The model's name for clients. */
  readonly name: string;
  /**
   * Validates a generation before it waits for its turn. If absent, a stream reports errors in an
   * event.
   * @throws the errors of generate()
   */
  checkGenerate?(ids: readonly number[], options: GenerateOptions): Promise<void>;
  /** Text of the end-of-sequence token; '' if the model has none. */
  readonly eos: string;
  /** Maximum number of concurrent generations; further requests wait. */
  readonly parallel: number;
  /** For /props: the kernels' build, and true if it runs 256-bit code. */
  readonly build?: string | undefined;
  readonly turbo?: boolean | undefined;
  /** Sampler defaults from the model's file. */
  readonly samplerDefaults?: SamplerOptions | undefined;
  /** True if tokens are drafted and several are verified at a time. */
  readonly speculative?: boolean | undefined;
  detokenize(ids: Iterable<number>, options?: { special?: boolean }): string;
  /** detokenize() as work that pauses. If absent, long lists of ids block the event loop. */
  decodeWork?(ids: Iterable<number>, options?: { special?: boolean }): Work<string>;
  /** The bytes of one token; control tokens give their names. */
  tokenBytes(id: number): Uint8Array;
  /**
   * Vectors of texts, in order, one for each. Absent or throwing if the model gives no embeddings.
   */
  embed?(inputs: readonly (string | readonly number[])[], options: VectorOptions): Promise<readonly Float32Array[]>;
  /**
   * Scores of documents for a query, in order; higher is more relevant. Absent or throwing if the
   * model is not a reranker.
   */
  rank?(query: string, documents: readonly string[], options: { signal?: AbortSignal }): Promise<readonly number[]>;
  /** Kinds of input besides text. Default: none. */
  readonly modalities?: Modalities | undefined;
  /** `general.architecture` of the model's file. */
  readonly architecture?: string | undefined;
  /** Metadata of the model's file, by key. */
  readonly metadata?: ReadonlyMap<string, GGUFValue> | undefined;
  /** The sequences in the cache; absent if the model has no cache. */
  readonly slots?: ModelSlots | undefined;
  /** Absent if the model cannot fill in the middle of a text. */
  readonly fim?: FimTokens | undefined;
  /** The applied LoRA adapters. */
  readonly adapters?: readonly AppliedAdapter[] | undefined;
}

/** Options of embeddings that are vectors of 32-bit numbers, one for each text. */
export type VectorOptions = Omit<EmbedOptions, 'pooling' | 'precision'> & {
  readonly pooling?: Exclude<EmbedOptions['pooling'], 'none'>;
};

/** Total number of tokens of some texts, as `usage` counts them, at most `most` of each. */
export function* countTokens(
  backend: Pick<Backend, 'tokenize' | 'encodeWork'>,
  inputs: readonly (string | readonly number[])[],
  most = Infinity,
): Work<number> {
  let sum = 0;
  for (const input of inputs) {
    const { length } = typeof input === 'string' ? yield* encode(backend, input, {}) : input;
    sum += Math.min(length, most);
    yield;
  }
  return sum;
}
