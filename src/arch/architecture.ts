/** What an architecture's file gives (a graph made from metadata, nothing else), and what it is given to build with. */
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
  /** Cells of its prompt that each token of a decoder sees, where an encoder has read it, i32 [n_tokens]. */
  readonly encoded: Tensor;
  /** Which tokens' results are wanted, i32 [n_outputs]. */
  readonly outputs: Tensor;
  /** The other tokens, i32 [n_tokens - n_outputs]. */
  readonly others: Tensor;
  /** Which recurrent states the tokens go on from, i32 [RUN_WORDS, runs] (graph/recurrent.ts). */
  readonly runs: Tensor;
}

/** What a step is to give for each output: next-token logits, the hidden state, or a reranker's scores. */
export type Wants = 'logits' | 'embeddings' | 'ranks';

/** Keys and values of one layer: [padded head_dim, cells of all slots, n_head_kv] in the order of assembly/ops/kv_cache.ts. */
export interface KvCache {
  readonly k: Tensor;
  readonly v: Tensor;
  readonly rotation: CacheRotation;
  readonly holds: CacheHolds;
}

/** Whose keys and values a cache has: those of a sequence's tokens, of its prompt as an encoder has read it, or, in encoders, of one layer in one step. */
export type CacheHolds = 'sequence' | 'prompt' | 'step';

export interface GraphContext {
  readonly gguf: GGUF;
  readonly inputs: GraphInputs;
  readonly wants: Wants;
  /** Tokens of a sequence at most, as loaded. */
  readonly contextLength: number;
  /** @see AttentionParams.unifiedMax */
  readonly unifiedMax?: number | undefined;
  /** Of attention's heads, the share that tokens are computed with whose results are wanted. */
  readonly attnHeads?: number | undefined;
  /** Rows of weights that only products of few rows read stay in the file. */
  readonly neuronsFromFile: boolean;
  has(name: string): boolean;
  /** A tensor's dimensions as the file has them. */
  shapeOf(name: string): readonly number[] | undefined;
  /** A weight by its GGUF name; its shape is checked. @throws ERR_MISSING_TENSOR, ERR_TENSOR_SHAPE */
  weight(name: string, ne: readonly number[]): Tensor;
  /** The same where the model may do without. */
  optional(name: string, ne: readonly number[]): Tensor | undefined;
  /** Rows of a weight from one on, or elements of a vector, by themselves; undefined where the file has none of the name. @throws as weight */
  rowsOf(name: string, from: number, ne: readonly number[]): Tensor | undefined;
  /** The row of a table that each token of the step names: f32 [ne0, n_tokens] (get_rows by inputs.ids). The table may stay in its file for it. */
  tokenRows(table: Tensor): Tensor;
  /** What adapters add to the product with this weight: scale * b (a x). */
  loras(name: string): readonly { readonly a: Tensor; readonly b: Tensor; readonly scale: number }[];
  /** The KV cache of a layer. Dimensions of its heads, where they are not all layers', and of those of values, where they differ. */
  cache(layer: number, headDim?: number, valueDim?: number, holds?: CacheHolds): KvCache;
  /** Recurrent states by a name, cells of f32 [ne0, ne1, ne2]; the same name gives the same. */
  states(name: string, ne: readonly [number, number, number]): StateCells;
  /** f32 [n_dims, n_ctx] of angles; the same parameters give the same table. `factors`: a tensor whose values divide the frequencies, if the file has it. */
  ropeTable(params: RopeParams, factors?: string): Tensor;
  /** Puts nodes next in the order of computation, with all they need (ggml_build_forward_expand). */
  expand(...nodes: Tensor[]): void;
}

export interface Architecture {
  readonly name: string;
  /** Where an encoder reads prompts before the decoder writes: builds what stores their keys and values to caches. Its steps are others than those of `build`. */
  encode?(hparams: HParams, context: GraphContext): void;
  /** Builds the graph and returns its result: f32 [n_vocab, n_embd or labels; n_outputs], as `wants` says. */
  build(hparams: HParams, context: GraphContext): Tensor;
}
