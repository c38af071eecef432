/**
 * Products with only the selected rows (PowerInfer, arXiv 2312.12456; Deja Vu, arXiv 2310.17157):
 * the neurons that fire for a token.
 *
 * A column of src2 belongs to one token; its elements select the rows for that token. Each thread
 * finds the rows for itself, a stretch of a column at a time: testing a thousand elements takes
 * half a microsecond, less than waiting at a barrier for a shared list. Within a stretch all tokens
 * are computed, one after the other, so that a row which several tokens need is read from memory
 * once. One thread sums a whole result, in an order that depends on shapes only.
 *
 * Not kept: prefetching four rows just before the previous four are computed, instead of all of a
 * stretch first (slower). For timings see bench/results, sparse.
 */
import {
  FETCHED_AT_ONCE,
  LAYOUT_PACKED,
  SPARSE_SCRATCH_ADDRESSES,
  SPARSE_SCRATCH_LIST,
  SPARSE_SCRATCH_SIZE,
  SPARSE_STRETCH,
  SPARSE_TURN_MUL_MAT_SPARSE,
} from '../layout';
import { ROWS } from '../matmul/format/group';
import { mul_mat_packed, mul_mat_packed_scratch, repack } from '../matmul/packed';
import { AT_ONCE, FETCHES, rows_8x1, touch, touch_rows } from '../matmul/rows_8x1';
import { next_chunk } from '../runtime/schedule';
import { MOST_CHUNKS } from '../runtime/sync';
import { Op, Tensor, row_of } from '../runtime/tensor';
import { blck_size, takes_rows, type_size } from '../type/ids';
import { fetched_rows } from './mul_mat_packed';

/** A stretch is halved while threads would get fewer than this many stretches each. */
const FEW: i32 = 8;

/** Bytes of a stretch's list, and of the addresses of its rows. */
const LIST: usize = SPARSE_SCRATCH_ADDRESSES - SPARSE_SCRATCH_LIST;
const ADDRESSES: usize = SPARSE_SCRATCH_SIZE - SPARSE_SCRATCH_ADDRESSES;

/**
 * Stores at `list` the selected elements of [from, to) of column t of src2, as i32 in ascending
 * order. An element (f32) is selected if it is at least p1 (an f32); with p0 = 1, if it is neither
 * 0 nor below p1. (So a NaN is selected only with p0 = 1.) With src3, the rows of elements
 * (inverse_lookup), elements without a row are not selected. Returns the number of selected
 * elements. One word after them is overwritten.
 */
export function list_elements(op: Op, t: i32, from: i32, to: i32, list: usize): i32 {
  const rows = op.src3;
  let end = list;
  for (let i = from; i < to; i += 64) {
    for (let set = elements_of(op, t, i, min(i + 64, to)); set != 0; set &= set - 1) {
      const element = i + <i32>ctz(set);
      store<i32>(end, element);
      if (row_at(rows, element) >= 0) end += 4;
    }
  }
  return <i32>(end - list) >> 2;
}

/**
 * Selected ones of at most 64 elements [from, to) of column t of src2, as bits. All elements are
 * tested without branches, since a branch would be unpredictable.
 */
export function elements_of(op: Op, t: i32, from: i32, to: i32): u64 {
  const least = f32x4.splat(reinterpret<f32>(op.p1));
  const not_0 = op.p0 != 0;
  let p = row_of(op.src2, t, 0, 0) + (<usize>from << 2);
  let set: u64 = 0;
  let bit: u64 = 0;
  for (const end = <u64>(to - from) & -16; bit != end; bit += 16, p += 64)
    set |= <u64>i8x16.bitmask(not_0 ? which_of_16(p, least, true) : which_of_16(p, least, false)) << bit;
  for (const end = <u64>(to - from); bit != end; bit++, p += 4) {
    const v = v128.load32_zero(p);
    set |= <u64>(i32x4.bitmask(which_count(v, least, not_0)) & 1) << bit;
  }
  return set;
}

/** Bytes for sixteen elements at p: all bits set if the element is selected. */
@inline
function which_of_16(p: usize, least: v128, not_0: bool): v128 {
  const a = i16x8.narrow_i32x4_s(which_count(v128.load(p), least, not_0), which_count(v128.load(p, 16), least, not_0));
  const b = i16x8.narrow_i32x4_s(which_count(v128.load(p, 32), least, not_0), which_count(v128.load(p, 48), least, not_0));
  return i8x16.narrow_i16x8_s(a, b);
}

/**
 * Number of selected elements of [from, to) of column t of src2, if each element stands for a row
 * (without src3).
 */
export function count_elements(op: Op, t: i32, from: i32, to: i32): i32 {
  let count: u64 = 0;
  for (let i = from; i < to; i += 64) count += popcnt(elements_of(op, t, i, min(i + 64, to)));
  return <i32>count;
}

/**
 * All bits set for the selected ones of the elements v, f32: at least `least` or, with not_0,
 * neither 0 nor below it.
 */
@inline
function which_count(v: v128, least: v128, not_0: bool): v128 {
  return not_0 ? v128.andnot(f32x4.ne(v, f32x4.splat(0)), f32x4.lt(v, least)) : f32x4.ge(v, least);
}

/** Row that element i stands for. */
@inline
export function row_at(rows: Tensor, i: i32): i32 {
  return changetype<usize>(rows) ? load<i32>(rows.data + (<usize>i << 2)) : i;
}

/**
 * dst, i32 [n] = for each of n elements its row, or -1. src0, i32 [rows], has for each row its one
 * element. If several rows name one element, the last wins; rows with an invalid element are
 * ignored.
 */
export function inverse_lookup(op: Op, ith: i32): void {
  if (ith > 0) return;
  const dst = op.dst;
  const lookup = op.src0;
  memory.fill(dst.data, 0xff, <usize>dst.ne0 << 2);
  for (let r = 0; r < lookup.ne0; r++) {
    const i = load<u32>(lookup.data + (<usize>r << 2));
    if (i < <u32>dst.ne0) store<i32>(dst.data + (<usize>i << 2), r);
  }
}

/** True if there is `dense` and more than `turn` of 16 rows are selected. */
@inline
export function is_dense(dense: Tensor, count: i32, rows: i32, turn: i32): bool {
  return changetype<usize>(dense) != 0 && <i64>count * 16 > <i64>rows * turn;
}

/**
 * dst [n, tokens] f32: for each column of src1, its products with the selected rows of src0 [k,
 * rows], each at the place of its element. The rest of dst is 0.
 *
 *   src1 | activations of quantize_act or f32, [k, 1, tokens]
 *   src2 | [n, tokens], selects the rows (list_elements)
 *   src4 | the same weights packed, for stretches with many selected rows
 *   p3   | true if src4 is prefetched (mul_mat_packed.ts)
 *   src5 | f32 [n, tokens]: factors of the products
 *
 * Plain rows of q4_0 and q8_0 are multiplied in place. Others are gathered 16 at a time, packed in
 * the scratch, and multiplied by the loops of packed products, with the same bits. If src0 is
 * packed, a row block is multiplied if one of its rows is selected.
 */
export function mul_mat_sparse(op: Op, ith: i32, nth: i32, cursor_bytes: usize, scratch: usize): void {
  const n = op.src2.ne0;
  let stretch = SPARSE_STRETCH;
  while (stretch > 64 && n < stretch * FEW * nth) stretch >>= 1;
  const size = stretch * (n / (stretch * MOST_CHUNKS) + 1);
  const chunks = (n + size - 1) / size;
  for (let c = next_chunk(op, chunks, ith, nth, cursor_bytes); c >= 0; c = next_chunk(op, chunks, ith, nth, cursor_bytes)) {
    for (let from = c * size, end = min(from + size, n); from < end; from += stretch) {
      for (let t = 0; t < op.dst.ne1; t++) some_rows(op, t, from, min(from + stretch, n), scratch);
    }
  }
}

/** Bytes of a row. (nb1 is not set if there is a single row.) */
function bytes_of_row(w: Tensor): usize {
  return <usize>(w.ne0 / blck_size(w.type)) * type_size(w.type);
}

/**
 * Packs as a row block at `to` the plain rows of w for n elements of a list. Returns the number of
 * its blocks with a scale that is not finite.
 */
function gather(w: Tensor, rows: Tensor, list: usize, n: i32, to: usize): i32 {
  const bytes = bytes_of_row(w);
  const plain = to + <usize>ROWS * bytes;
  for (let j = 0; j < n; j++) memory.copy(plain + <usize>j * bytes, plain_row(w, rows, list, j), bytes);
  return repack(w.type, w.type, plain, to, w.ne0, n);
}

/** Address of the plain row of element j of a list. */
@inline
function plain_row(w: Tensor, rows: Tensor, list: usize, j: i32): usize {
  return w.data + <usize>row_at(rows, load<i32>(list + (<usize>j << 2))) * w.nb1;
}

/** Computes elements [from, to) of token t. */
function some_rows(op: Op, t: i32, from: i32, to: i32, scratch: usize): void {
  const list = scratch + SPARSE_SCRATCH_LIST;
  const y = row_of(op.dst, t, 0, 0);
  const rows = op.src3;
  const behind = to == op.src2.ne0 ? op.dst.ne0 : to;
  const times = changetype<usize>(op.src5) ? row_of(op.src5, t, 0, 0) : 0;
  // Row i belongs to element i, so all of the packed rows can be computed.
  if (!changetype<usize>(rows) && (changetype<usize>(op.src4) || op.src0.layout == LAYOUT_PACKED)) {
    const w = changetype<usize>(op.src4) ? op.src4 : op.src0;
    if (is_dense(w, count_elements(op, t, from, to), to - from, SPARSE_TURN_MUL_MAT_SPARSE)) {
      dense_rows(w, from, to, row_of(op.src1, 0, t, 0), y, op.p3 != 0, list);
      memory.fill(y + (<usize>to << 2), 0, <usize>(behind - to) << 2);
      if (times) multiply(y + (<usize>from << 2), times + (<usize>from << 2), to - from);
      clear_others(op, t, from, to, y);
      return;
    }
  }
  memory.fill(y + (<usize>from << 2), 0, <usize>(behind - from) << 2);
  const count = list_elements(op, t, from, to, list);
  products(op, t, to - from, list, count, scratch);
  if (!times) return;
  for (let p = list, end = list + (<usize>count << 2); p != end; p += 4) {
    const i = <usize>load<i32>(p) << 2;
    store<f32>(y + i, load<f32>(y + i) * load<f32>(times + i));
  }
}

/** Clears the ones of y[from .. to) whose elements are not selected for token t. */
function clear_others(op: Op, t: i32, from: i32, to: i32, y: usize): void {
  for (let i = from; i < to; i += 64) {
    const end = min(i + 64, to);
    for (let set = ~elements_of(op, t, i, end) & (<u64>-1 >> (64 - (end - i))); set != 0; set &= set - 1)
      store<f32>(y + (<usize>(i + <i32>ctz(set)) << 2), 0);
  }
}

/** y *= x, n f32. */
function multiply(y: usize, x: usize, n: i32): void {
  for (const end = y + (<usize>(n & -4) << 2); y != end; y += 16, x += 16) v128.store(y, f32x4.mul(v128.load(y), v128.load(x)));
  for (const end = y + (<usize>(n & 3) << 2); y != end; y += 4, x += 4) store<f32>(y, load<f32>(y) * load<f32>(x));
}

/**
 * Computes the products of the elements in a list. all: number of elements from which they were
 * selected.
 */
function products(op: Op, t: i32, all: i32, list: usize, count: i32, scratch: usize): void {
  const addresses = list + LIST;
  const work = addresses + ADDRESSES;
  const rows = op.src3;
  const w = is_dense(op.src4, count, all, SPARSE_TURN_MUL_MAT_SPARSE) ? op.src4 : op.src0;
  const packed = w.layout == LAYOUT_PACKED;
  const x = row_of(op.src1, 0, t, 0);
  const y = row_of(op.dst, t, 0, 0);
  if (!packed && takes_rows(w.type)) {
    if (count == 0) return;
    const fetched = (count + FETCHED_AT_ONCE - 1) & -FETCHED_AT_ONCE;
    for (let j = 0; j < fetched; j++) store<usize>(addresses + <usize>j * sizeof<usize>(), plain_row(w, rows, list, min(j, count - 1)));
    touch_rows(addresses, fetched, op.p4 ? op.p4 : bytes_of_row(w), scratch);
    for (let i = 0; i < count; i += AT_ONCE) {
      const n = min(AT_ONCE, count - i);
      rows_8x1(w.type, addresses + <usize>i * sizeof<usize>(), n <= AT_ONCE / 2, w.ne0, x, scratch);
      for (let j = 0; j < n; j++) put(y, list, i + j, load<f32>(scratch + (<usize>j << 2)));
    }
    return;
  }
  const gathered = work + mul_mat_packed_scratch();
  for (let i = 0; i < count;) {
    const at = list + (<usize>i << 2);
    let n = 1;
    let first = 0;
    let broken = false;
    if (packed) {
      first = row_at(rows, load<i32>(at)) & -ROWS;
      while (i + n < count && (row_at(rows, load<i32>(at + (<usize>n << 2))) & -ROWS) == first) n++;
    } else {
      n = min(ROWS, count - i);
      broken = gather(w, rows, at, n, gathered) != 0;
      // A row with a scale that is not finite gives NaN. Rows are packed one by one to find which
      // it is.
      if (broken && n > 1) broken = gather(w, rows, at, (n = 1), gathered) != 0;
    }
    const data = packed ? w.data : gathered;
    mul_mat_packed(w.type, data, w.ne0, first, first + ROWS, x, op.src1.nb1, 1, scratch - (<usize>first << 2), 0, work, 0);
    for (let j = 0; j < n; j++, i++) {
      const place = packed ? row_at(rows, load<i32>(list + (<usize>i << 2))) - first : j;
      put(y, list, i, broken ? NaN : load<f32>(scratch + (<usize>place << 2)));
    }
  }
}

/**
 * y[from .. to) = these rows of w, packed, times the column at x. fetched: true if weights are
 * prefetched (mul_mat_packed.ts).
 */
export function dense_rows(w: Tensor, from: i32, to: i32, x: usize, y: usize, fetched: bool, work: usize): void {
  const fetches = FETCHES && fetched;
  const step = fetches ? fetched_rows(w, to - from) : to - from;
  for (let row = from; row < to; row += step) {
    const end = min(row + step, to);
    if (fetches) touch(w.data + <usize>row * w.nb1, <usize>(end - row) * w.nb1, work);
    mul_mat_packed(w.type, w.data, w.ne0, row, end, x, 0, 1, y, 0, work, 0);
  }
}

/** Stores the product of element j of a list. */
@inline
function put(y: usize, list: usize, j: i32, v: f32): void {
  store<f32>(y + (<usize>load<i32>(list + (<usize>j << 2)) << 2), v);
}
