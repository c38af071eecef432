/**
 * Products of many matrices at once, each with columns of its own: the experts of a mixture. As in
 * ops.ts, shapes and types are checked before anything runs: ERR_TENSOR_SHAPE,
 * ERR_UNSUPPORTED_TYPE, ERR_INVALID_ARGUMENT.
 */
import { checkOptions, oneOf, type Kinds } from '../options.ts';
import { TYPE } from '../type-traits.ts';
import { add } from './elementwise-ops.ts';
import { groupList, type GroupListKind } from './group-list.ts';
import { GROUP_LIST } from './layout.ts';
import { ROW, ints, mustBe, mustBeRows, mustBeTensor, operand, optional, type Operand } from './operands.ts';
import { must, nelements, node, type Tensor } from './tensor.ts';
import { mustMeet, vecDotType } from './vec-dot-type.ts';
import { permute, reshape } from './views.ts';

/** Matrix of each column: i32 [used, tokens]. */
function idsOf(op: string, given: Operand, like: Tensor, tokens: number): Tensor {
  const ids = ints(op, 'ids', given);
  mustBe(op, ids.type === TYPE.i32, 'i32 ids', like, ids);
  must(ids.ne[1] === tokens && ids.ne[2] * ids.ne[3] === 1, op, `expected ids of [used, ${tokens}]`, like, ids);
  return ids;
}

/**
 * ggml_mul_mat_id: as [k, n, matrices] of any type, b [k, 1 or a divisor of used, tokens], ids i32
 * [used, tokens] -> f32 [n, used, tokens]. Column (u, t) is as[.., .., ids[u, t]] times column (u
 * mod b.ne1, t) of b. An id out of range gives NaN. All columns of one matrix are one product, even
 * those of different tokens.
 */
export function mul_mat_id(as: Tensor, activations: Operand, ids: Operand): Tensor<'f32'> {
  mustBeTensor('mul_mat_id', 'as', as);
  const b = operand('mul_mat_id', 'b', activations);
  const which = idsOf('mul_mat_id', ids, b, b.ne[2]);
  must(as.ne[0] === b.ne[0], 'mul_mat_id', `ne0 is ${as.ne[0]} and ${b.ne[0]}; expected the same`, as, b);
  must(as.ne[3] * b.ne[3] === 1, 'mul_mat_id', 'expected three dimensions', as, b);
  must(which.ne[0] % b.ne[1] === 0, 'mul_mat_id', 'expected ne1 of the activations to divide ne0 of the ids', b, which);
  mustMeet('mul_mat_id', as, b);
  return node('mul_mat_id', [as.ne[1], which.ne[0], b.ne[2], 1], { src: [as, b, which], batch: b.batch });
}

/**
 * ggml_add_id: a [n, used, tokens] plus row ids[u, t] of bias [n, rows], f32, f16 or bf16; ids i32
 * [used, tokens] -> f32. An id out of range gives NaN.
 */
export function add_id(a: Tensor, bias: Operand, ids: Operand): Tensor<'f32'> {
  mustBeRows('add_id', a);
  const rows = operand('add_id', 'bias', bias);
  mustBeRows('add_id', rows, 'bias');
  const which = idsOf('add_id', ids, a, a.ne[2]);
  must(
    a.ne[3] === 1 && which.ne[0] === a.ne[1] && rows.ne[0] === a.ne[0] && rows.ne[2] * rows.ne[3] === 1,
    'add_id',
    'expected an id for each row, and biases as long as a row',
    a,
    rows,
    which,
  );
  return node('add_id', a.ne, { src: [a, rows, which], batch: a.batch });
}

export interface GroupedMatmulOptions {
  /**
   * Meaning of the list's numbers, in the order of the groups: where a group ends ('offset', the
   * default), how many elements it has ('length'), or pairs [group, how many] ('sparse').
   */
  list?: GroupListKind | undefined;
  /**
   * Dimension that the groups divide: 'm', the columns of a (the default), or 'k', the dimension
   * that is summed over.
   */
  split?: 'm' | 'k' | undefined;
  /** f32, f16 or bf16 [n, groups], added to each group's columns. */
  bias?: Operand | undefined;
}

const GROUPED_MATMUL_OPTIONS: Kinds<GroupedMatmulOptions> = { list: oneOf(...Object.keys(GROUP_LIST)), split: oneOf('m', 'k'), bias: ROW };

/**
 * One product of many groups, each of its own size (GroupedMatmul of CANN, grouped GEMM of
 * CUTLASS). group_list is i32 [groups], or [2, named] of pairs. Groups lie one after the other, may
 * be empty, and need not cover everything.
 *
 * split 'm': a f32 [k, m], whose columns are divided into groups, b [k, n, groups] of any type ->
 * f32 [n, m]. Columns of no group are NaN. b may be packed.
 * split 'k': a f32 [k, m], b [k, n] of any type; groups divide k, in whole blocks of b -> f32 [n,
 * m, groups]. Empty groups give 0.
 *
 * @throws ERR_INVALID_ARGUMENT from compute(), before a kernel runs, if offsets decrease or exceed
 * the limit, if a group is named twice or does not exist, or if a block is cut. (A list that the
 * graph computes is cut off where it is wrong.)
 */
export function grouped_matmul(a: Tensor, b: Tensor, group_list: Operand, options?: GroupedMatmulOptions): Tensor<'f32'> {
  const op = 'grouped_matmul';
  mustBeTensor(op, 'a', a);
  mustBeTensor(op, 'b', b);
  const { list: kind = 'offset', split = 'm', bias } = checkOptions(op, options, GROUPED_MATMUL_OPTIONS);
  const given = ints(op, 'group_list', group_list);
  mustBe(op, given.type === TYPE.i32, 'an i32 list', given);
  const [k, m] = a.ne;
  const byM = split === 'm';
  must(
    a.ne[2] * a.ne[3] === 1 && b.ne[0] === k && b.ne[3] === 1,
    op,
    `ne0 is ${k} and ${b.ne[0]}; expected a matrix a, and b with the same ne0`,
    a,
    b,
  );
  must(byM || b.ne[2] === 1, op, "split is 'k'; expected one matrix b", a, b);
  mustMeet(op, b, a);
  const groups = byM ? b.ne[2] : given.ne[0];
  if (kind === 'sparse') {
    must(
      byM,
      op,
      "the list is sparse, and split is 'k'; expected lengths, 0 for groups that have none, because a sparse list divides columns",
      given,
    );
    must(given.ne[0] === 2 && nelements(given) === 2 * given.ne[1], op, 'expected a sparse list of [2, number of groups]', given);
  } else
    must(
      nelements(given) === groups && given.ne[0] === groups,
      op,
      `expected a list with an element for each of ${groups} groups`,
      given,
      b,
    );
  const rows = optional(op, 'bias', bias);
  if (rows) mustBeRows(op, rows, 'bias');
  must(
    !rows || (rows.ne[0] === b.ne[1] && rows.ne[1] === groups && nelements(rows) === b.ne[1] * groups),
    op,
    `expected a bias of [${b.ne[1]}, ${groups}]`,
    b,
    rows,
  );
  if (byM) {
    const ids = groupList(given, kind, groups, m, 0);
    const y = mul_mat_id(b, permute(a, 0, 2, 1, 3), ids);
    return reshape(rows ? add_id(y, rows, ids) : y, [b.ne[1], m]);
  }
  // Rows of types without vec_dot are dequantised.
  const unit = vecDotType(b.type) ? Math.max(b.type.blckSize, vecDotType(b.type)!.blckSize) : 1;
  must(k % unit === 0, op, `ne0 is ${k}; expected a multiple of ${unit}, the elements of a block`, a, b);
  const y = node('mul_mat_parts', [b.ne[1], m, groups, 1], { src: [b, a, groupList(given, kind, groups, k, unit)] });
  return rows ? add(y, reshape(rows, [b.ne[1], 1, groups])) : y;
}
