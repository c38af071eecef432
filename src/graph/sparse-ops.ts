/**
 * Products with selected rows: the neurons, or heads, that fire for a token (the operators of
 * PowerInfer, arXiv 2312.12456). As in ops.ts, shapes and types are checked before anything runs:
 * ERR_TENSOR_SHAPE, ERR_UNSUPPORTED_TYPE, ERR_INVALID_ARGUMENT.
 */
import { QuantletError } from '../errors.ts';
import { checkOptions, KIND, type Kinds } from '../options.ts';
import { TYPE, namesOf, typesWith } from '../type-traits.ts';
import { OPERAND, ROW, TENSOR, ints, mustBe, mustBeRows, mustBeTensor, operand, type Operand } from './operands.ts';
import { must, nelements, node, type Tensor } from './tensor.ts';
import { mustBeReadable } from './vec-dot-type.ts';

/** Selection of rows. */
export interface AxpyHeadOptions {
  /**
   * Selects rows whose element of idx is at least this. May be infinite; a NaN is never selected.
   * If undefined, rows whose element is not 0 are selected, as after a ReLU.
   */
  threshold?: number | undefined;
  /**
   * Without a threshold: selects rows whose element is above 0, as a ReLU would keep. Default
   * false. A NaN is selected, as without relu.
   */
  relu?: boolean | undefined;
}

export interface AxpyOptions extends AxpyHeadOptions {
  /**
   * i32 [rows of the weights]: the weights are a bucket of rows of a larger matrix, and this maps
   * each to its row there. Rows outside the bucket contribute nothing, and neither do entries out
   * of range. Of two entries for one row the last is used.
   */
  row_lookup?: Operand | undefined;
  /**
   * The first operand's weights in packed form, for columns that select most rows. In axpy they are
   * not transposed, and idx must be x; columns that use them have the bits of mul_mat, other
   * columns those of f32 sums.
   */
  dense?: Tensor | undefined;
}

export interface MulMatSparseOptions extends AxpyOptions {
  /** Rows of the result. Default: as many as idx has. Rows beyond these are 0. */
  result_ne0?: number | undefined;
  /**
   * f32, f16 or bf16, as many elements as idx: factors of the products, such as the gates of gated
   * units.
   */
  times?: Operand | undefined;
}

const AXPY_HEAD_OPTIONS: Kinds<AxpyHeadOptions> = { threshold: KIND.number, relu: KIND.boolean };
const AXPY_OPTIONS: Kinds<AxpyOptions> = { ...AXPY_HEAD_OPTIONS, row_lookup: ROW, dense: TENSOR };
const MUL_MAT_SPARSE_OPTIONS: Kinds<MulMatSparseOptions> = { ...AXPY_OPTIONS, result_ne0: KIND.size, times: OPERAND };

/**
 * Parameters of the selection: a threshold; for elements that are not 0, the bound that they may
 * not be below; and the number of rows per element.
 */
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

/** @param ne0 expected ne0 of x */
function check(op: string, w: Tensor, activations: Operand, which: Operand, { row_lookup }: AxpyOptions, ne0?: number): Checked {
  mustBeTensor(op, 'w', w);
  mustBeReadable(op, w);
  const x = operand(op, 'x', activations);
  const idx = which === activations ? x : operand(op, 'idx', which);
  mustBeRows(op, x, 'x');
  mustBeRows(op, idx, 'idx');
  const rows = w.ne[1];
  const lookup = row_lookup === undefined ? undefined : ints(op, 'row_lookup', row_lookup);
  must(nelements(w) === w.ne[0] * rows && nelements(x) === x.ne[0] * x.ne[1], op, 'expected weights and x that are matrices', w, x);
  must(nelements(idx) === idx.ne[0] * x.ne[1] && idx.ne[1] === x.ne[1], op, `expected idx with ${x.ne[1]} columns, as x`, x, idx);
  if (lookup) mustBe(op, lookup.type === TYPE.i32, 'an i32 row_lookup', lookup);
  must(
    !lookup || (lookup.ne[0] === rows && nelements(lookup) === rows),
    op,
    `expected row_lookup with an element for each of ${rows} rows`,
    w,
    lookup,
  );
  if (ne0 !== undefined) must(x.ne[0] === ne0, op, `ne0 of x is ${x.ne[0]}; expected ${ne0}`, w, x);
  return { x, idx, lookup };
}

/**
 * PowerInfer's ggml_mul_mat_idx: the products of each column with its selected rows, and 0
 * elsewhere. Each product has the bits that mul_mat by the packed weights gives.
 * The result is f32 [n, tokens].
 * `w` [k, rows], of a type with packed products, packed or plain. Plain rows are read one by one.
 * Packed rows are read 16 at a time if one of the 16 is selected.
 * `x` [k, tokens] and `idx` [n, tokens], f32, f16 or bf16. Without row_lookup, n is rows.
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
  must(
    of.lookup !== undefined || n === w.ne[1],
    op,
    `row_lookup is missing; expected it, or idx with an element for each of ${w.ne[1]} rows`,
    w,
    of.idx,
  );
  must(result_ne0 >= n, op, `result_ne0 is ${result_ne0}; expected at least the ${n} rows of idx`, of.idx);
  const times = given.times === undefined ? undefined : given.times === idx ? of.idx : operand(op, 'times', given.times);
  if (times) mustBeRows(op, times, 'times');
  must(
    !times || (times.ne[0] === n && nelements(times) === nelements(of.idx)),
    op,
    'expected times with as many elements as idx',
    of.idx,
    times,
  );
  must(
    !dense || (dense.type === w.type && dense.ne.every((d, i) => d === w.ne[i])),
    op,
    'expected dense of the type and shape of the weights',
    w,
    dense,
  );
  return node(op, [result_ne0, of.x.ne[1], 1, 1], {
    src: [w, of.x, of.idx, of.lookup, dense, times],
    params: counting(op, given),
    batch: of.x.batch,
  });
}

/**
 * PowerInfer's ggml_axpy, the transposed product. For each column, the sum of x[row] times row over
 * the selected rows, in their order, in f32. The result is f32 [n, tokens].
 * `w_t` [n, rows] of any type, plain.
 * `x` and `idx` [rows, tokens], f32, f16 or bf16; with row_lookup any number of elements.
 *
 * For f32, f16 and bf16 weights, the bits are those of mul_mat by the packed weights, not
 * transposed, for an x that is 0 for all rows that are not selected.
 */
export function axpy(w_t: Tensor, x: Operand, idx: Operand, options?: AxpyOptions): Tensor<'f32'> {
  const op = 'axpy';
  const given = checkOptions(op, options, AXPY_OPTIONS);
  const { dense, threshold } = given;
  const of = check(op, w_t, x, idx, given);
  const [n, rows] = w_t.ne;
  must(of.x.ne[0] === of.idx.ne[0], op, 'expected x and idx with the same ne0', of.x, of.idx);
  must(
    of.lookup !== undefined || of.x.ne[0] === rows,
    op,
    `row_lookup is missing; expected it, or x with an element for each of ${rows} rows`,
    w_t,
    of.x,
  );
  must(
    !dense || (of.x === of.idx && threshold === undefined && !given.relu && !of.lookup),
    op,
    'dense is given; expected x as idx, and no threshold, relu or row_lookup',
    dense,
  );
  must(
    !dense || (dense.ne[0] === rows && dense.ne[1] === n && nelements(dense) === n * rows),
    op,
    `expected dense of [${rows}, ${n}]`,
    w_t,
    dense,
  );
  return summed(w_t, of, counting(op, given), dense);
}

/**
 * PowerInfer's ggml_axpy over heads (Deja Vu, arXiv 2310.17157). As axpy, but idx [heads, tokens]
 * selects heads: head h is the rows from h * rows / heads on.
 */
export function axpy_head(w_t: Tensor, x: Operand, idx: Operand, options?: AxpyHeadOptions): Tensor<'f32'> {
  const op = 'axpy_head';
  const given = checkOptions(op, options, AXPY_HEAD_OPTIONS);
  const of = check(op, w_t, x, idx, {}, w_t?.ne?.[1]);
  const [, rows] = w_t.ne;
  const heads = of.idx.ne[0];
  must(rows % heads === 0, op, `heads is ${heads}; expected a divisor of the ${rows} rows`, w_t, of.idx);
  return summed(w_t, of, counting(op, given, rows / heads));
}

const summed = (w: Tensor, { x, idx, lookup }: Checked, params: Record<string, number>, dense?: Tensor): Tensor<'f32'> =>
  node('axpy', [w.ne[0], x.ne[1], 1, 1], { src: [w, x, idx, lookup, dense], params, batch: x.batch });
