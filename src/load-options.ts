/** What loadModel can be told: each option's meaning, its kind, its default. */
import type { LoraAdapter } from './engine/lora.ts';
import type { LoadProgress, Turbo } from './engine/platform.ts';
import type { SpeculationOptions } from './generate/draft/options.ts';
import { KV_TYPES, type KvType } from './graph/attention-ops.ts';
import type { GGUFValue } from './gguf/types.ts';
import { HUB_OPTIONS, type HubOptions } from './hub/options.ts';
import { internal, KIND, nested, oneOf, or, resolveOptions, whole, type Kinds, type Resolved } from './options.ts';
import { THREADS } from './threads/executor.ts';
import type { Build } from './wasm/load.ts';
import type { WebOptions } from './web/options.ts';

export interface LoadOptions extends WebOptions {
  /** Threads that compute; default: the cores this process may use. 1 where the build has no threads. */
  threads?: number;
  /** Tokens of a sequence at most. 0: what the model was trained for. Default: that, at most 4096. */
  contextLength?: number;
  /** `simd`, `relaxed` or `dotadd` (relaxed SIMD with i32 dots, for CPUs with sdot or AVX-VNNI), each also with `-threads`; default: the best that runs here. */
  build?: Build;
  /** Make vectors (model.embed) with a model that could also generate. Default: what the file is made for. */
  embeddings?: boolean;
  /** Sequences that may be computed at the same time; each has a cache of contextLength. Default 1, for models that make vectors 8. */
  parallel?: number;
  /**
   * Checkpoints of recurrent layers that each sequence has, so that a conversation whose end was changed is not computed anew. Each takes the memory of
   * a state: 0.1 MB in LFM2 350M, 19 MB in Qwen 3.5 0.8B, 50 MB in Qwen 3.5 4B. Of models without such layers nothing. Default 8.
   */
  ctxCheckpoints?: number;
  /** Tokens from one of these checkpoints to the next; the oldest ones are thinned out. Default 64. */
  checkpointMinStep?: number;
  /**
   * What the cache keeps keys and values as: `f16`, `f32`, `q8_0` (half the memory of f16) or `q4_0` (a quarter; visibly less exact); `bf16`, `q5_1`,
   * `q5_0`, `q4_1` and `iq4_nl` lie between, and are unpacked anew for every token, which takes time where contexts are long. Heads are padded to
   * whole blocks. Default `f16`.
   */
  cacheTypeK?: KvType;
  cacheTypeV?: KvType;
  /**
   * Caches of q8_0, q5_1, q5_0, q4_1, q4_0 and iq4_nl keep rotated keys and values, as llama.cpp's do, where the head size is a multiple of 64: outliers
   * in a few dimensions are spread over all, which loses less. Default true.
   */
  cacheRotation?: boolean;
  /**
   * Of a model with predictors of the neurons that fire (PowerInfer's files): the least that a predictor gives a neuron that is computed. A larger one leaves
   * out more neurons, and loses more. Default: the file's powerinfer.sparse_threshold, or 0.
   */
  sparseThreshold?: number;
  /**
   * Of a model with rows of heads (`attn_output_t`, which `quantlet sparsify --heads` writes): the share of attention's heads that generated tokens go on with,
   * those that give them most (Deja Vu). Prompts have all heads, tokens of which log probabilities are wanted apart. Default: all, by the dense weights.
   */
  attnHeads?: number;
  /**
   * Bits that products of quantised weights round activations to, 8 or 4. With 4 the codes are of -7 to 7, in the same memory and time: it measures what
   * activations of 4 bits would lose (W4A4), with and without a rotation. Default 8.
   */
  actBits?: 4 | 8;
  /**
   * How weights of IQ1_S to IQ3_S and TQ1_0 lie in memory. `compact`: in as many bytes as in the file. `fast`: as codes of 4 bits, which takes 4.3 bits a
   * weight instead of 1.6 to 3.4, of TQ1_0 as TQ2_0's, 2.1 instead of 1.7, and makes generation two to three times as fast; the results are the same bits. `auto`: `fast` where the model then takes half
   * of the free memory at most, `compact` elsewhere, where `weightsMemory` is given, and where nothing says how much is free (browsers; Node on systems other than Linux). Default `auto`.
   */
  iqWeights?: 'auto' | 'compact' | 'fast';
  /**
   * FlashDecoding++: the largest score every part of attention is taken to have, for this model (bench/unified-max.ts finds it); parts with
   * scores far from it are computed again the safe way. Default: each part its own, which is as fast here.
   */
  unifiedMax?: number;
  /**
   * Bytes of weights that are in memory at most: layers that do not fit are read from the file again for every step, while others are computed. A step then takes
   * as long as reading them. Default: all of them.
   */
  weightsMemory?: number;
  /**
   * Of models of which only the neurons that fire are computed (PowerInfer's layout, `ffn_down_t`): their rows stay in the file, a step reads those that
   * its tokens need, and those of the last so many tokens are kept, most of which fire again ("LLM in a flash"). 0 keeps none. The model must be in files.
   * Default: all rows are in memory.
   */
  neuronWindow?: number;
  /** LoRA adapters (GGUF) that are applied as the model runs, with their scales; several add up. */
  lora?: readonly LoraAdapter[];
  /** Prompt tokens of one step at most. Default 512. */
  batchSize?: number;
  /** Positions of one step whose logits can be read; more than `parallel` only for measuring texts. Default: `parallel`. @internal */
  maxOutputs?: number;
  /** Memories that the model's layers are divided into, at most one for each layer; more where it needs them (engine/links.ts). Default 1. @internal */
  links?: number;
  /**
   * Matrices whose inputs are to be measured, by their names: every step (a warm-up too) adds the squares of what they multiply, column by column,
   * to sums that are 0 at first. Default: none. @internal
   */
  inputSums?: (matrix: string) => boolean;
  /** What will be read first, by programs that ask at once: what kernels that takes is compiled while weights are read. @internal */
  firstPrompt?: string;
  /** Weights, of products and norms, of which the last step's inputs are kept, by their names. Default: none. @internal */
  keptInputs?: (weight: string) => boolean;
  /**
   * Speculative decoding: several tokens are guessed and computed in one step, those that come anyway are kept. Ids, text and log probabilities are
   * the same without it. Each of the `parallel` sequences needs memory for the logits of its longest draft: n_vocab * 4 bytes a token, 12 MB for
   * 48 tokens of 64000. Default: none.
   */
  speculation?: SpeculationOptions;
  /** Metadata in place of the file's, by its keys, as llama.cpp's --override-kv has it: `{ 'llama.rope.freq_base': 500000 }`. */
  overrideKv?: Readonly<Record<string, GGUFValue>>;
  /** How the model is called in lists and answers; default: general.name of the file, else its architecture. */
  name?: string;
  /** The chat template in place of the file's tokenizer.chat_template: Jinja source, or the name of one of llama.cpp's (`chatml`, `llama3` ...). */
  chatTemplate?: string;
  /**
   * Run a few steps after loading until V8 has optimised the kernels. Default true. 'short': only where steps are so short that fewer threads may be
   * faster, which they find out; for programs that ask at once and only once, whose own first step does the same.
   */
  warmUp?: boolean | 'short';
  /**
   * 256-bit code by V8's revectoriser, an experiment of V8 that makes prompts some 1.4 times as fast: Node 24 and newer on x64 with AVX2. The results are the same bits. 'auto': where it can be
   * had; true: the same, with a warning (QUANTLET_TURBO_OFF) that says why where it cannot; false: not. Before the first use a process of its own
   * tests the kernels, once for this Node, CPU and build (the result is kept in quantlet's cache folder); they are then compiled at once on the
   * calling thread, some 0.2 s in which V8's flags are other ones for the whole process. Default false: whoever has a process should know of both.
   */
  turbo?: Turbo;
  /** Ends loading with signal.reason; what was read so far is given back. */
  signal?: AbortSignal;
  /** Told how far loading is. */
  onProgress?: (progress: LoadProgress) => void;
  /** Where models of the Hugging Face hub come from, and where they are kept. */
  hub?: HubOptions;
}

/** Every option and what it may be. Builds, adapters and speculation are looked into where they are used. */
const LOAD_OPTIONS = {
  threads: THREADS,
  contextLength: whole(0),
  build: KIND.string,
  embeddings: KIND.boolean,
  parallel: whole(1),
  ctxCheckpoints: or(whole(0), 8),
  checkpointMinStep: or(whole(1), 64),
  cacheTypeK: or(oneOf(...KV_TYPES), 'f16'),
  cacheTypeV: or(oneOf(...KV_TYPES), 'f16'),
  cacheRotation: or(KIND.boolean, true),
  sparseThreshold: KIND.number,
  attnHeads: KIND.share,
  actBits: or({ is: (v) => v === 4 || v === 8, expected: '4 or 8' }, 8),
  iqWeights: or(oneOf('auto', 'compact', 'fast'), 'auto'),
  unifiedMax: KIND.finite,
  weightsMemory: KIND.size,
  neuronWindow: whole(0),
  lora: or(KIND.list, []),
  batchSize: or(whole(1), 512),
  maxOutputs: internal(or(whole(1), 1)),
  links: internal(or(whole(1), 1)),
  inputSums: internal(KIND.function),
  firstPrompt: internal(KIND.string),
  keptInputs: internal(KIND.function),
  speculation: KIND.any,
  overrideKv: KIND.object,
  name: KIND.string,
  chatTemplate: KIND.string,
  warmUp: or({ is: (v) => v === 'short' || typeof v === 'boolean', expected: '"short", true or false', texts: ['short'] }, true),
  turbo: or(KIND.turbo, false),
  hub: nested(HUB_OPTIONS),
  cache: or({ is: (v) => typeof v === 'boolean' || v === 'reload', expected: 'true, false or "reload"' }, true),
  headers: KIND.strings,
  wasm: KIND.any,
  createWorker: KIND.function,
  signal: KIND.signal,
  onProgress: KIND.function,
} satisfies Kinds<LoadOptions>;

/** Options of loadModel with their defaults. */
export type ResolvedLoadOptions = Resolved<LoadOptions, typeof LOAD_OPTIONS>;

/** @throws ERR_INVALID_ARGUMENT naming the option, what it was, and what was expected or meant */
export const resolveLoadOptions = (options: LoadOptions | undefined): ResolvedLoadOptions =>
  resolveOptions<LoadOptions, typeof LOAD_OPTIONS>('loadModel', options, LOAD_OPTIONS);
