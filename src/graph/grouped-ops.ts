/**
 * Products of many matrices at once, each by columns of its own: the experts of a mixture. As in ops.ts, shapes and types are checked before anything
 * runs: ERR_TENSOR_SHAPE, ERR_UNSUPPORTED_TYPE, ERR_INVALID_ARGUMENT.
 */
import { TYPE } from '../type-traits.ts';
import { ints, isFloat, mustBe, mustBeRows, mustBeTensor, operand, type Operand } from './operands.ts';
import { must, node, type Tensor } from './tensor.ts';
import { mustBeReadable, vecDotType } from './vec-dot-type.ts';

/** Which matrix each column takes: i32 [used, tokens]. */
function idsOf(op: string, given: Operand, like: Tensor, tokens: number): Tensor {
  const ids = ints(op, 'ids', given);
  mustBe(op, ids.type === TYPE.i32, 'i32 ids', like, ids);
  must(ids.ne[1] === tokens && ids.ne[2] * ids.ne[3] === 1, op, `the ids must be [used, ${tokens}]`, like, ids);
  return ids;
}

/**
 * ggml_mul_mat_id: as [k, n, matrices] of any type, b [k, 1 or a divisor of used, tokens], ids i32 [used, tokens] -> f32 [n, used, tokens], whose column (u, t)
 * is as[.., .., ids[u, t]] times column (u mod b.ne1, t) of b. An id outside gives NaN. Columns of one matrix are one product, whichever tokens they are of.
 */
export function mul_mat_id(as: Tensor, activations: Operand, ids: Operand): Tensor<'f32'> {
  mustBeTensor('mul_mat_id', 'as', as);
  const b = operand('mul_mat_id', 'b', activations);
  const which = idsOf('mul_mat_id', ids, b, b.ne[2]);
  must(as.ne[0] === b.ne[0], 'mul_mat_id', `ne0 must agree: ${as.ne[0]} and ${b.ne[0]}`, as, b);
  must(as.ne[3] * b.ne[3] === 1, 'mul_mat_id', 'there must be three dimensions', as, b);
  must(which.ne[0] % b.ne[1] === 0, 'mul_mat_id', 'dimension 1 of the activations must divide that of the result', b, which);
  mustBeReadable('mul_mat_id', as, b);
  const want = vecDotType(as.type) ?? TYPE.f32;
  mustBe('mul_mat_id', isFloat(b) || b.type === want, `activations of f32, f16, bf16 or ${want.name}`, as, b);
  return node('mul_mat_id', [as.ne[1], which.ne[0], b.ne[2], 1], { src: [as, b, which], batch: b.batch });
}

/** ggml_add_id: a [n, used, tokens] plus row ids[u, t] of bias [n, rows], f32, f16 or bf16; ids i32 [used, tokens] -> f32. An id outside gives NaN. */
export function add_id(a: Tensor, bias: Operand, ids: Operand): Tensor<'f32'> {
  mustBeRows('add_id', a);
  const rows = operand('add_id', 'bias', bias);
  mustBeRows('add_id', rows, 'bias');
  const which = idsOf('add_id', ids, a, a.ne[2]);
  must(
    a.ne[3] === 1 && which.ne[0] === a.ne[1] && rows.ne[0] === a.ne[0] && rows.ne[2] * rows.ne[3] === 1,
    'add_id',
    'there must be an id for each row, and biases as long as it',
    a,
    rows,
    which,
  );
  return node('add_id', a.ne, { src: [a, rows, which], batch: a.batch });
}
