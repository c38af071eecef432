/** A model's plans, and the address of everything in the memories, for one context length. Nothing is loaded yet. */
import type { GraphInputs, KvCache } from '../arch/architecture.ts';
import type { TensorInfo } from '../gguf/types.ts';
import type { InputSumTensors } from '../graph/input-sums.ts';
import type { GraphPlan, PlacedPlan } from '../graph/plan.ts';
import type { Tensor } from '../graph/tensor.ts';
import type { Crossing } from './links.ts';
import type { MemoryParts } from './memory-use.ts';
import type { NeuronRows } from './neurons.ts';
import type { RopeTable } from './sequence-leaves.ts';

/** A tensor of a file, and where it is in memory. */
export type Weight = readonly [TensorInfo, Tensor];

/** A plan and its place. */
export interface Placed {
  readonly plan: GraphPlan;
  readonly placed: PlacedPlan;
}

/** Weights of a layer that have to be read before its passes run, in the order of the files. Those with the same `window` lie in one place. */
export interface Streams {
  readonly window: number;
  readonly weights: readonly Weight[];
}

/** What is computed in one memory without a stop. */
export interface ModelPass extends Placed {
  readonly crossings: readonly Crossing[];
  readonly streams: Streams | undefined;
  /** Rows that are read before it runs. */
  readonly neurons: NeuronRows | undefined;
}

/** Matrices of a memory that are packed when they have been read, and what threads need that read and pack them. */
export interface PackedByThreads {
  readonly matrices: readonly Weight[];
  /** i32 [matrices]: after packing not 0 for those with an Inf or NaN among their scales. */
  readonly broken: Tensor;
  /** Address of the first thread's room for a piece of any of them (pieceRows); the next one's is scratchSize bytes further on. */
  readonly scratchAt: number;
  readonly scratchSize: number;
}

/** The same with a plan of one record for each matrix, for hosts that read by themselves. */
export interface Packing extends PackedByThreads, Placed {}

export interface ModelPlan {
  readonly contextLength: number;
  /** Cells of a slot: the context rounded up to whole KV splits. */
  readonly slotCells: number;
  readonly batchSize: number;
  readonly maxOutputs: number;
  /** Each in every memory where it is read. */
  readonly inputs: { readonly [K in keyof GraphInputs]: readonly Tensor[] };
  /** f32 [n_vocab or n_embd; n_outputs]. */
  readonly result: Tensor;
  readonly weights: readonly TensorInfo[];
  /** Those that stay in memory, each in every memory where it is read. */
  readonly resident: readonly Weight[];
  readonly tokenRows: readonly TokenRows[];
  readonly tables: readonly RopeTable[];
  /** Of those, the sums. */
  readonly inputSums: ReadonlyMap<string, InputSumTensors>;
  /** For each weight whose inputs are kept: what the last step's tokens gave it, f32 [ne0, tokens]. */
  readonly keptInputs: ReadonlyMap<string, Tensor>;
  /** One for each layer with attention, in order; one in all for an encoder, and one for each layer that looks back at what an encoder has read. */
  readonly caches: readonly KvCache[];
  /** States of recurrent layers, f32 [..., cells of all slots]. */
  readonly states: readonly Tensor[];
  /** What a step computes, in this order. */
  readonly passes: readonly ModelPass[];
  /** What a step of an encoder computes, where it reads prompts for a decoder. */
  readonly encoder: readonly ModelPass[];
  /** For each memory: runs once, record by record as weights are read. */
  readonly packings: readonly Packing[];
  /** Bytes of each memory, and what all of them are for. */
  readonly memories: readonly number[];
  readonly memory: MemoryParts;
  /** Bytes of weights at least, with as few as can be in memory at a time. */
  readonly leastWeights: number;
  /** Tensors of the file that no op reads; none where the model makes vectors, for which it needs less. */
  readonly unusedTensors: readonly string[];
  /** How its weights of IQ1 to IQ3 and TQ1_0 lie in memory (load-options.ts), where it has such. */
  readonly iqWeights: 'compact' | 'fast' | undefined;
}

/** A table of which a step reads a row a token, and where the host puts these rows. */
export interface TokenRows {
  readonly info: TensorInfo;
  /** In the table's type, [ne0, n_tokens]. */
  readonly tensors: readonly Tensor[];
}
