/**
 * Ops of a graph, named as in ggml without ggml_. This file has rows by index, copies and products;
 * elementwise-ops.ts, row-ops.ts, attention-ops.ts and others have the rest, and views.ts what
 * needs no kernel.
 *
 * Each op returns a node. Shapes, types and numbers are checked before anything runs.
 * ERR_TENSOR_SHAPE names the op and all shapes (also for tensors of two engines),
 * ERR_UNSUPPORTED_TYPE the types that have kernels, and ERR_INVALID_ARGUMENT a wrong operand or
 * option.
 *
 * Operands that an op needs are arguments; everything else is in an options object. An `Operand`
 * may be numbers: mul(x, 2), add(x, [1, 2, 3]), get_rows(table, [0, 7]).
 */
import { QuantletError, tell } from '../errors.ts';
import { checkOptions, oneOf } from '../options.ts';
import { TYPE, namesOf, typeNamed, typesWith, type TypeName, type TypeTraits } from '../type-traits.ts';
import { ints, isFloat, mustBe, mustBeTensor, mustBeWritable, operand, type Operand } from './operands.ts';
import { must, nelements, node, sameShape, shape, type BatchDim, type Ne, type Tensor } from './tensor.ts';
import { mustBeReadable, mustMeet } from './vec-dot-type.ts';

/**
 * Types that rows can be converted to (from_float in ggml, assembly/type/traits.ts): all except
 * those whose quantisers need an importance matrix.
 */
const FROM_FLOAT: readonly TypeName[] = namesOf(typesWith((k) => k.quantizer));

/**
 * ggml_get_rows: row ids[i] of a [n, m, ne2, ne3], any type; ids i32 [k, ne2, ne3] -> f32 [n, k,
 * ne2, ne3]. An id out of range gives a row of NaN.
 */
export function get_rows(a: Tensor, rows: Operand): Tensor<'f32'> {
  mustBeTensor('get_rows', 'a', a);
  const ids = ints('get_rows', 'ids', rows);
  mustBe('get_rows', ids.type === TYPE.i32, 'i32 ids', a, ids);
  mustBeReadable('get_rows', a, ids);
  must(
    ids.ne[1] === a.ne[2] && ids.ne[2] === a.ne[3] && ids.ne[3] === 1,
    'get_rows',
    'expected ne1 and ne2 of the ids to be ne2 and ne3 of the table',
    a,
    ids,
  );
  return node('get_rows', [a.ne[0], ids.ne[0], ids.ne[1], ids.ne[2]], {
    src: [a, ids],
    batch: ids.batch && { dim: (ids.batch.dim + 1) as BatchDim['dim'], by: ids.batch.by },
  });
}

/**
 * ggml_set_rows: writes row i of b to row ids[i] of a, in a's type, and returns a.
 * `a` [n, m, ne2, ne3] has no repeats.
 * `b` f32 [n, k, ne2, ne3]; may lie in a.
 * `ids` i32 or i64 [k, 1 or ne2, 1 or ne3]. Ids out of range are ignored. Of rows with the same id,
 * the last stays.
 */
export function set_rows<T extends string>(a: Tensor<T>, rows: Operand, to: Operand): Tensor<T> {
  mustBeTensor('set_rows', 'a', a);
  const b = operand('set_rows', 'b', rows);
  const ids = ints('set_rows', 'ids', to);
  mustBe('set_rows', ids.type === TYPE.i32 || ids.type === TYPE.i64, 'i32 or i64 ids', a, b, ids);
  mustBe('set_rows', isFloat(b) && FROM_FLOAT.includes(a.type.name as TypeName), `f32, f16 or bf16 into ${FROM_FLOAT.join(', ')}`, a, b);
  must(
    a.ne[0] === b.ne[0] &&
      a.ne[2] === b.ne[2] &&
      a.ne[3] === b.ne[3] &&
      ids.ne[0] === b.ne[1] &&
      b.ne[2] % ids.ne[1] === 0 &&
      b.ne[3] % ids.ne[2] === 0,
    'set_rows',
    'expected the same ne0, ne2 and ne3, an id for each row of the second, and ids whose ne1 and ne2 divide its ne2 and ne3',
    a,
    b,
    ids,
  );
  mustBeWritable('set_rows', a);
  return node('set_rows', a.ne, { type: a.type, nb: a.nb, src: [b, ids, a], viewOf: a });
}

/**
 * ggml_cpy: writes the elements of a, in order, to those of b, in b's type, and returns b.
 * `a` may have any type and strides.
 * `b` has any shape with as many elements, any strides without repeats, and may overlap a.
 * Its type is that of a, or one with a quantiser. (Types without are IQ1, IQ2 and IQ3, which only
 * `quantlet quantize` writes.) q2_K to q6_K, iq4_nl and iq4_xs search for their scales, so they take
 * much longer than the others.
 */
export function cpy<T extends string>(from: Operand, b: Tensor<T>): Tensor<T> {
  mustBeTensor('cpy', 'b', b);
  const a = operand('cpy', 'a', from);
  must(nelements(a) === nelements(b), 'cpy', 'expected the same number of elements', a, b);
  mustBe('cpy', a.type === b.type || FROM_FLOAT.includes(b.type.name as TypeName), `the same type or ${FROM_FLOAT.join(', ')}`, a, b);
  if (a.type !== b.type) mustBeReadable('cpy', a, b);
  mustBeWritable('cpy', b);
  return node('cpy', b.ne, { type: b.type, nb: b.nb, src: [a, b], viewOf: b, batch: b.batch ?? (sameShape(a, b) ? a.batch : undefined) });
}

/** ggml_cast: a contiguous copy in another type; types as in cpy, rows of whole blocks. */
export function cast<T extends TypeName>(a: Tensor, to: T): Tensor<T> {
  mustBeTensor('cast', 'a', a);
  const type = typeNamed(to) as TypeTraits<T> | undefined;
  const fits = type !== undefined && (a.type.id === type.id || FROM_FLOAT.includes(to));
  if (!fits)
    throw new QuantletError('ERR_UNSUPPORTED_TYPE', `cast: ${shape(a)}: type is ${tell(to)}; expected one of ${FROM_FLOAT.join(', ')}`);
  if (a.type.id !== type.id) mustBeReadable('cast', a);
  must(
    a.ne[0] % type.blckSize === 0,
    'cast',
    `ne0 is ${a.ne[0]}; expected a multiple of ${type.blckSize}, the elements of a block of ${type.name}`,
    a,
  );
  return copyOf(a, type);
}

/** ggml_cont: a contiguous copy, any type. */
export function cont<T extends string>(a: Tensor<T>): Tensor<T> {
  mustBeTensor('cont', 'a', a);
  return copyOf(a, a.type);
}

const copyOf = <T extends string>(a: Tensor, type: TypeTraits<T>): Tensor<T> => node('cpy', a.ne, { type, src: [a], batch: a.batch });

/**
 * ggml_concat: b after a in dimension dim; the other dimensions agree. Both have the same
 * unquantised type, which is the result's.
 */
export function concat<T extends string>(a: Tensor<T>, b: Tensor<T>, dim: number): Tensor<T> {
  mustBeTensor('concat', 'a', a);
  mustBeTensor('concat', 'b', b);
  must(
    [0, 1, 2, 3].includes(dim) && a.ne.every((n, i) => i === dim || n === b.ne[i]),
    'concat',
    `dim is ${tell(dim)}; expected 0 to 3, and tensors that differ in this dimension at most`,
    a,
    b,
  );
  mustBe('concat', a.type === b.type && a.type.blckSize === 1, 'two of one unquantised type', a, b);
  must(!a.batch || a.batch.dim !== dim, 'concat', `dimension ${dim} follows the batch; expected a fixed one`, a, b);
  return node('concat', a.ne.map((n, i) => (i === dim ? n + b.ne[i] : n)) as unknown as Ne, {
    type: a.type,
    src: [a, b],
    params: { dim },
    batch: a.batch,
  });
}

export interface MulMatOptions {
  /**
   * 'f32': weights are dequantised and activations stay f32 (ggml_mul_mat_set_prec). Default:
   * activations are converted to the weights' vec_dot_type.
   */
  precision?: 'f32' | undefined;
}

/**
 * ggml_mul_mat: a [k, n, ne02, ne03] of any type, b [k, m, ne12, ne13] -> f32 [n, m, ne12, ne13]; a
 * repeats over dimensions 2 and 3 of b.
 */
export function mul_mat(a: Tensor, activations: Operand, options?: MulMatOptions): Tensor<'f32'> {
  mustBeTensor('mul_mat', 'a', a);
  const { precision } = checkOptions<MulMatOptions>('mul_mat', options, { precision: oneOf('f32') });
  const b = operand('mul_mat', 'b', activations);
  must(a.ne[0] === b.ne[0], 'mul_mat', `ne0 is ${a.ne[0]} and ${b.ne[0]}; expected the same`, a, b);
  must(
    b.ne[2] % a.ne[2] === 0 && b.ne[3] % a.ne[3] === 0,
    'mul_mat',
    'expected ne2 and ne3 of the first to divide those of the second',
    a,
    b,
  );
  mustMeet('mul_mat', a, b);
  return node('mul_mat', [a.ne[1], b.ne[1], b.ne[2], b.ne[3]], {
    src: [a, b],
    params: { f32: precision === 'f32' ? 1 : 0 },
    batch: b.batch,
  });
}
