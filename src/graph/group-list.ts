/**
 * Lists of groups: the number of columns of a product, or of elements of its rows, for each matrix
 * (grouped_matmul).
 */
import { QuantletError } from '../errors.ts';
import { GROUP_LIST } from './layout.ts';
import { node, nelements, shape, type Tensor } from './tensor.ts';
import { TYPE } from '../type-traits.ts';

export type GroupListKind = keyof typeof GROUP_LIST;

/** One group of a list, and its elements [from, to). */
export interface GroupRange {
  readonly group: number;
  readonly from: number;
  readonly to: number;
}

/**
 * Node that reads a list, i32. `limit` is the number of columns, or of elements of a row. With unit
 * 0 the result is i32 [1, limit]: the group of each column, -1 for none. Otherwise it is i32 [2,
 * groups]: where each group's elements begin and end, both multiples of `unit`.
 */
export const groupList = (list: Tensor, kind: GroupListKind, groups: number, limit: number, unit: number): Tensor<'i32'> =>
  node('group_list', unit > 0 ? [2, groups, 1, 1] : [1, limit, 1, 1], {
    type: TYPE.i32,
    src: [list],
    params: { kind: GROUP_LIST[kind], groups, limit, unit },
  });

/**
 * Groups of a list with these numbers.
 * @throws ERR_INVALID_ARGUMENT if offsets decrease or exceed the limit, if a group is named twice
 * or does not exist, or if a block is cut
 */
export function readGroupList({ src, params }: Tensor, values: ArrayLike<number | bigint>): GroupRange[] {
  const [list] = src as readonly Tensor[];
  const { kind, groups, limit, unit } = params;
  const what = unit > 0 ? 'elements of a row' : 'columns';
  const fail = (i: number, why: string): never => {
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `grouped_matmul: ${shape(list)}: ${kind === GROUP_LIST.sparse ? `pair ${i}` : `element ${i}`} ${why}`,
    );
  };
  const sparse = kind === GROUP_LIST.sparse;
  const named = new Set<number>();
  let from = 0;
  return Array.from({ length: nelements(list) / (sparse ? 2 : 1) }, (_, i) => {
    const group = sparse ? Number(values[2 * i]) : i;
    const given = Number(values[sparse ? 2 * i + 1 : i]);
    if (!(group >= 0 && group < groups)) fail(i, `names group ${group}; expected 0 to ${groups - 1}`);
    if (named.has(group)) fail(i, `names group ${group} again; expected each group once`);
    named.add(group);
    const to = kind === GROUP_LIST.offset ? given : from + given;
    if (to < from)
      fail(
        i,
        kind === GROUP_LIST.offset
          ? `ends the group at ${to}, before it begins at ${from}; expected offsets that do not decrease`
          : `is ${given}; expected a length of at least 0`,
      );
    if (to > limit) fail(i, `ends the group at ${to}; expected at most ${limit}, the number of ${what}`);
    if (unit > 0 && to % unit !== 0) fail(i, `ends the group at ${to}, within a block; expected a multiple of ${unit}`);
    const range = { group, from, to };
    from = to;
    return range;
  });
}
