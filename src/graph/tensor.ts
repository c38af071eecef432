/**
 * A graph in ggml's vocabulary: plain nodes that name their op and sources. Nothing is computed here;
 * plan.ts orders them, gives them memory and writes the records that the kernels read.
 */
import { QuantletError } from '../errors.ts';
import { TYPE, rowSize, type TypeTraits } from '../type-traits.ts';
import type { Layout } from './layout.ts';

export type Ne = readonly [number, number, number, number];

/** A dimension that follows the batch: its capacity is in `ne`, its value of the moment is written by begin(). */
export interface BatchDim {
  readonly dim: 0 | 1 | 2 | 3;
  readonly by: 'tokens' | 'outputs';
}

export type NodeOp =
  | 'leaf'
  | 'view'
  | 'get_rows'
  | 'mul_mat'
  | 'rms_norm'
  | 'rope'
  | 'set_rows'
  | 'flash_attn_ext'
  | 'add'
  | 'swiglu';

export interface Tensor {
  readonly op: NodeOp;
  readonly name: string;
  readonly type: TypeTraits;
  readonly ne: Ne;
  readonly nb: Ne;
  readonly src: readonly Tensor[];
  /** Numbers the kernel takes; a field's meaning is the op's. */
  readonly params: Readonly<Record<string, number>>;
  readonly batch: BatchDim | undefined;
  /** The tensor whose memory a view looks into, and where. */
  readonly viewOf: Tensor | undefined;
  readonly viewOffset: number;
  layout: Layout;
  /** Address in the arena; leaves get theirs from their owner, nodes from the plan. */
  data: number;
}

const contiguous = (type: TypeTraits, ne: Ne): Ne => {
  const nb1 = rowSize(type, ne[0]);
  return [type.typeSize, nb1, nb1 * ne[1], nb1 * ne[1] * ne[2]];
};

interface Init {
  name?: string;
  type?: TypeTraits;
  nb?: Ne;
  src?: readonly Tensor[];
  params?: Record<string, number>;
  batch?: BatchDim | undefined;
  viewOf?: Tensor;
  viewOffset?: number;
}

function node(op: NodeOp, ne: Ne, init: Init = {}): Tensor {
  const type = init.type ?? TYPE.f32;
  return {
    op,
    name: init.name ?? '',
    type,
    ne,
    nb: init.nb ?? contiguous(type, ne),
    src: init.src ?? [],
    params: init.params ?? {},
    batch: init.batch,
    viewOf: init.viewOf,
    viewOffset: init.viewOffset ?? 0,
    layout: 'plain',
    data: 0,
  };
}

export const shape = (t: Tensor): string => `${t.name || t.op} ${t.type.name} [${t.ne.join(', ')}]`;

const mustMatch = (op: string, ok: boolean, ...tensors: Tensor[]): void => {
  if (!ok) throw new QuantletError('ERR_TENSOR_SHAPE', `${op}: shapes do not fit: ${tensors.map(shape).join(' and ')}`);
};

/** Bytes from the first to behind the last element. */
export const nbytes = (t: Tensor): number =>
  rowSize(t.type, t.ne[0]) + (t.ne[1] - 1) * t.nb[1] + (t.ne[2] - 1) * t.nb[2] + (t.ne[3] - 1) * t.nb[3];

/** Memory that exists before the graph runs: weights, caches, inputs. */
export const leaf = (name: string, type: TypeTraits, ne: Ne, batch?: BatchDim): Tensor => node('leaf', ne, { name, type, batch });

/** The same contiguous elements under other dimensions. The batch dimension, if any, is the last of both. */
export function reshape(a: Tensor, ne: Ne, batch: BatchDim | undefined = a.batch): Tensor {
  mustMatch('reshape', ne.reduce((p, n) => p * n) === a.ne.reduce((p, n) => p * n), a);
  return node('view', ne, { type: a.type, batch, viewOf: a.viewOf ?? a, viewOffset: a.viewOffset, src: [a] });
}

/** ggml_get_rows: a [n, m], ids i32 [k] -> f32 [n, k]. */
export const get_rows = (a: Tensor, ids: Tensor): Tensor =>
  node('get_rows', [a.ne[0], ids.ne[0], 1, 1], { src: [a, ids], batch: ids.batch && { dim: 1, by: ids.batch.by } });

/** ggml_mul_mat: a [k, n, ne02, ne03], b [k, m, ne12, ne13] -> f32 [n, m, ne12, ne13]; a is broadcast over dimensions 2 and 3. */
export function mul_mat(a: Tensor, b: Tensor): Tensor {
  mustMatch('mul_mat', a.ne[0] === b.ne[0] && b.ne[2] % a.ne[2] === 0 && b.ne[3] % a.ne[3] === 0, a, b);
  return node('mul_mat', [a.ne[1], b.ne[1], b.ne[2], b.ne[3]], { src: [a, b], batch: b.batch });
}

/** ggml_rms_norm, times the weight [ne0]. */
export function rms_norm(a: Tensor, weight: Tensor, eps: number): Tensor {
  mustMatch('rms_norm', weight.ne[0] === a.ne[0], a, weight);
  return node('rms_norm', a.ne, { src: [a, weight], params: { eps }, batch: a.batch });
}

/** ggml_rope_ext with its angles in `table` f32 [n_dims, n_ctx]; a [head_dim, n_head, n_tokens], pos i32 [n_tokens]. */
export function rope(a: Tensor, pos: Tensor, table: Tensor, neox: boolean): Tensor {
  mustMatch('rope', table.ne[0] <= a.ne[0] && table.ne[0] % 2 === 0 && pos.ne[0] === a.ne[2], a, pos, table);
  return node('rope', a.ne, { src: [a, pos, table], params: { n_dims: table.ne[0], neox: neox ? 1 : 0 }, batch: a.batch });
}

/** ggml_set_rows into a cache (assembly/kv_cache.ts): a [head_dim, n_head_kv, n_tokens] goes to cells i32 [n_tokens]. */
export const set_rows = (cache: Tensor, a: Tensor, cells: Tensor, order: 'k' | 'v'): Tensor =>
  node('set_rows', cache.ne, { type: cache.type, src: [a, cells, cache], params: { v: order === 'v' ? 1 : 0 }, viewOf: cache });

export interface AttentionParams {
  scale: number;
  /** Keys a token sees at most, itself included; 0: all. */
  window?: number;
  /** Scores become cap * tanh(score / cap); 0: none. */
  softCap?: number;
}

/**
 * ggml_flash_attn_ext over the cache: q [head_dim, n_head, n_tokens]; K and V caches [head_dim padded, cells, n_head_kv];
 * first i32 [n_tokens]: the first cell of the token's sequence, visible i32 [n_tokens]: cells it sees -> f32 [head_dim * n_head, n_tokens].
 */
export function flash_attn_ext(q: Tensor, k: Tensor, v: Tensor, first: Tensor, visible: Tensor, p: AttentionParams): Tensor {
  mustMatch('flash_attn_ext', q.ne[1] % k.ne[2] === 0 && q.ne[0] <= k.ne[0], q, k);
  return node('flash_attn_ext', [q.ne[0] * q.ne[1], q.ne[2], 1, 1], {
    src: [q, k, v, first, visible],
    params: { scale: p.scale, window: p.window ?? 0, soft_cap: p.softCap ?? 0 },
    batch: q.batch && { dim: 1, by: q.batch.by },
  });
}

/** ggml_add of equal shapes. */
export function add(a: Tensor, b: Tensor): Tensor {
  mustMatch('add', a.ne.every((n, i) => n === b.ne[i]), a, b);
  return node('add', a.ne, { src: [a, b], batch: a.batch });
}

/** ggml_swiglu_split: silu(gate) * up. */
export function swiglu(gate: Tensor, up: Tensor): Tensor {
  mustMatch('swiglu', gate.ne.every((n, i) => n === up.ne[i]), gate, up);
  return node('swiglu', gate.ne, { src: [gate, up], batch: gate.batch });
}
