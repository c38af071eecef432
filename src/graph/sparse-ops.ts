/**
 * Products of which only some rows count: the neurons, or heads, that fire for a token (the operators of PowerInfer, arXiv 2312.12456). As in ops.ts, shapes
 * and types are checked before anything runs: ERR_TENSOR_SHAPE, ERR_UNSUPPORTED_TYPE, ERR_INVALID_ARGUMENT.
 */
import { QuantletError } from '../errors.ts';
import { checkOptions, KIND, type Kinds } from '../options.ts';
import { TYPE, namesOf, typesWith } from '../type-traits.ts';
import { OPERAND, ROW, TENSOR, ints, mustBe, mustBeRows, mustBeTensor, operand, type Operand } from './operands.ts';
import { must, nelements, node, type Tensor } from './tensor.ts';
import { mustBeReadable } from './vec-dot-type.ts';

/** Which rows count. */
export interface AxpyHeadOptions {
  /**
   * Rows whose element of idx is at least this count; it may be infinite, and a NaN is not at least anything. Left out: rows whose element is not 0, as
   * ReLU leaves them.
   */
  threshold?: number | undefined;
  /** Without a threshold, rows whose element a ReLU would leave: those above 0. Default false. A NaN counts, as it does for what is not 0. */
  relu?: boolean | undefined;
}

export interface AxpyOptions extends AxpyHeadOptions {
  /**
   * i32 [rows of the weights]: the weights are a bucket of rows of a larger matrix, and this says which of its rows each is. Rows outside the bucket count
   * for nothing, neither does an entry that is no row, and of two entries that name one row the last stays.
   */
  row_lookup?: Operand | undefined;
  /**
   * The same weights once more, packed, for columns most of whose rows count. Of axpy's they are not transposed, and idx is x itself; there columns that
   * take them have the bits of mul_mat, others those of f32 sums.
   */
  dense?: Tensor | undefined;
}

export interface MulMatSparseOptions extends AxpyOptions {
  /** Rows of the result. Default: as many as idx has. Those beyond are 0. */
  result_ne0?: number | undefined;
  /** f32, f16 or bf16, as many elements as idx: what the products are multiplied by, as by the gates of gated units. */
  times?: Operand | undefined;
}

const AXPY_HEAD_OPTIONS: Kinds<AxpyHeadOptions> = { threshold: KIND.number, relu: KIND.boolean };
const AXPY_OPTIONS: Kinds<AxpyOptions> = { ...AXPY_HEAD_OPTIONS, row_lookup: ROW, dense: TENSOR };
const MUL_MAT_SPARSE_OPTIONS: Kinds<MulMatSparseOptions> = { ...AXPY_OPTIONS, result_ne0: KIND.size, times: OPERAND };

/** What says which rows count: a threshold, or for elements that are not 0 what they are not below; and how many rows stand behind an element. */
function counting(op: string, { threshold, relu }: AxpyHeadOptions, per = 1): Record<string, number> {
  if (relu && threshold !== undefined)
    throw new QuantletError('ERR_INVALID_ARGUMENT', `${op}: threshold is ${threshold} and relu is true; expected one of them`);
  return { nonzero: threshold === undefined ? 1 : 0, threshold: threshold ?? (relu ? 0 : -Infinity), per };
}

interface Checked {
  readonly x: Tensor;
  readonly idx: Tensor;
  readonly lookup: Tensor | undefined;
}

/** `ne0`: what columns of x have. */
function check(op: string, w: Tensor, activations: Operand, which: Operand, { row_lookup }: AxpyOptions, ne0?: number): Checked {
  mustBeTensor(op, 'w', w);
  mustBeReadable(op, w);
  const x = operand(op, 'x', activations);
  const idx = which === activations ? x : operand(op, 'idx', which);
  mustBeRows(op, x, 'x');
  mustBeRows(op, idx, 'idx');
  const rows = w.ne[1];
  const lookup = row_lookup === undefined ? undefined : ints(op, 'row_lookup', row_lookup);
  must(nelements(w) === w.ne[0] * rows && nelements(x) === x.ne[0] * x.ne[1], op, 'weights and x must be matrices', w, x);
  must(nelements(idx) === idx.ne[0] * x.ne[1] && idx.ne[1] === x.ne[1], op, `idx must have ${x.ne[1]} columns, as x has`, x, idx);
  if (lookup) mustBe(op, lookup.type === TYPE.i32, 'an i32 row_lookup', lookup);
  must(
    !lookup || (lookup.ne[0] === rows && nelements(lookup) === rows),
    op,
    `row_lookup must have an element for each of ${rows} rows`,
    w,
    lookup,
  );
  if (ne0 !== undefined) must(x.ne[0] === ne0, op, `ne0 of x must be ${ne0}`, w, x);
  return { x, idx, lookup };
}

/**
 * PowerInfer's ggml_mul_mat_idx: w [k, rows] of a type with packed products, packed or plain; x [k, tokens] and idx [n, tokens], f32, f16 or bf16
 * -> f32 [n, tokens], a column's products with the rows that count, each with the bits that mul_mat by the packed weights gives it, and 0 elsewhere. Without
 * row_lookup n is rows. Plain rows are read one by one; of packed weights, 16 rows where one of them counts.
 */
export function mul_mat_sparse(w: Tensor, x: Operand, idx: Operand, options?: MulMatSparseOptions): Tensor<'f32'> {
  const op = 'mul_mat_sparse';
  const given = checkOptions(op, options, MUL_MAT_SPARSE_OPTIONS);
  const { dense } = given;
  const of = check(op, w, x, idx, given, w?.ne?.[0]);
  const packable = (t: Tensor): boolean => t.type.kernels?.packed !== undefined;
  mustBe(op, packable(w), `weights of ${namesOf(typesWith((k) => k.packed)).join(', ')}`, w);
  const n = of.idx.ne[0];
  const { result_ne0 = n } = given;
  must(of.lookup !== undefined || n === w.ne[1], op, `without row_lookup idx has an element for each of ${w.ne[1]} rows`, w, of.idx);
  must(result_ne0 >= n, op, `result_ne0 is ${result_ne0}; expected at least the ${n} rows of idx`, of.idx);
  const times = given.times === undefined ? undefined : given.times === idx ? of.idx : operand(op, 'times', given.times);
  if (times) mustBeRows(op, times, 'times');
  must(
    !times || (times.ne[0] === n && nelements(times) === nelements(of.idx)),
    op,
    'times must have as many elements as idx',
    of.idx,
    times,
  );
  must(!dense || (dense.type === w.type && dense.ne.every((d, i) => d === w.ne[i])), op, 'dense must be the same matrix', w, dense);
  return node(op, [result_ne0, of.x.ne[1], 1, 1], {
    src: [w, of.x, of.idx, of.lookup, dense, times],
    params: counting(op, given),
    batch: of.x.batch,
  });
}

/**
 * PowerInfer's ggml_axpy: the transposed product. w_t [n, rows] of any type, plain; x and idx [rows, tokens] (with row_lookup any number of elements), f32,
 * f16 or bf16 -> f32 [n, tokens], for each column the sum of x[row] times row over the rows that count, in their order, in f32. Of f32, f16 and bf16 weights
 * these are the bits that mul_mat by the packed, not transposed, weights gives for x that is 0 elsewhere.
 */
export function axpy(w_t: Tensor, x: Operand, idx: Operand, options?: AxpyOptions): Tensor<'f32'> {
  const op = 'axpy';
  const given = checkOptions(op, options, AXPY_OPTIONS);
  const { dense, threshold } = given;
  const of = check(op, w_t, x, idx, given);
  const [n, rows] = w_t.ne;
  must(of.x.ne[0] === of.idx.ne[0], op, 'x and idx must have as many elements', of.x, of.idx);
  must(of.lookup !== undefined || of.x.ne[0] === rows, op, `without row_lookup x has an element for each of ${rows} rows`, w_t, of.x);
  must(
    !dense || (of.x === of.idx && threshold === undefined && !given.relu && !of.lookup),
    op,
    'dense is for idx that is x, without threshold, relu and row_lookup',
    dense,
  );
  must(
    !dense || (dense.ne[0] === rows && dense.ne[1] === n && nelements(dense) === n * rows),
    op,
    `dense must be [${rows}, ${n}]`,
    w_t,
    dense,
  );
  return summed(w_t, of, counting(op, given), dense);
}

/**
 * PowerInfer's ggml_axpy over heads (Deja Vu, arXiv 2310.17157): as axpy, where idx [heads, tokens] says which heads count: head h is the rows from
 * h * rows / heads on.
 */
export function axpy_head(w_t: Tensor, x: Operand, idx: Operand, options?: AxpyHeadOptions): Tensor<'f32'> {
  const op = 'axpy_head';
  const given = checkOptions(op, options, AXPY_HEAD_OPTIONS);
  const of = check(op, w_t, x, idx, {}, w_t?.ne?.[1]);
  const [, rows] = w_t.ne;
  const heads = of.idx.ne[0];
  must(rows % heads === 0, op, `${heads} heads must divide ${rows} rows`, w_t, of.idx);
  return summed(w_t, of, counting(op, given, rows / heads));
}

const summed = (w: Tensor, { x, idx, lookup }: Checked, params: Record<string, number>, dense?: Tensor): Tensor<'f32'> =>
  node('axpy', [w.ne[0], x.ne[1], 1, 1], { src: [w, x, idx, lookup, dense], params, batch: x.batch });
