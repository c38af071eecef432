/** Ops row by row: norms, rotation, soft_max, sums, orders, pooling. @see ops.ts */
import { checkOptions, checkValue, KIND, oneOf, required, type Kinds } from '../options.ts';
import { TYPE, type TypeTraits } from '../type-traits.ts';
import { slopesOf } from './alibi.ts';
import { isFwhtSize } from './fwht-size.ts';
import { EPS, ints, isFloat, mustBe, mustBeRows, mustBeWritable, operand, OPERAND, optional, ROW, type Operand } from './operands.ts';
import { NOT_FIXED, must, nelements, node, sameShape, type BatchDim, type Tensor } from './tensor.ts';
import { reshape } from './views.ts';

export interface L2NormOptions {
  /** Smallest length that a row is divided by. */
  eps: number;
}

export interface RmsNormOptions {
  /**
   * Added to the mean square before the square root. Models have their own, mostly 1e-5 or 1e-6.
   */
  eps: number;
  /** [ne0], multiplies each row. */
  weight?: Operand | undefined;
}

export interface NormOptions extends RmsNormOptions {
  /** [ne0], added to each row. */
  bias?: Operand | undefined;
}

function normNode(op: 'norm' | 'rms_norm' | 'l2_norm', a: Tensor, { eps, ...rows }: NormOptions): Tensor<'f32'> {
  mustBeRows(op, a);
  const weight = optional(op, 'weight', rows.weight);
  const bias = optional(op, 'bias', rows.bias);
  for (const w of [weight, bias]) {
    if (!w) continue;
    mustBe(op, isFloat(w), 'f32, f16 or bf16', a, w);
    must(w.ne[0] === a.ne[0] && nelements(w) === w.ne[0], op, 'expected one row of ne0 numbers for weight and bias', a, w);
  }
  return node(op, a.ne, { src: [a, weight, bias], params: { eps }, batch: a.batch });
}

/**
 * ggml_rms_norm over dimension 0, times the weight if given. All norms: f32, f16 or bf16 -> f32 of
 * the same shape.
 */
export const rms_norm = (a: Tensor, options: RmsNormOptions): Tensor<'f32'> =>
  normNode('rms_norm', a, checkOptions<RmsNormOptions>('rms_norm', options, { eps: EPS, weight: ROW }));
/** ggml_norm (layer norm) over dimension 0, times the weight and plus the bias, if given. */
export const norm = (a: Tensor, options: NormOptions): Tensor<'f32'> =>
  normNode('norm', a, checkOptions<NormOptions>('norm', options, { eps: EPS, weight: ROW, bias: ROW }));
/** ggml_l2_norm: each row divided by the larger of its Euclidean length and eps. */
export const l2_norm = (a: Tensor, options: L2NormOptions): Tensor<'f32'> =>
  normNode('l2_norm', a, checkOptions<L2NormOptions>('l2_norm', options, { eps: EPS }));

export interface FwhtOptions {
  /**
   * Elements that are transformed together, a divisor of ne0: 2^k, or 12, 20 or 28 times 2^k.
   * Default ne0.
   */
  n?: number | undefined;
}

function fwhtNode(op: 'fwht' | 'fwht_inplace', a: Tensor, options: FwhtOptions | undefined): Tensor<'f32'> {
  mustBeRows(op, a);
  const { n = a.ne[0] } = checkOptions<FwhtOptions>(op, options, { n: KIND.size });
  must(isFwhtSize(n) && a.ne[0] % n === 0, op, `n is ${n}; expected 2^k, or 12, 20 or 28 times 2^k, that divides ne0`, a);
  const init = { name: op, src: [a], params: { n }, batch: a.batch };
  if (op === 'fwht') return node('fwht', a.ne, init);
  mustBe(op, a.type === TYPE.f32, 'f32, as it is changed in place', a);
  mustBeWritable(op, a);
  return node('fwht', a.ne, { ...init, nb: a.nb, viewOf: a });
}

/**
 * Orthonormal Walsh-Hadamard transform of each n elements of a row, in n log n steps (in ggml:
 * ggml_mul_mat by such a matrix, GGML_HINT_SRC0_IS_HADAMARD). f32, f16 or bf16 -> f32 of the same
 * shape. The transform is its own inverse. For n = m 2^k the matrix is the Kronecker product of a
 * symmetric matrix of order m (Paley's second construction) and Sylvester's.
 */
export const fwht = (a: Tensor, options?: FwhtOptions): Tensor<'f32'> => fwhtNode('fwht', a, options);
/**
 * fwht() of f32 whose result replaces `a` in its memory; no op may need a's old values afterwards.
 */
export const fwht_inplace = (a: Tensor, options?: FwhtOptions): Tensor<'f32'> => fwhtNode('fwht_inplace', a, options);

export interface SoftMaxOptions {
  /** f32 or f16 [ne0, at least ne1, divides ne2, divides ne3], added to the scaled elements. */
  mask?: Operand | undefined;
  /** Default 1. */
  scale?: number | undefined;
  /**
   * Above 0: ALiBi (arXiv 2108.12409), which multiplies the mask by a slope for each index of
   * dimension 2. Default 0.
   */
  maxBias?: number | undefined;
}

const SOFT_MAX_OPTIONS: Kinds<SoftMaxOptions> = { mask: OPERAND, scale: KIND.number, maxBias: KIND.atLeast0 };

/**
 * ggml_soft_max_ext: softmax(scale * a + slope * mask) over dimension 0, f32, f16 or bf16 -> f32.
 */
export function soft_max(a: Tensor, options?: SoftMaxOptions): Tensor<'f32'> {
  const p = checkOptions<SoftMaxOptions>('soft_max', options, SOFT_MAX_OPTIONS);
  const { scale: s = 1, maxBias = 0 } = p;
  mustBeRows('soft_max', a);
  const mask = optional('soft_max', 'mask', p.mask);
  if (mask) {
    mustBe('soft_max', mask.type === TYPE.f32 || mask.type === TYPE.f16, 'a mask of f32 or f16', a, mask);
    must(
      mask.ne[0] === a.ne[0] && mask.ne[1] >= a.ne[1] && a.ne[2] % mask.ne[2] === 0 && a.ne[3] % mask.ne[3] === 0,
      'soft_max',
      'expected a mask with ne0 columns and at least ne1 rows, whose ne2 and ne3 divide those of the tensor',
      a,
      mask,
    );
  }
  must(maxBias === 0 || mask !== undefined, 'soft_max', 'maxBias is given without a mask; expected both, because it scales the mask', a);
  return node('soft_max', a.ne, {
    src: [a, mask, maxBias > 0 ? slopesOf(a.ne[2], maxBias) : undefined],
    params: { scale: s },
    batch: a.batch,
  });
}

/** ggml_diag_mask_inf: -Infinity where i0 > n_past + i1, f32, f16 or bf16 -> f32. */
export function diag_mask_inf(a: Tensor, nPast: number): Tensor<'f32'> {
  mustBeRows('diag_mask_inf', a);
  checkValue('diag_mask_inf', 'nPast', nPast, { is: Number.isSafeInteger, expected: 'a whole number' });
  return node('diag_mask_inf', a.ne, { src: [a], params: { n_past: nPast }, batch: a.batch });
}

const rowsTo = <T extends 'f32' | 'i32'>(
  op: 'sum_rows' | 'top_k' | 'pool_1d',
  name: string,
  type: TypeTraits<T>,
  a: Tensor,
  ne0: number,
  params: Record<string, number>,
): Tensor<T> => node<T>(op, [ne0, a.ne[1], a.ne[2], a.ne[3]], { name, type, src: [a], params, batch: a.batch });

/** ggml_sum_rows: f32, f16 or bf16 -> f32 [1, ne1, ne2, ne3]. */
export function sum_rows(a: Tensor): Tensor<'f32'> {
  mustBeRows('sum_rows', a);
  return rowsTo('sum_rows', 'sum_rows', TYPE.f32, a, 1, { scale: 1 });
}

/** ggml_mean, as sum_rows. */
export function mean(a: Tensor): Tensor<'f32'> {
  mustBeRows('mean', a);
  return rowsTo('sum_rows', 'mean', TYPE.f32, a, 1, { scale: 1 / a.ne[0] });
}

/**
 * ggml_sum of all elements: f32, f16 or bf16 -> f32 [1]. The sum of each row is rounded to f32
 * before the sums are added.
 */
export function sum(a: Tensor): Tensor<'f32'> {
  mustBeRows('sum', a);
  must(!a.batch, 'sum', NOT_FIXED, a);
  const rows = sum_rows(a);
  const n = nelements(rows);
  return n === 1 ? rows : sum_rows(reshape(rows, [n]));
}

export interface ArgsortOptions {
  /** 'desc': largest first; 'asc': smallest first. Default 'desc'. */
  order?: 'asc' | 'desc' | undefined;
}

/**
 * ggml_argsort of each row of f32, f16 or bf16 -> i32 indices. Equal elements keep their order;
 * NaNs come last in both orders.
 */
export function argsort(a: Tensor, options?: ArgsortOptions): Tensor<'i32'> {
  const { order } = checkOptions<ArgsortOptions>('argsort', options, { order: oneOf('asc', 'desc') });
  mustBeRows('argsort', a);
  return rowsTo('top_k', 'argsort', TYPE.i32, a, a.ne[0], { ascending: order === 'asc' ? 1 : 0 });
}

/**
 * ggml_top_k of each row of f32, f16 or bf16 -> i32 [k, ne1, ne2, ne3]: indices of the k largest
 * elements in argsort's order.
 */
export function top_k(a: Tensor, k: number): Tensor<'i32'> {
  mustBeRows('top_k', a);
  checkValue('top_k', 'k', k, KIND.size);
  must(k <= a.ne[0], 'top_k', `k is ${k}; expected at most the ${a.ne[0]} elements of a row`, a);
  return rowsTo('top_k', 'top_k', TYPE.i32, a, k, { ascending: 0 });
}

/**
 * ggml_argmax of each row of a matrix of f32, f16 or bf16 -> i32 [ne1]: the index that argsort puts
 * first.
 */
export function argmax(a: Tensor): Tensor<'i32'> {
  mustBeRows('argmax', a);
  must(a.ne[2] === 1 && a.ne[3] === 1, 'argmax', 'expected a matrix', a);
  return node('argmax', [a.ne[1], 1, 1, 1], { type: TYPE.i32, src: [a], batch: a.batch && { dim: 0, by: a.batch.by } });
}

export interface Pool1dOptions {
  /** Largest element or average of a window. */
  kind: 'max' | 'avg';
  /** Elements of a window. */
  k: number;
  /** Elements from one window to the next. */
  s: number;
}

const POOL_1D_OPTIONS: Kinds<Pool1dOptions> = { kind: required(oneOf('max', 'avg')), k: required(KIND.size), s: required(KIND.size) };

/**
 * ggml_pool_1d without padding: largest element or average of k elements, every s elements. f32,
 * f16 or bf16 [n, ...] -> f32 [(n - k) / s + 1, ...].
 */
export function pool_1d(a: Tensor, options: Pool1dOptions): Tensor<'f32'> {
  const { kind, k, s } = checkOptions<Pool1dOptions>('pool_1d', options, POOL_1D_OPTIONS);
  mustBeRows('pool_1d', a);
  must(k <= a.ne[0], 'pool_1d', `k is ${k}; expected at most the ${a.ne[0]} elements of a row`, a);
  return rowsTo('pool_1d', 'pool_1d', TYPE.f32, a, Math.floor((a.ne[0] - k) / s) + 1, { avg: kind === 'avg' ? 1 : 0, k, s });
}

/**
 * Mean pooling of embeddings: row i of the result is the mean of rows from[i] to before from[i] +
 * count[i] of a [n, n_tokens]. from and count i32 [k] -> f32 [n, k]. Rows out of range give a row
 * of NaN.
 */
export function mean_of_rows(a: Tensor, first: Operand, counts: Operand): Tensor<'f32'> {
  mustBeRows('mean_of_rows', a);
  const from = ints('mean_of_rows', 'from', first);
  const count = ints('mean_of_rows', 'count', counts);
  mustBe('mean_of_rows', from.type === TYPE.i32 && count.type === TYPE.i32, 'i32 rows and counts', a, from, count);
  must(
    sameShape(from, count) && nelements(from) === from.ne[0] && a.ne[2] === 1 && a.ne[3] === 1,
    'mean_of_rows',
    'expected a matrix, and one first row and one count for each result',
    a,
    from,
    count,
  );
  return node('mean_of_rows', [a.ne[0], from.ne[0], 1, 1], { src: [a, from, count], batch: from.batch && { dim: 1, by: from.batch.by } });
}

/**
 * Weighted sum of rows, as for the experts of a token: a [n, k, m, ne3] and weights [1, k, m, ne3]
 * of f32, f16 or bf16 -> f32 [n, m, ne3]. Computes (a_0 w_0 + a_1 w_1) + a_2 w_2 and so on; each
 * product and sum is rounded, as by ggml_mul and ggml_add.
 */
export function weighted_sum(a: Tensor, by: Operand): Tensor<'f32'> {
  mustBeRows('weighted_sum', a);
  const weights = operand('weighted_sum', 'weights', by);
  mustBe('weighted_sum', isFloat(weights), 'f32, f16 or bf16', a, weights);
  must(
    weights.ne.every((n, i) => n === (i === 0 ? 1 : a.ne[i])),
    'weighted_sum',
    'expected one weight for each row',
    a,
    weights,
  );
  return node('weighted_sum', [a.ne[0], a.ne[2], a.ne[3], 1], {
    src: [a, weights],
    batch: a.batch && { dim: (a.batch.dim - 1) as BatchDim['dim'], by: a.batch.by },
  });
}
