/**
 * Interface of an architecture, which builds a graph from metadata, and of the context that it
 * builds with.
 */
import type { GGUF } from '../gguf/types.ts';
import type { CacheRotation } from '../graph/attention-ops.ts';
import type { StateCells } from '../graph/recurrent.ts';
import type { Tensor } from '../graph/tensor.ts';
import type { HParams } from './hparams.ts';
import type { RopeParams } from './rope-table.ts';

export interface GraphInputs {
  /** Token ids, i32 [n_tokens]. */
  readonly ids: Tensor;
  /** Positions, i32 [n_tokens]. */
  readonly pos: Tensor;
  /** KV cells the tokens are stored to, i32 [n_tokens]. */
  readonly cells: Tensor;
  /** First cell of each token's sequence, i32 [n_tokens]. */
  readonly first: Tensor;
  /** Cells each token sees, from the first, i32 [n_tokens]. */
  readonly visible: Tensor;
  /**
   * Cells of the encoded prompt that each token of a decoder sees, i32 [n_tokens]. Only with an
   * encoder.
   */
  readonly encoded: Tensor;
  /** Indices of the tokens whose results are wanted, i32 [n_outputs]. */
  readonly outputs: Tensor;
  /** Indices of the tokens whose results are not wanted, i32 [n_tokens - n_outputs]. */
  readonly others: Tensor;
  /**
   * Recurrent state that each run of tokens continues from, i32 [RUN_WORDS, runs]
   * (graph/recurrent.ts).
   */
  readonly runs: Tensor;
}

/** Inputs for the tokens of images among a step's tokens. */
export interface ImageInputs {
  /** Embeddings of images, f32 [n_embd * (1 + deepstack), n_tokens]; zeros for tokens of text. */
  readonly rows: Tensor;
  /** 1 for tokens of text, 0 for those of images, f32 [1, n_tokens]. */
  readonly isText: Tensor;
  /** Positions of M-RoPE, i32 [n_tokens]: `pos` is the first of four. */
  readonly height: Tensor;
  readonly width: Tensor;
  /** Positions of tokens of sounds; 0 for all others. */
  readonly extra: Tensor;
  /** 0, 1, 2 ..., i32 [n_tokens]. */
  readonly order: Tensor;
  /** `pos` + FAR (attention-ops.ts), i32 [n_tokens], for windows of images without causal order. */
  readonly far: Tensor;
  /**
   * Number of cells that each token sees if no image is seen ahead, i32 [n_tokens]: `visible` of
   * layers that keep the causal order in all images.
   */
  readonly causal: Tensor;
}

/**
 * Result of a step for each output: next-token logits, the hidden state, or a reranker's scores.
 */
export type Wants = 'logits' | 'embeddings' | 'ranks';

/**
 * Keys and values of one layer: [padded head_dim, cells of all slots, n_head_kv] in the order of
 * assembly/ops/kv_cache.ts.
 */
export interface KvCache {
  readonly k: Tensor;
  readonly v: Tensor;
  readonly rotation: CacheRotation;
  readonly holds: CacheHolds;
}

/**
 * Contents of a cache: keys and values of a sequence's tokens, of a prompt as the encoder has read
 * it, or (in encoders) of one layer during one step.
 */
export type CacheHolds = 'sequence' | 'prompt' | 'step';

export interface GraphContext {
  readonly gguf: GGUF;
  readonly inputs: GraphInputs;
  readonly wants: Wants;
  /** Undefined if the model was loaded without a projector. */
  readonly images?: ImageInputs | undefined;
  /** Maximum number of tokens of a sequence, as loaded. */
  readonly contextLength: number;
  /** @see AttentionParams.unifiedMax */
  readonly unifiedMax?: number | undefined;
  /** Fraction of attention heads computed for tokens whose results are wanted. */
  readonly attnHeads?: number | undefined;
  /** Weights that only products of few rows read stay in the file and are read row by row. */
  readonly neuronsFromFile: boolean;
  has(name: string): boolean;
  /** Dimensions of a tensor (ne), as in the file. */
  shapeOf(name: string): readonly number[] | undefined;
  /**
   * A weight by its GGUF name; its shape is checked.
   * @throws ERR_MISSING_TENSOR, ERR_TENSOR_SHAPE
   */
  weight(name: string, ne: readonly number[]): Tensor;
  /**
   * A weight that the model can do without, as weight() returns it; undefined if the file lacks it.
   */
  optional(name: string, ne: readonly number[]): Tensor | undefined;
  /**
   * View of a weight that starts at row `from` (for a vector: at element `from`); undefined if the
   * file has no such weight.
   * @throws as weight
   */
  rowsOf(name: string, from: number, ne: readonly number[]): Tensor | undefined;
  /**
   * The row of `table` for each token of the step: f32 [ne0, n_tokens] (get_rows by inputs.ids).
   * The table may stay in the file and be read row by row.
   */
  tokenRows(table: Tensor): Tensor;
  /** Adapters of this weight. Each adds scale * b (a x) to the product. */
  loras(name: string): readonly { readonly a: Tensor; readonly b: Tensor; readonly scale: number }[];
  /**
   * The KV cache of a layer. `headDim` and `valueDim` are given if they differ from the model's.
   */
  cache(layer: number, headDim?: number, valueDim?: number, holds?: CacheHolds): KvCache;
  /**
   * Recurrent states by name, cells of f32 [ne0, ne1, ne2]. The same name gives the same states.
   */
  states(name: string, ne: readonly [number, number, number]): StateCells;
  /**
   * Angles, f32 [n_dims, n_ctx]. The same parameters give the same table.
   * @param factors name of a tensor whose values divide the frequencies, if the file has it
   */
  ropeTable(params: RopeParams, factors?: string): Tensor;
  /** Schedules nodes next, with everything they depend on (ggml_build_forward_expand). */
  expand(...nodes: Tensor[]): void;
}

export interface Architecture {
  readonly name: string;
  /**
   * Only for models with encoder and decoder. Builds the encoder's graph, which stores the keys and
   * values of the prompt in the decoder's caches. It runs in steps of its own.
   */
  encode?(hparams: HParams, context: GraphContext): void;
  /**
   * Builds the graph and returns its result: f32 [n_vocab, n_embd or labels; n_outputs], depending
   * on `wants`.
   */
  build(hparams: HParams, context: GraphContext): Tensor;
}
