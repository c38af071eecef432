/**
 * Products of several matrices at once, each by its own columns (ggml's mul_mat_id: the experts of
 * a mixture). Columns are sorted by their matrix. The columns of one matrix are one product, in the
 * loops of any other product (mul_mat_packed.ts, mul_mat.ts).
 *
 * A group is at most GROUP_COLUMNS columns of one matrix. The tensor of groups, i32, is made once
 * for all products with the same ids:
 *
 *   | number of groups, 0, 0, 0 | group | group | ... |
 *   | columns in the order of the groups, as column numbers of the result |
 *
 * Groups are in the order of their matrices, and columns of a group in ascending order, so that a
 * matrix is read once and activations sequentially. With one row of ids each column is a group of
 * its own, and nothing is sorted.
 *
 * An activation is quantised for each group that has it, by the thread that takes the column. That
 * costs little next to the product and saves a pass between quantised columns and column blocks.
 */
import { GROUP_COLUMNS, GROUP_LIST_OFFSET, GROUP_LIST_SPARSE, TYPE_ACT } from '../layout';
import { quantize_act } from '../matmul/act';
import { range_end, range_start } from '../runtime/schedule';
import { Op, Tensor, fill_nan, row_of } from '../runtime/tensor';

@unmanaged
export class Group {
  /** Number of the matrix, or -1 for columns with an invalid id: their results are NaN. */
  matrix: i32;
  /** First column of the group in the list of columns. */
  first: i32;
  columns: i32;
  /**
   * First column of the group in the activations: a multiple of four, since a group has its own
   * column blocks (matmul/act.ts).
   */
  place: i32;
}

export function group_count(groups: Tensor): i32 {
  return load<i32>(groups.data);
}

export function group_at(groups: Tensor, i: i32): Group {
  return changetype<Group>(groups.data + (<usize>(i + 1) << 4));
}

/** Address of the list of columns, from element i on. */
export function columns_from(groups: Tensor, i: i32): usize {
  return groups.data + (<usize>(group_count(groups) + 1) << 4) + (<usize>i << 2);
}

/**
 * dst = the groups of the ids in src0, i32 [used, tokens] of any strides; p0: number of matrices.
 * Result column t * used + u belongs to matrix ids[u, t].
 */
export function group_ids(op: Op, ith: i32, scratch: usize): void {
  // One thread does it: a microsecond for 500 ids.
  if (ith != 0) return;
  const ids = op.src0;
  const matrices = op.p0;
  memory.fill(scratch, 0, <usize>(matrices + 1) << 2);
  for (let t = 0; t < ids.ne1; t++) {
    for (let u = 0; u < ids.ne0; u++) {
      const count = counter(ids, u, t, matrices, scratch);
      store<i32>(count, load<i32>(count) + 1);
    }
  }
  const most = ids.ne1 == 1 ? 1 : GROUP_COLUMNS;
  let groups = 0;
  let first = 0;
  let place = 0;
  for (let i = 0; i <= matrices; i++) {
    const count = scratch + (<usize>i << 2);
    let n = load<i32>(count);
    store<i32>(count, first);
    for (; n > 0; n -= most) {
      const g = group_at(op.dst, groups++);
      g.matrix = i - 1;
      g.first = first;
      g.columns = min(n, most);
      g.place = place;
      first += g.columns;
      place += (g.columns + 3) & -4;
    }
  }
  store<i32>(op.dst.data, groups);
  for (let t = 0, column = 0; t < ids.ne1; t++) {
    for (let u = 0; u < ids.ne0; u++, column++) {
      const next = counter(ids, u, t, matrices, scratch);
      const i = load<i32>(next);
      store<i32>(columns_from(op.dst, i), column);
      store<i32>(next, i + 1);
    }
  }
}

/**
 * Address of the counter for the columns of matrix ids[u, t]. The first counter is for invalid ids.
 */
@inline
function counter(ids: Tensor, u: i32, t: i32, matrices: i32, counts: usize): usize {
  const id = load<i32>(ids.data + <usize>u * ids.nb0 + <usize>t * ids.nb1);
  return counts + (<usize>(<u32>id < <u32>matrices ? id + 1 : 0) << 2);
}

/**
 * Expands a list of groups, src0 i32, that divides p2 columns (or elements of a row) among p1
 * groups, which take them in order.
 *
 * p0 is the kind of list, a GROUP_LIST_...: the end of each group, the size of each, or pairs [2,
 * named] of a group and its size. p3 = 0: dst [1, p2] = the group of each column, or -1. p3 > 0: dst [2, p1] = start
 * and end of each group, as multiples of p3. Invalid lists are safe: their values are cut off at
 * the limits.
 */
export function group_list(op: Op, ith: i32): void {
  if (ith != 0) return;
  const list = op.src0;
  const sparse = op.p0 == GROUP_LIST_SPARSE;
  const limit = op.p2;
  const unit = op.p3;
  const y = op.dst.data;
  const named = sparse ? list.ne1 : list.ne0;
  if (unit > 0) memory.fill(y, 0, <usize>op.p1 << 3);
  else memory.fill(y, 0xff, <usize>limit << 2);
  for (let i = 0, from = 0; i < named; i++) {
    const at = list.data + <usize>i * (sparse ? list.nb1 : list.nb0);
    const group = sparse ? load<i32>(at) : i;
    const given = load<i32>(at + (sparse ? list.nb0 : 0));
    const n = min(max(op.p0 == GROUP_LIST_OFFSET ? given - from : given, 0), limit - from);
    const to = unit > 0 ? from + n - (n % unit) : from + n;
    if (<u32>group < <u32>op.p1 && unit > 0) {
      store<i32>(y + (<usize>group << 3), from);
      store<i32>(y + (<usize>group << 3), to, 4);
    } else if (<u32>group < <u32>op.p1) {
      for (let c = from; c < to; c++) store<i32>(y + (<usize>c << 2), group);
    }
    from = to;
  }
}

/**
 * Row of src1, activations [k, a divisor of used, tokens], from which result column `column` is
 * computed.
 */
export function row_of_column(src1: Tensor, column: i32, used: i32): usize {
  return row_of(src1, (column % used) % src1.ne1, column / used, 0);
}

/**
 * dst = src0, f32 [k, a divisor of used, tokens], as the packed products of the groups in src1 read
 * it: f32, or a type of matmul/act.ts. Each group's columns are laid out on their own, starting at
 * its `place`. p0: used. (A single column is stored once for all groups.)
 */
export function quantize_groups(op: Op, ith: i32, nth: i32): void {
  const src0 = op.src0;
  const groups = op.src1;
  if (src0.ne1 * src0.ne2 == 1) {
    if (ith == 0) to_column(op, src0.data, 0, 0, 1);
    return;
  }
  const columns = op.p0 * src0.ne2;
  const from = range_start(columns, ith, nth);
  const to = range_end(columns, ith, nth);
  for (let i = 0; i < group_count(groups); i++) {
    const g = group_at(groups, i);
    const end = min(to - g.first, g.columns);
    for (let c = max(from - g.first, 0); c < end; c++) {
      const x = row_of_column(src0, load<i32>(columns_from(groups, g.first + c)), op.p0);
      to_column(op, x, g.place, c, g.columns);
    }
  }
}

/** Stores the row at x as column c of n, which start at column `place` of dst. */
@inline
function to_column(op: Op, x: usize, place: i32, c: i32, n: i32): void {
  const dst = op.dst;
  const k = op.src0.ne0;
  const y = dst.data + <usize>place * dst.nb1;
  if (dst.type >= TYPE_ACT) quantize_act(dst.type, x, 0, k, y, dst.nb1, c, n);
  else memory.copy(y + <usize>c * dst.nb1, x, <usize>k << 2);
}

/**
 * Stores NaN in rows [row0, row1) of the columns of a group without a matrix. dst: f32, contiguous.
 */
export function fill_group_nan(dst: Tensor, groups: Tensor, g: Group, row0: i32, row1: i32): void {
  for (let c = 0; c < g.columns; c++)
    fill_nan(dst.data + <usize>load<i32>(columns_from(groups, g.first + c)) * dst.nb1 + (<usize>row0 << 2), row1 - row0);
}
