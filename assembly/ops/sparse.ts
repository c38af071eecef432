/**
 * Products of which only some rows count (PowerInfer, arXiv 2312.12456; Deja Vu, arXiv 2310.17157): the neurons that fire for a token.
 *
 * Which rows these are is found once for all products with the same idx (active_rows), and threads share them by number, not by where they lie. A list of
 * rows has, for each token, i32:
 *
 *   | how many | rows in the order of their places in the result | (room for all) |
 *
 * Tokens are computed one by one, each with rows of its own. A result is summed whole by one thread, in an order given by shapes alone.
 */
import { ACC, ROWS } from '../matmul/format/group';
import { mul_mat_packed, mul_mat_packed_scratch, repack } from '../matmul/packed';
import { AT_ONCE, rows_4x1, takes_rows, touch } from '../matmul/rows_4x1';
import { range_end, range_start } from '../runtime/schedule';
import { take } from '../runtime/sync';
import { LAYOUT_PACKED, Op, Tensor, row_of } from '../runtime/tensor';
import { blck_size, type_size } from '../type/ids';

/**
 * Where more than so many rows of 16 count, the packed weights take less time (src/graph/layout.ts SPARSE_TURN). From memory half of the rows of q4_0 one by
 * one took as long as all of them packed, and of those that are added up a fifth (Xeon, Node 24, dotadd, 1024 x 2816, one thread).
 */
const TURN: i32 = 7;

/**
 * dst = the list of rows for each column of src0, f32 [n, tokens]: those whose element is at least p1, an f32, or, with p0 = 1, not 0. (A NaN is not 0,
 * and not at least anything.) An element stands for p2 rows. src1, i32 [rows]: for each row the one element that it belongs to; of several the last
 * row has it, and rows whose element is none are never in a list. scratch: with src1, an i32 for each element. (A token's list is made by one thread, 1 to
 * 2 ns an element: less than 1 % of a product of all rows.)
 */
export function active_rows(op: Op, ith: i32, nth: i32, scratch: usize): void {
  const idx = op.src0;
  const lookup = op.src1;
  const n = idx.ne0;
  const per = op.p2;
  const looked_up = changetype<usize>(lookup) != 0;
  if (looked_up) {
    memory.fill(scratch, 0xff, <usize>n << 2);
    for (let r = 0; r < lookup.ne0; r++) {
      const i = load<u32>(lookup.data + (<usize>r << 2));
      if (i < <u32>n) store<i32>(scratch + (<usize>i << 2), r);
    }
  }
  const least = reinterpret<f32>(op.p1);
  const to = range_end(idx.ne1, ith, nth);
  for (let t = range_start(idx.ne1, ith, nth); t < to; t++) {
    const list = row_of(op.dst, t, 0, 0);
    const x = row_of(idx, t, 0, 0);
    let end = list + 4;
    for (let i = 0; i < n; i++) {
      const v = load<f32>(x + (<usize>i << 2));
      const counts = i32(v >= least) | (i32(v != 0) & op.p0);
      if (!looked_up && per == 1) {
        // Without a branch, which nobody could foretell: what is not kept is overwritten.
        store<i32>(end, i);
        end += counts << 2;
      } else if (counts) {
        const first = looked_up ? load<i32>(scratch + (<usize>i << 2)) : i * per;
        for (let r = first, last = first < 0 ? first : first + per; r < last; r++, end += 4) store<i32>(end, r);
      }
    }
    store<i32>(list, <i32>(end - list - 4) >> 2);
  }
}

/** Element i of a list. */
// @ts-ignore: decorator
@inline
export function row_in(list: usize, i: i32): i32 {
  return load<i32>(list + (<usize>i << 2), 4);
}

/** Where a row's place is among the elements of a column. */
// @ts-ignore: decorator
@inline
export function place_of(lookup: Tensor, row: i32): i32 {
  return changetype<usize>(lookup) ? load<i32>(lookup.data + (<usize>row << 2)) : row;
}

/** Whether there is `dense`, and more than `turn` of 16 rows count. */
// @ts-ignore: decorator
@inline
export function is_dense(dense: Tensor, count: i32, rows: i32, turn: i32): bool {
  return changetype<usize>(dense) != 0 && <i64>count * 16 > <i64>rows * turn;
}

/**
 * dst [n, tokens] f32: for each column of src1 (activations of quantize_act or f32, [k, 1, tokens]) its products with the rows of src0 [k, rows] that the
 * list src2 names, each at its place: src3 as active_rows has it. All else is 0. Plain rows of q4_0 and q8_0 are multiplied where they lie; others are
 * gathered, packed in the scratch, 16 at a time, and multiplied by the loops of packed products: the bits are the same. Of packed weights a row block is
 * multiplied where one of its rows counts.
 * src4: the same weights packed, for columns most of whose rows count.
 */
export function mul_mat_sparse(op: Op, scratch: usize): void {
  const tokens = op.dst.ne1;
  let t = 0;
  let before = 0;
  for (let chunk = take(op.cursor); ; chunk = take(op.cursor)) {
    for (; t < tokens; t++) {
      const end = before + max(1, (load<i32>(row_of(op.src2, t, 0, 0)) + ROWS - 1) / ROWS);
      if (chunk < end) break;
      before = end;
    }
    if (t == tokens) return;
    some_rows(op, t, (chunk - before) * ROWS, scratch);
  }
}

/** The first of the list's elements from i on that chunks from there on compute: with packed weights, none of a row block that an earlier one began. */
function first_from(list: usize, i: i32, packed: bool): i32 {
  const count = load<i32>(list);
  if (i >= count) return count;
  if (packed && i > 0) while (i < count && row_in(list, i) / ROWS == row_in(list, i - 1) / ROWS) i++;
  return i;
}

/** Bytes of a row; nb1 says nothing where there is one. */
function bytes_of_row(w: Tensor): usize {
  return <usize>(w.ne0 / blck_size(w.type)) * type_size(w.type);
}

/** Packs the n plain rows of w that the list names from element i on, as a row block at `to`; returns how many of its blocks have a scale that is not finite. */
function gather(w: Tensor, list: usize, i: i32, n: i32, to: usize): i32 {
  const bytes = bytes_of_row(w);
  const rows = to + <usize>ROWS * bytes;
  for (let j = 0; j < n; j++) memory.copy(rows + <usize>j * bytes, w.data + <usize>row_in(list, i + j) * bytes, bytes);
  return repack(w.type, rows, to, w.ne0, n);
}

/** Elements [i, i + 16) of token t's list, and the zeros between and, at the ends, around their places. */
function some_rows(op: Op, t: i32, i: i32, scratch: usize): void {
  const list = row_of(op.src2, t, 0, 0);
  const count = load<i32>(list);
  const w = is_dense(op.src4, count, op.src0.ne1, TURN) ? op.src4 : op.src0;
  const lookup = op.src3;
  const packed = w.layout == LAYOUT_PACKED;
  const x = row_of(op.src1, 0, t, 0);
  const y = row_of(op.dst, t, 0, 0);
  const last = i + ROWS >= count;
  const end = first_from(list, i + ROWS, packed);
  i = first_from(list, i, packed);
  const from = i == 0 ? 0 : place_of(lookup, row_in(list, i - 1)) + 1;
  const to = last ? op.dst.ne0 : place_of(lookup, row_in(list, end - 1)) + 1;
  memory.fill(y + (<usize>from << 2), 0, <usize>(to - from) << 2);
  const work = scratch + ACC;
  const gathered = work + mul_mat_packed_scratch();
  if (!packed && takes_rows(w.type)) {
    const bytes = bytes_of_row(w);
    for (let j = i; j < end; j++) touch(w.data + <usize>row_in(list, j) * w.nb1, bytes, scratch);
    for (; i < end; i += AT_ONCE) {
      // Where a list ends its last row is taken more than once.
      for (let j = 0; j < AT_ONCE; j++)
        store<usize>(work + <usize>j * sizeof<usize>(), w.data + <usize>row_in(list, min(i + j, end - 1)) * w.nb1);
      rows_4x1(w.type, work, w.ne0, x, scratch);
      for (let j = i, stop = min(i + AT_ONCE, end); j < stop; j++)
        store<f32>(y + (<usize>place_of(lookup, row_in(list, j)) << 2), load<f32>(scratch + (<usize>(j - i) << 2)));
    }
    return;
  }
  while (i < end) {
    let n = 1;
    let first = 0;
    let broken = false;
    if (packed) {
      first = row_in(list, i) & -ROWS;
      while (i + n < end && (row_in(list, i + n) & -ROWS) == first) n++;
    } else {
      n = end - i;
      broken = gather(w, list, i, n, gathered) != 0;
      // A row with a scale that is not finite has no number, and is packed alone to tell which it is.
      if (broken && n > 1) broken = gather(w, list, i, (n = 1), gathered) != 0;
    }
    mul_mat_packed(
      w.type,
      packed ? w.data : gathered,
      w.ne0,
      first,
      first + ROWS,
      x,
      op.src1.nb1,
      1,
      scratch - (<usize>first << 2),
      0,
      work,
      0,
    );
    for (let j = 0; j < n; j++, i++) {
      const row = row_in(list, i);
      const sum = load<f32>(scratch + (<usize>(packed ? row - first : j) << 2));
      store<f32>(y + (<usize>place_of(lookup, row) << 2), broken ? NaN : sum);
    }
  }
}
