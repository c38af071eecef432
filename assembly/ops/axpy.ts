/**
 * Transposed sparse products (sparse.ts): sums of the selected rows, each times its element.
 *
 * Rows of q4_0 and q8_0 are widened in registers: blocks of several rows are added to the same 32
 * sums. Other types are converted to f32 first. Either way an output is one chain over the rows in
 * order. The f32 of a 4-bit code has at most two nonzero bytes. These are looked up, which takes
 * half as many instructions as widening and converting.
 */
import {
  AXPY_AS_F32,
  AXPY_AT_ONCE,
  AXPY_SCRATCH_ADDRESSES,
  AXPY_SCRATCH_FACTORS,
  AXPY_SCRATCH_LIST,
  AXPY_SCRATCH_ROWS,
  AXPY_STRETCH,
  AXPY_STRIPE,
  FETCHED_AT_ONCE,
  SPARSE_TURN_AXPY,
} from '../layout';
import { act_row_size, quantize_act } from '../matmul/act';
import { touch_rows } from '../matmul/rows_8x1';
import { range_end, range_start } from '../runtime/schedule';
import { Op, row_of } from '../runtime/tensor';
import { f16x4_to_f32x4, lookup16, madd, splat_u6 } from '../simd';
import { F32, Q8_0, blck_size, takes_rows, type_size } from '../type/ids';
import { dequantize_row } from '../type/traits';
import { count_elements, dense_rows, is_dense, list_elements, row_at } from './sparse';

const STRIPE_BYTES: usize = <usize>AXPY_STRIPE << 2;
/** An element below it times any finite f16 is finite. */
const MOST: f32 = 2.5961484e33; // 2^111

/**
 * dst [n, tokens] f32: for each column of src1 (f32), the sum of the selected rows of src0 [n,
 * rows], plain, each times its element of src1. Rows are selected by their elements of src2
 * (list_elements); one element stands for p2 rows. The order is ascending, one chain y = madd(w, x,
 * y) as in gemm_f32_8x4.ts. Elements that are 0 add nothing. Threads divide the columns of src0.
 *
 * src4: the same weights packed, not transposed, for columns with many selected rows. p3: the type
 * of activations for its products. p4: true if its weights are prefetched (mul_mat_packed.ts).
 */
export function axpy(op: Op, ith: i32, nth: i32, scratch: usize): void {
  const w = op.src0;
  const dense = op.src4;
  const n = w.ne0;
  const unit = max(32, <i32>blck_size(w.type));
  const units = (n + unit - 1) / unit;
  const from = range_start(units, ith, nth) * unit;
  const to = min(range_end(units, ith, nth) * unit, n);
  if (from >= to) return;
  for (let t = 0, t0 = 0; t <= op.dst.ne1; t++) {
    const last = t == op.dst.ne1;
    if (!last && !is_dense(dense, changetype<usize>(dense) ? count_elements(op, t, 0, op.src2.ne0) : 0, w.ne1, SPARSE_TURN_AXPY)) continue;
    some_columns(op, t0, t, from, to, scratch);
    if (last) return;
    t0 = t + 1;
    let x = row_of(op.src1, t, 0, 0);
    let work = scratch;
    if (op.p3 != F32) {
      // Every thread quantises for itself, which takes less time than a barrier.
      quantize_act(op.p3, x, 0, dense.ne0, scratch, 0, 0, 1);
      x = scratch;
      work += act_row_size(op.p3, dense.ne0);
    }
    dense_rows(dense, from, to, x, row_of(op.dst, t, 0, 0), op.p4 != 0, work);
  }
}

/** Computes columns [from, to) of the sums of tokens [t0, t1). */
function some_columns(op: Op, t0: i32, t1: i32, from: i32, to: i32, scratch: usize): void {
  const n = op.src2.ne0;
  const list = scratch + AXPY_SCRATCH_LIST;
  // Number of pending rows of block types. They are added when AXPY_AT_ONCE are pending or the token
  // changes.
  let waiting = 0;
  for (let i = 0; i < n; i += AXPY_STRETCH) {
    for (let t = t0; t < t1; t++) {
      if (i == 0) memory.fill(row_of(op.dst, t, 0, 0) + (<usize>from << 2), 0, <usize>(to - from) << 2);
      const end = list + (<usize>list_elements(op, t, i, min(i + AXPY_STRETCH, n), list) << 2);
      const blocks = takes_rows(op.src0.type) && are_small(op, t, list, end);
      if (!blocks) waiting = add_waiting(op, t, waiting, from, to, scratch);
      const step = blocks ? to - from : AXPY_STRIPE;
      for (let c = from; c < to; c += step) waiting = stripe(op, t, blocks, list, end, c, min(step, to - c), waiting, scratch);
      if (t1 - t0 > 1 || i + AXPY_STRETCH >= n) waiting = add_waiting(op, t, waiting, from, to, scratch);
    }
  }
}

/** Adds the pending rows, if any. Returns the new number of pending rows, 0. */
function add_waiting(op: Op, t: i32, waiting: i32, from: i32, to: i32, scratch: usize): i32 {
  if (waiting > 0) add_blocks(op.src0.type, row_of(op.dst, t, 0, 0) + (<usize>from << 2), to - from, scratch, waiting);
  return 0;
}

/** True if all elements times their rows' scales are finite, provided the scales are. */
function are_small(op: Op, t: i32, list: usize, end: usize): bool {
  const x = row_of(op.src1, t, 0, 0);
  let most: f32 = 0;
  for (let p = list; p != end; p += 4) {
    for (let j = 0; j < op.p2; j++) most = max(most, abs(load<f32>(x + (<usize>(load<i32>(p) * op.p2 + j) << 2))));
  }
  return most < MOST;
}

/**
 * Computes columns [c, c + n) of one token's sum. scratch: elements, addresses of their rows, and
 * rows as f32; `rows` of them are pending already. Returns the number still pending (block types
 * only).
 */
function stripe(op: Op, t: i32, blocks: bool, list: usize, end: usize, c: i32, n: i32, rows: i32, scratch: usize): i32 {
  const type = op.src0.type;
  const w = op.src0.data + <usize>(<u32>c / blck_size(type)) * type_size(type);
  const x = row_of(op.src1, t, 0, 0);
  const y = row_of(op.dst, t, 0, 0) + (<usize>c << 2);
  const most = blocks ? AXPY_AT_ONCE : AXPY_AS_F32;
  for (let p = list; p != end; p += 4) {
    for (let i = load<i32>(p) * op.p2, last = i + op.p2; i < last; i++) {
      const v = load<f32>(x + (<usize>i << 2));
      if (v == 0) continue;
      const at = scratch + (<usize>rows << 2);
      let row = w + <usize>row_at(op.src3, i) * op.src0.nb1;
      if (!blocks && type != F32) {
        const f32s = scratch + AXPY_SCRATCH_ROWS + <usize>rows * STRIPE_BYTES;
        dequantize_row(type, row, f32s, n);
        row = f32s;
      }
      store<f32>(at, v);
      store<usize>(at, row, AXPY_SCRATCH_ADDRESSES);
      if (++rows < most) continue;
      if (blocks) add_blocks(type, y, n, scratch, rows);
      else add_four(y, n, scratch);
      rows = 0;
    }
  }
  if (blocks) return rows;
  for (let at = scratch; rows > 0; rows--, at += 4) add_one(y, n, load<usize>(at, AXPY_SCRATCH_ADDRESSES), at);
  return 0;
}

/**
 * y += rows of q4_0 or q8_0 times their elements, one block of each row in turn. The scale is
 * multiplied by the element first.
 */
function add_blocks(type: u32, y: usize, n: i32, rows: usize, count: i32): void {
  const bytes: usize = type == Q8_0 ? 34 : 18;
  const last = rows + (<usize>count << 2);
  // Scales are loaded by fours and rows prefetched by eights. A valid row's address fills the
  // places after the last row.
  const fetched = (count + FETCHED_AT_ONCE - 1) & -FETCHED_AT_ONCE;
  for (let i = last; i != rows + (<usize>fetched << 2); i += 4)
    store<usize>(i, load<usize>(rows, AXPY_SCRATCH_ADDRESSES), AXPY_SCRATCH_ADDRESSES);
  touch_rows(rows + AXPY_SCRATCH_ADDRESSES, fetched, <usize>(n >> 5) * bytes, rows + AXPY_SCRATCH_ROWS);
  for (let at: usize = 0; n > 0; n -= 32, at += bytes, y += 128) {
    for (let i = rows; i < last; i += 16) {
      let d = v128.load16_splat(load<usize>(i, AXPY_SCRATCH_ADDRESSES) + at);
      d = v128.load16_lane(load<usize>(i, AXPY_SCRATCH_ADDRESSES + 4) + at, d, 3);
      d = v128.load16_lane(load<usize>(i, AXPY_SCRATCH_ADDRESSES + 8) + at, d, 5);
      d = v128.load16_lane(load<usize>(i, AXPY_SCRATCH_ADDRESSES + 12) + at, d, 7);
      d = i32x4.shr_s(d, 16);
      v128.store(i, f32x4.mul(f16x4_to_f32x4(d), v128.load(i)), AXPY_SCRATCH_FACTORS);
    }
    if (type == Q8_0) add_block<Q8>(y, at, rows, last);
    else add_block<Q4>(y, at, rows, last);
  }
}

/** Markers for the codes of a block: bytes, or their halves. */
class Q8 {}
class Q4 {}

/**
 * The third and fourth bytes of the f32 of -8..7, and a mask that keeps the upper half of an i32.
 */
const THIRD = memory.data<u8>([0, 0xe0, 0xc0, 0xa0, 0x80, 0x40, 0, 0x80, 0, 0x80, 0, 0x40, 0x80, 0xa0, 0xc0, 0xe0]);
const FOURTH = memory.data<u8>([0xc1, 0xc0, 0xc0, 0xc0, 0xc0, 0xc0, 0xc0, 0xbf, 0, 0x3f, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40]);
const UPPER_HALF = memory.data<u8>([0, 0, 255, 255]);

/**
 * The 32 sums at y += the blocks `at` bytes into the rows, times their factors. They take sixteen
 * sums at a time, because V8 spills some of 32.
 */
function add_block<C>(y: usize, at: usize, rows: usize, last: usize): void {
  if (idof<C>() == idof<Q8>()) {
    add_bytes(y, at + 2, rows, last);
    add_bytes(y + 64, at + 18, rows, last);
  } else {
    add_halves(y, at + 2, rows, last, false);
    add_halves(y + 64, at + 2, rows, last, true);
  }
}

/** The sixteen sums at y += the 8-bit codes `at` bytes into the rows, times their factors. */
function add_bytes(y: usize, at: usize, rows: usize, last: usize): void {
  let y0 = v128.load(y);
  let y1 = v128.load(y, 16);
  let y2 = v128.load(y, 32);
  let y3 = v128.load(y, 48);
  for (let i = rows; i != last; i += 4) {
    const p = load<usize>(i, AXPY_SCRATCH_ADDRESSES) + at;
    const x = v128.load32_splat(i, AXPY_SCRATCH_FACTORS);
    const first = v128.load8x8_s(p);
    const second = v128.load8x8_s(p, 8);
    y0 = madd(f32x4.convert_i32x4_s(i32x4.extend_low_i16x8_s(first)), x, y0);
    y1 = madd(f32x4.convert_i32x4_s(i32x4.extend_high_i16x8_s(first)), x, y1);
    y2 = madd(f32x4.convert_i32x4_s(i32x4.extend_low_i16x8_s(second)), x, y2);
    y3 = madd(f32x4.convert_i32x4_s(i32x4.extend_high_i16x8_s(second)), x, y3);
  }
  v128.store(y, y0);
  v128.store(y, y1, 16);
  v128.store(y, y2, 32);
  v128.store(y, y3, 48);
}

/**
 * The sixteen sums at y += the lower or upper halves of the bytes `at` bytes into the rows, times
 * their factors. Codes are looked up as the upper halves of their f32, two codes in an i32. The
 * even one is shifted up, and for the odd one the other half is masked. So sums are kept in even
 * and odd order meanwhile.
 */
@inline
function add_halves(y: usize, at: usize, rows: usize, last: usize, upper: bool): void {
  const mask = splat_u6(15);
  const upper_half = v128.load32_splat(UPPER_HALF);
  const thirds = v128.load(THIRD);
  const fourths = v128.load(FOURTH);
  let a = v128.load(y);
  let b = v128.load(y, 16);
  let y0 = v128.shuffle<i32>(a, b, 0, 2, 4, 6);
  let y1 = v128.shuffle<i32>(a, b, 1, 3, 5, 7);
  a = v128.load(y, 32);
  b = v128.load(y, 48);
  let y2 = v128.shuffle<i32>(a, b, 0, 2, 4, 6);
  let y3 = v128.shuffle<i32>(a, b, 1, 3, 5, 7);
  for (let i = rows; i != last; i += 4) {
    const bytes = v128.load(load<usize>(i, AXPY_SCRATCH_ADDRESSES) + at);
    const x = v128.load32_splat(i, AXPY_SCRATCH_FACTORS);
    const codes = v128.and(upper ? i16x8.shr_u(bytes, 4) : bytes, mask);
    const third = lookup16(thirds, codes);
    const fourth = lookup16(fourths, codes);
    let h = v128.shuffle<i8>(third, fourth, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    y0 = madd(i32x4.shl(h, 16), x, y0);
    y1 = madd(v128.and(h, upper_half), x, y1);
    h = v128.shuffle<i8>(third, fourth, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    y2 = madd(i32x4.shl(h, 16), x, y2);
    y3 = madd(v128.and(h, upper_half), x, y3);
  }
  v128.store(y, v128.shuffle<i32>(y0, y1, 0, 4, 1, 5));
  v128.store(y, v128.shuffle<i32>(y0, y1, 2, 6, 3, 7), 16);
  v128.store(y, v128.shuffle<i32>(y2, y3, 0, 4, 1, 5), 32);
  v128.store(y, v128.shuffle<i32>(y2, y3, 2, 6, 3, 7), 48);
}

/** y += four f32 rows times their elements, one after the other. */
function add_four(y: usize, n: i32, four: usize): void {
  const x0 = v128.load32_splat(four);
  const x1 = v128.load32_splat(four, 4);
  const x2 = v128.load32_splat(four, 8);
  const x3 = v128.load32_splat(four, 12);
  let p0 = load<usize>(four, AXPY_SCRATCH_ADDRESSES);
  const d1 = load<usize>(four, AXPY_SCRATCH_ADDRESSES + 4) - p0;
  const d2 = load<usize>(four, AXPY_SCRATCH_ADDRESSES + 8) - p0;
  const d3 = load<usize>(four, AXPY_SCRATCH_ADDRESSES + 12) - p0;
  for (const end = y + (<usize>(n & -4) << 2); y != end; y += 16, p0 += 16) {
    const s = madd(v128.load(p0 + d1), x1, madd(v128.load(p0), x0, v128.load(y)));
    v128.store(y, madd(v128.load(p0 + d3), x3, madd(v128.load(p0 + d2), x2, s)));
  }
  for (const end = y + (<usize>(n & 3) << 2); y != end; y += 4, p0 += 4) {
    const s = madd(v128.load32_zero(p0 + d1), x1, madd(v128.load32_zero(p0), x0, v128.load32_zero(y)));
    v128.store32_lane(y, madd(v128.load32_zero(p0 + d3), x3, madd(v128.load32_zero(p0 + d2), x2, s)), 0);
  }
}

/** y += the row at p times the element at x. */
function add_one(y: usize, n: i32, p: usize, x: usize): void {
  const v = v128.load32_splat(x);
  for (const end = y + (<usize>(n & -4) << 2); y != end; y += 16, p += 16) v128.store(y, madd(v128.load(p), v, v128.load(y)));
  for (const end = y + (<usize>(n & 3) << 2); y != end; y += 4, p += 4)
    v128.store32_lane(y, madd(v128.load32_zero(p), v, v128.load32_zero(y)), 0);
}
