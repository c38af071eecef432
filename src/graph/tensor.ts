/**
 * A graph in ggml's vocabulary: plain nodes that name their op and sources. Nothing is computed here; plan.ts orders them,
 * gives them memory and writes the records that the kernels read. Here: what a tensor is, leaves and views; ops.ts has the rest.
 */
import { QuantletError, tell } from '../errors.ts';
import { TYPE, rowSize, type TypeTraits } from '../type-traits.ts';
import type { OpCode } from './kernels.ts';
import type { Layout } from './layout.ts';

export type Ne = readonly [number, number, number, number];

/** What there is of a batch: its tokens, those whose results are wanted, and the others. In the order of begin() (assembly/runtime/compute.ts). */
export const BATCH_COUNTS = ['tokens', 'outputs', 'others'] as const;
export type BatchCount = (typeof BATCH_COUNTS)[number];

/** How many of them a step has. */
export const inStep = (by: BatchCount, nTokens: number, nOutputs: number): number =>
  by === 'tokens' ? nTokens : by === 'outputs' ? nOutputs : nTokens - nOutputs;

/** A dimension that follows the batch: its capacity is in `ne`, its value of the moment is written by begin(). */
export interface BatchDim {
  readonly dim: 0 | 1 | 2 | 3;
  readonly by: BatchCount;
}

/** What makes a node: a kernel by its name, or what is lowered to several; leaves and views need none. */
export type NodeOp = 'leaf' | 'view' | 'concat' | 'pad' | 'mul_mat_id' | 'flash_attn_ext' | Lowercase<OpCode>;

/**
 * ggml_tensor: `ne` elements and `nb` byte strides per dimension, dimension 0 fastest. Made by leaf(), views and ops, never by hand.
 * `T` is its type's name, where TypeScript can tell: Tensor<'f32'> is read as a Float32Array.
 */
export interface Tensor<T extends string = string> {
  readonly op: NodeOp;
  /** What messages and explain() call it. @see set_name */
  readonly name: string;
  readonly type: TypeTraits<T>;
  readonly ne: Ne;
  readonly nb: Ne;
  readonly src: readonly (Tensor | undefined)[];
  /** Numbers the kernel takes; a field's meaning is the op's. */
  readonly params: Readonly<Record<string, number>>;
  /** The dimension that follows a model's batch. @internal */
  readonly batch: BatchDim | undefined;
  /** The tensor whose memory a view looks into, and where. */
  readonly viewOf: Tensor | undefined;
  readonly viewOffset: number;
  /** A constant leaf's bytes, made when they are wanted. @internal */
  readonly values: (() => Uint8Array) | undefined;
  /** Whose memory the leaves lie in; undefined where the graph's maker sees to that. @internal */
  readonly owner: object | undefined;
  /** Whether its rows are packed. @internal */
  layout: Layout;
  /** Address in the arena; leaves get theirs from their owner, nodes from the plan. @internal */
  data: number;
}

export const contiguousNb = (type: TypeTraits, ne: Ne): Ne => {
  const nb1 = rowSize(type, ne[0]);
  return [type.typeSize, nb1, nb1 * ne[1], nb1 * ne[1] * ne[2]];
};

export interface NodeInit<T extends string> {
  name?: string;
  type?: TypeTraits<T>;
  nb?: Ne;
  src?: readonly (Tensor | undefined)[];
  params?: Record<string, number>;
  batch?: BatchDim | undefined;
  viewOf?: Tensor;
  viewOffset?: number;
  values?: () => Uint8Array;
  owner?: object;
}

/** A node; `name` is what messages call it. @throws ERR_TENSOR_SHAPE where sources are of two engines */
export function node<T extends string = 'f32'>(op: NodeOp, ne: Ne, init: NodeInit<T> = {}): Tensor<T> {
  const type = init.type ?? (TYPE.f32 as TypeTraits as TypeTraits<T>);
  const src = init.src ?? [];
  const owners = src.filter((t) => t?.owner) as Tensor[];
  if (owners.some((t) => t.owner !== owners[0].owner))
    refuse(init.name || op, 'the tensors belong to two engines; copy one of them with read and write', ...owners);
  return {
    op,
    name: init.name ?? '',
    type,
    ne,
    nb: init.nb ?? contiguousNb(type, ne),
    src,
    params: init.params ?? {},
    batch: init.batch,
    viewOf: init.viewOf && (init.viewOf.viewOf ?? init.viewOf),
    viewOffset: (init.viewOffset ?? 0) + (init.viewOf?.viewOffset ?? 0),
    values: init.values,
    owner: init.owner ?? owners[0]?.owner,
    layout: 'plain',
    data: 0,
  };
}

export const shape = (t: Tensor): string => `${t.name || t.op} ${t.type.name} [${t.ne.join(', ')}]`;

/** @throws ERR_TENSOR_SHAPE naming the op and all shapes */
export function refuse(op: string, why: string, ...tensors: (Tensor | undefined)[]): never {
  throw new QuantletError(
    'ERR_TENSOR_SHAPE',
    `${op}: ${tensors
      .filter((t) => t !== undefined)
      .map(shape)
      .join(' and ')}: ${why}`,
  );
}

export const must = (ok: boolean, op: string, why: string, ...tensors: (Tensor | undefined)[]): void => {
  if (!ok) refuse(op, why, ...tensors);
};

/** Bytes from the first to behind the last element. */
export const nbytes = (t: Tensor): number =>
  t.type.blckSize > 1
    ? rowSize(t.type, t.ne[0]) + (t.ne[1] - 1) * t.nb[1] + (t.ne[2] - 1) * t.nb[2] + (t.ne[3] - 1) * t.nb[3]
    : t.type.typeSize + t.ne.reduce((sum, n, i) => sum + (n - 1) * t.nb[i], 0);

export const nelements = (t: Tensor): number => t.ne[0] * t.ne[1] * t.ne[2] * t.ne[3];

/** No gaps, in order (ggml_is_contiguous). */
export const isContiguous = (t: Tensor): boolean =>
  contiguousNb(t.type, t.ne).every((n, i) => t.nb[i] === n || (t.ne[i] === 1 && (i > 0 || t.type.blckSize === 1)));

/** A row's elements lie side by side. */
export const hasContiguousRows = (t: Tensor): boolean => t.nb[0] === t.type.typeSize;

/** Whether elements may lie in one place (repeats by nb 0, windows that slide): such a tensor can be read, but not written. */
export function overlapsItself(t: Tensor): boolean {
  const dims = [0, 1, 2, 3].filter((i) => t.ne[i] > (i === 0 ? t.type.blckSize : 1)).sort((i, j) => t.nb[i] - t.nb[j] || i - j);
  let end = t.type.typeSize;
  for (const i of dims) {
    if (t.nb[i] < end) return true;
    end += (t.ne[i] / (i === 0 ? t.type.blckSize : 1) - 1) * t.nb[i];
  }
  return false;
}

export const sameShape = (a: Tensor, b: Tensor): boolean => a.ne.every((n, i) => n === b.ne[i]);

/** What should be a list of numbers, in a message. */
export const list = (given: unknown): string => (Array.isArray(given) ? `[${given.map(tell).join(', ')}]` : tell(given));

/** [n0, 1, 1, 1] and so on. @throws ERR_TENSOR_SHAPE where a dimension is not a whole number above 0, or there are more than four */
export function fourDims(op: string, ne: readonly number[]): Ne {
  if (!Array.isArray(ne) || ne.length === 0 || ne.length > 4 || ne.some((n) => !Number.isSafeInteger(n) || n < 1)) {
    throw new QuantletError('ERR_TENSOR_SHAPE', `${op}: ne is ${list(ne)}; expected one to four whole numbers of at least 1`);
  }
  return [ne[0], ne[1] ?? 1, ne[2] ?? 1, ne[3] ?? 1];
}

/** Memory that exists before the graph runs: weights, caches, inputs. */
export const leaf = <T extends string>(name: string, type: TypeTraits<T>, ne: Ne, batch?: BatchDim, owner?: object): Tensor<T> =>
  node('leaf', ne, { name, type, batch, owner });

/** A leaf whose bytes the graph brings along. */
export const constant = <T extends string>(name: string, type: TypeTraits<T>, ne: Ne, values: () => Uint8Array): Tensor<T> =>
  node('leaf', ne, { name, type, values });
