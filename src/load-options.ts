/** Options of loadModel: meaning, kind and default of each. */
import type { LoraAdapter } from './plan/lora.ts';
import type { LoadProgress, Turbo } from './platform.ts';
import type { SpeculationOptions } from './generate/draft/options.ts';
import { KV_TYPES, type KvType } from './graph/attention-ops.ts';
import type { GGUFValue } from './gguf/types.ts';
import type { ModelSource } from './io/model-files.ts';
import { HUB_OPTIONS, type HubOptions } from './hub/options.ts';
import { internal, KIND, nested, oneOf, or, resolveOptions, whole, type Kinds, type Resolved } from './options.ts';
import { THREADS } from './threads/executor.ts';
import type { Build } from './wasm/load.ts';
import type { WebOptions } from './web/options.ts';

export interface LoadOptions extends WebOptions {
  /**
   * Threads that compute. Default: the cores this process may use; 1 if the build has no threads.
   */
  threads?: number | undefined;
  /**
   * Maximum number of tokens of a sequence. 0: the trained context. Default: the trained context,
   * but at most 4096.
   */
  contextLength?: number | undefined;
  /**
   * `simd`, `relaxed` or `dotadd` (relaxed SIMD with i32 dots, for CPUs with sdot or AVX-VNNI),
   * each also with `-threads`. Default: the best build that runs here.
   */
  build?: Build | undefined;
  /**
   * Makes embeddings (model.embed) with a model that could also generate. Default: as the file is
   * made for.
   */
  embeddings?: boolean | undefined;
  /**
   * Number of sequences that can be computed at the same time. Each has a cache of contextLength.
   * Default 1; 8 for embeddings.
   */
  parallel?: number | undefined;
  /**
   * Checkpoints of recurrent states for each sequence, so that a conversation whose end was changed
   * is not computed from the start. Each takes the memory of a state: 0.1 MB in LFM2 350M, 19 MB in
   * Qwen 3.5 0.8B, 50 MB in Qwen 3.5 4B. Models without recurrent layers need none. Default 8.
   */
  ctxCheckpoints?: number | undefined;
  /**
   * Minimum number of tokens between these checkpoints. The oldest ones are thinned out. Default
   * 64.
   */
  checkpointMinStep?: number | undefined;
  /**
   * Type of keys and values in the cache: `f16`, `f32`, `q8_0` (half the memory of f16) or `q4_0`
   * (a quarter; visibly less exact). `bf16`, `q5_1`, `q5_0`, `q4_1` and `iq4_nl` lie between; they
   * are unpacked for every token, which takes time in long contexts. Heads are padded to whole
   * blocks. Default `f16`.
   */
  cacheTypeK?: KvType | undefined;
  cacheTypeV?: KvType | undefined;
  /**
   * Rotates keys and values in caches of q8_0, q5_1, q5_0, q4_1, q4_0 and iq4_nl, like llama.cpp,
   * if the head size is a multiple of 64. This spreads outliers over all dimensions, which loses
   * less. Default true.
   */
  cacheRotation?: boolean | undefined;
  /**
   * For models with predictors of the neurons that fire (PowerInfer's files): lowest predictor
   * score for which a neuron is computed. A larger value skips more neurons and loses more.
   * Default: the file's powerinfer.sparse_threshold, or 0.
   */
  sparseThreshold?: number | undefined;
  /**
   * For models with rows of heads (`attn_output_t`, which `quantlet sparsify --heads` writes):
   * fraction of attention heads to use for generated tokens, most important first (Deja Vu).
   * Prompts use all heads, except for tokens whose log probabilities are wanted. Default: all, by
   * the dense weights.
   */
  attnHeads?: number | undefined;
  /**
   * Bits of the activations in products with quantised weights, 8 or 4. With 4, codes are -7 to 7,
   * with the same memory and time: it measures the loss of 4-bit activations (W4A4), with and
   * without a rotation. Default 8.
   */
  actBits?: 4 | 8 | undefined;
  /**
   * Memory layout of weights of IQ1_S to IQ3_S and TQ1_0. Results are the same bits.
   * - `compact`: as many bytes as in the file.
   * - `fast`: 4-bit codes, which take 4.3 bits a weight instead of 1.6 to 3.4; TQ1_0 as TQ2_0,
   *   which takes 2.1 instead of 1.7. Generation is two to three times as fast.
   * - `auto` (default): `fast` if the model then takes at most half of the free memory. `compact`
   *   otherwise, with `weightsMemory`, and if the free memory is unknown (browsers; Node on systems
   *   other than Linux).
   */
  iqWeights?: 'auto' | 'compact' | 'fast' | undefined;
  /**
   * FlashDecoding++: largest score that every part of attention assumes, for this model
   * (bench/unified-max.ts finds it). Parts with scores far from it are computed again without the
   * assumption. Default: each part computes its own maximum, which is as fast here.
   */
  unifiedMax?: number | undefined;
  /**
   * Maximum number of bytes of weights in memory. Layers that do not fit are read from the file for
   * every step, while others are computed. A step then takes as long as reading them. Default: all
   * weights.
   */
  weightsMemory?: number | undefined;
  /**
   * For models that compute only the neurons that fire (PowerInfer's layout, `ffn_down_t`): keeps
   * the neurons' rows in the file. A step reads the rows that its tokens need. The rows that the
   * last tokens used (this many) stay in memory, because most of them fire again ("LLM in a
   * flash"). 0 keeps none. The model must be in files. Default: all rows are in memory.
   */
  neuronWindow?: number | undefined;
  /**
   * Projector of the model (`mmproj-*.gguf`): the model then sees images. A path, a URL, a Blob or
   * bytes, as for the model. False: none. Default: the projector in the model's repository, if the
   * source is `hf:OWNER/REPO` (edge runtimes: none). If that one cannot be used, for example next
   * to LoRA adapters, the model sees no images, and `model.warnings` says why.
   */
  mmproj?: ModelSource | false | undefined;
  /**
   * Least and most tokens of an image, for projectors whose images follow the size of the picture
   * (Qwen VL, LFM2 VL, Pixtral). More tokens show more details and take more time. Default: as the
   * projector's type has it.
   */
  imageMinTokens?: number | undefined;
  imageMaxTokens?: number | undefined;
  /** LoRA adapters (GGUF) with their scales, applied while the model runs. Several add up. */
  lora?: readonly LoraAdapter[] | undefined;
  /** Maximum number of prompt tokens of one step. Default 512. */
  batchSize?: number | undefined;
  /**
   * Positions of one step whose logits can be read; more than `parallel` only for measuring texts.
   * Default: `parallel`.
   * @internal
   */
  maxOutputs?: number;
  /**
   * Memories that the model's layers are divided into, at most one for each layer; more if
   * necessary (plan/links.ts). Default 1.
   * @internal
   */
  links?: number;
  /**
   * Selects matrices, by name, whose inputs are measured. Every step (also of a warm-up) adds the
   * squares of each input, by column, to sums that start at 0. Default: none.
   * @internal
   */
  inputSums?: (matrix: string) => boolean;
  /**
   * The first prompt, if known: its kernels are compiled while weights load.
   * @internal
   */
  firstPrompt?: string;
  /**
   * Selects weights of products and norms, by name, whose inputs in the last step are kept.
   * Default: none.
   * @internal
   */
  keptInputs?: (weight: string) => boolean;
  /**
   * Speculative decoding: several tokens are guessed and computed in one step, and the right ones
   * are kept. Ids, text and log probabilities are the same as without. Each of the `parallel`
   * sequences needs memory for the logits of its longest draft: n_vocab * 4 bytes a token, 12 MB
   * for 48 tokens of 64000. Default: none.
   */
  speculation?: SpeculationOptions | undefined;
  /**
   * Replaces metadata of the file, by key, like llama.cpp's --override-kv:
   * `{ 'llama.rope.freq_base': 500000 }`.
   */
  overrideKv?: Readonly<Record<string, GGUFValue>> | undefined;
  /**
   * Name of the model in lists and answers. Default: general.name of the file, else its
   * architecture.
   */
  name?: string | undefined;
  /**
   * Chat template that replaces the file's tokenizer.chat_template: Jinja source, or the name of
   * one of llama.cpp's (`chatml`, `llama3` ...).
   */
  chatTemplate?: string | undefined;
  /**
   * Runs a few steps after loading until V8 has optimised the kernels. Default true. 'short': only
   * if steps are so short that fewer threads may be faster, which these steps find out. This is for
   * programs that ask at once and only once, because their first step does the rest.
   */
  warmUp?: boolean | 'short' | undefined;
  /**
   * 256-bit code by V8's revectoriser, an experiment of V8 that makes prompts about 1.4 times as
   * fast, with the same bits. Needs Node 24 or newer on x64 with AVX2. 'auto': if available; true:
   * the same, with a warning (QUANTLET_TURBO_OFF) that gives the reason if not; false (default):
   * never.
   *
   * Before the first use, a separate process tests the kernels, once for this Node, CPU and build
   * (the result is kept in quantlet's cache folder). They are then compiled on the calling thread,
   * which takes about 0.2 s, and during that time V8's flags are changed for the whole process. It
   * is off by default because programs should know of both.
   */
  turbo?: Turbo | undefined;
  /** Ends loading with signal.reason; frees everything read so far. */
  signal?: AbortSignal | undefined;
  /** Called with the progress of loading. */
  onProgress?: ((progress: LoadProgress) => void) | undefined;
  /** Origin of models of the Hugging Face hub, and the folder that keeps them. */
  hub?: HubOptions | undefined;
}

/** Every option and its kind. Builds, adapters and speculation are checked where they are used. */
export const LOAD_OPTIONS = {
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
  mmproj: KIND.any,
  imageMinTokens: whole(1),
  imageMaxTokens: whole(1),
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

export type ResolvedLoadOptions = Resolved<LoadOptions, typeof LOAD_OPTIONS>;

/** @throws ERR_INVALID_ARGUMENT naming the option, its value, and the expected or similar ones */
export const resolveLoadOptions = (options: LoadOptions | undefined): ResolvedLoadOptions =>
  resolveOptions<LoadOptions, typeof LOAD_OPTIONS>('loadModel', options, LOAD_OPTIONS);
