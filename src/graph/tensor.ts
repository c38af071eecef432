/**
 * A graph in ggml's vocabulary: plain nodes that name their op and sources. Nothing is computed
 * here: plan.ts orders the nodes, allocates their memory and writes the records that the kernels
 * read. This file has tensors, leaves and nodes; ops.ts has the ops.
 */
import { QuantletError, tell } from '../errors.ts';
import { TYPE, rowSize, type TypeTraits } from '../type-traits.ts';
import type { OpCode } from './kernels.ts';
import type { BATCH_COUNT, Layout } from './layout.ts';

export type Ne = readonly [number, number, number, number];

/** @see BATCH_COUNT */
export type BatchCount = keyof typeof BATCH_COUNT;

/** Value of a count in a step. */
export const inStep = (by: BatchCount, nTokens: number, nOutputs: number): number =>
  by === 'tokens' ? nTokens : by === 'outputs' ? nOutputs : nTokens - nOutputs;

/**
 * A dimension that follows the batch. `ne` has its capacity; begin() writes its value for each
 * step.
 */
export interface BatchDim {
  readonly dim: 0 | 1 | 2 | 3;
  readonly by: BatchCount;
}

/**
 * Op of a node: the name of a kernel, or an op that is lowered to several. Leaves and views need no
 * kernel.
 */
export type NodeOp = 'leaf' | 'view' | 'concat' | 'pad' | 'mul_mat_id' | 'flash_attn_ext' | Lowercase<OpCode>;

/**
 * ggml_tensor: `ne` elements and `nb` byte strides per dimension, dimension 0 fastest. Made by
 * leaf(), views and ops, never by hand. `T` is the name of its type, if TypeScript can tell:
 * Tensor<'f32'> is read as a Float32Array.
 */
export interface Tensor<T extends string = string> {
  readonly op: NodeOp;
  /** Name in messages and explain(). @see set_name */
  readonly name: string;
  readonly type: TypeTraits<T>;
  readonly ne: Ne;
  readonly nb: Ne;
  readonly src: readonly (Tensor | undefined)[];
  /** Numeric parameters of the op; the op defines their meaning. */
  readonly params: Readonly<Record<string, number>>;
  /** The dimension that follows a model's batch. @internal */
  readonly batch: BatchDim | undefined;
  /** The tensor whose memory a view uses, and the view's offset in bytes. */
  readonly viewOf: Tensor | undefined;
  readonly viewOffset: number;
  /** Returns the bytes of a constant leaf. @internal */
  readonly values: (() => Uint8Array) | undefined;
  /** Owner of the leaves' memory; undefined if whoever builds the graph allocates it. @internal */
  readonly owner: object | undefined;
  /** Form of its rows, plain or packed. @internal */
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

/**
 * Makes a node; messages call it `name`.
 * @throws ERR_TENSOR_SHAPE for sources of two engines
 */
export function node<T extends string = 'f32'>(op: NodeOp, ne: Ne, init: NodeInit<T> = {}): Tensor<T> {
  const type = init.type ?? (TYPE.f32 as TypeTraits as TypeTraits<T>);
  const src = init.src ?? [];
  const owners = src.filter((t) => t?.owner) as Tensor[];
  if (owners.some((t) => t.owner !== owners[0].owner))
    refuse(init.name || op, 'expected tensors of one engine; copy one of them with read and write', ...owners);
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

/** @param why the end of the message; a function if composing it takes time */
export const must = (ok: boolean, op: string, why: string | (() => string), ...tensors: (Tensor | undefined)[]): void => {
  if (!ok) refuse(op, typeof why === 'string' ? why : why(), ...tensors);
};

/** The end of a message about a tensor that follows the batch. */
export const NOT_FIXED = 'its dimensions follow the batch; expected fixed ones';

/** Bytes from the first element to the end of the last. */
export const nbytes = (t: Tensor): number =>
  t.type.blckSize > 1
    ? rowSize(t.type, t.ne[0]) + (t.ne[1] - 1) * t.nb[1] + (t.ne[2] - 1) * t.nb[2] + (t.ne[3] - 1) * t.nb[3]
    : t.type.typeSize + t.ne.reduce((sum, n, i) => sum + (n - 1) * t.nb[i], 0);

export const nelements = (t: Tensor): number => t.ne[0] * t.ne[1] * t.ne[2] * t.ne[3];

/** The tensor whose memory `t` lies in: itself, unless it is a view. */
export const baseOf = (t: Tensor): Tensor => t.viewOf ?? t;

/** True if elements lie in order, without gaps (ggml_is_contiguous). */
export const isContiguous = (t: Tensor): boolean =>
  contiguousNb(t.type, t.ne).every((n, i) => t.nb[i] === n || (t.ne[i] === 1 && (i > 0 || t.type.blckSize === 1)));

/** True if the elements of a row are contiguous. */
export const hasContiguousRows = (t: Tensor): boolean => t.nb[0] === t.type.typeSize;

/**
 * True if elements may share memory (repeats by nb 0, sliding windows): such a tensor can be read,
 * but not written.
 */
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

/** A supposed list of numbers, as text for a message. */
export const list = (given: unknown): string => (Array.isArray(given) ? `[${given.map(tell).join(', ')}]` : tell(given));

/**
 * [n0, 1, 1, 1] and so on.
 * @throws ERR_TENSOR_SHAPE if a dimension is not a whole number above 0, or if there are more than
 * four
 */
export function fourDims(op: string, ne: readonly number[]): Ne {
  if (!Array.isArray(ne) || ne.length === 0 || ne.length > 4 || ne.some((n) => !Number.isSafeInteger(n) || n < 1)) {
    throw new QuantletError('ERR_TENSOR_SHAPE', `${op}: ne is ${list(ne)}; expected one to four whole numbers of at least 1`);
  }
  return [ne[0], ne[1] ?? 1, ne[2] ?? 1, ne[3] ?? 1];
}

/** A tensor whose memory exists before the graph runs: weights, caches, inputs. */
export const leaf = <T extends string>(name: string, type: TypeTraits<T>, ne: Ne, batch?: BatchDim, owner?: object): Tensor<T> =>
  node('leaf', ne, { name, type, batch, owner });

/** A leaf with bytes of its own. */
export const constant = <T extends string>(name: string, type: TypeTraits<T>, ne: Ne, values: () => Uint8Array): Tensor<T> =>
  node('leaf', ne, { name, type, values });
