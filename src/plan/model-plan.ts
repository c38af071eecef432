/**
 * Plans of a model, and the address of everything in its memories, for one context length. Nothing
 * is loaded yet.
 */
import type { GraphInputs, ImageInputs, KvCache } from '../arch/architecture.ts';
import type { TensorInfo } from '../gguf/types.ts';
import type { InputSumTensors } from '../graph/input-sums.ts';
import type { GraphPlan, PlacedPlan } from '../graph/plan.ts';
import type { Tensor } from '../graph/tensor.ts';
import type { Crossing } from './links.ts';
import type { MemoryParts } from './memory-use.ts';
import type { NeuronRows } from './neurons.ts';
import type { RopeTable } from './sequence-leaves.ts';

/** A tensor of a file, and its tensor in memory. */
export type Weight = readonly [TensorInfo, Tensor];

/** A plan and its addresses. */
export interface Placed {
  readonly plan: GraphPlan;
  readonly placed: PlacedPlan;
}

/**
 * Weights of a layer that are read before its passes run, in the order of the files. Layers with
 * the same `window` share its memory.
 */
export interface Streams {
  readonly window: number;
  readonly weights: readonly Weight[];
}

/** Part of a step that one memory computes without a stop. */
export interface ModelPass extends Placed {
  readonly crossings: readonly Crossing[];
  readonly streams: Streams | undefined;
  /** Rows that are read before the pass runs. */
  readonly neurons: NeuronRows | undefined;
}

/**
 * Matrices of a memory that are packed after they have been read, and scratch of the threads that
 * read and pack them.
 */
export interface PackedByThreads {
  readonly matrices: readonly Weight[];
  /** i32 [matrices]: after packing, nonzero if one of the matrix's scales is Inf or NaN. */
  readonly broken: Tensor;
  /**
   * Address of the first thread's scratch, large enough for a piece of any matrix (pieceRows). The
   * next thread's scratch begins scratchSize bytes later.
   */
  readonly scratchAt: number;
  readonly scratchSize: number;
}

/** Packed matrices with a plan of one record for each, for hosts that read weights themselves. */
export interface Packing extends PackedByThreads, Placed {}

export interface ModelPlan {
  readonly contextLength: number;
  /** Cells of a slot: the context rounded up to whole KV splits. */
  readonly slotCells: number;
  readonly batchSize: number;
  readonly maxOutputs: number;
  /** Each input, once for every memory that reads it. Those of images: only with a projector. */
  readonly inputs: { readonly [K in keyof GraphInputs]: readonly Tensor[] } & { readonly [K in keyof ImageInputs]?: readonly Tensor[] };
  /** f32 [n_vocab or n_embd; n_outputs]. */
  readonly result: Tensor;
  readonly weights: readonly TensorInfo[];
  /** Weights that stay in memory, once for every memory that reads them. */
  readonly resident: readonly Weight[];
  readonly tokenRows: readonly TokenRows[];
  readonly tables: readonly RopeTable[];
  /** Sums of squares of the inputs of each measured matrix. */
  readonly inputSums: ReadonlyMap<string, InputSumTensors>;
  /** Inputs of each weight whose inputs are kept, for the last step's tokens: f32 [ne0, tokens]. */
  readonly keptInputs: ReadonlyMap<string, Tensor>;
  /**
   * One cache for each layer with attention, in order. All layers of an encoder share one. A layer
   * that attends to an encoder's prompt has another one for the prompt.
   */
  readonly caches: readonly KvCache[];
  /** States of recurrent layers, f32 [..., cells of all slots]. */
  readonly states: readonly Tensor[];
  /** Passes of a step, in order. */
  readonly passes: readonly ModelPass[];
  /** Passes of an encoder's step, if it reads prompts for a decoder. */
  readonly encoder: readonly ModelPass[];
  /** Packing of each memory: its records run once, one by one as weights are read. */
  readonly packings: readonly Packing[];
  /** Bytes of each memory. `memory` has the bytes of all by purpose. */
  readonly memories: readonly number[];
  readonly memory: MemoryParts;
  /** Bytes of weights if as few as possible are in memory at a time. */
  readonly leastWeights: number;
  /**
   * Tensors of the file that no op reads. Empty if the model makes vectors, which need fewer
   * tensors.
   */
  readonly unusedTensors: readonly string[];
  /** Form in memory of weights of IQ1 to IQ3 and TQ1_0 (load-options.ts), if there are any. */
  readonly iqWeights: 'compact' | 'fast' | undefined;
}

/**
 * A table of which a step reads one row per token, and the tensors that the host writes these rows
 * to.
 */
export interface TokenRows {
  readonly info: TensorInfo;
  /** In the table's type, [ne0, n_tokens]. */
  readonly tensors: readonly Tensor[];
}
