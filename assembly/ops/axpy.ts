/**
 * Transposed products of which only some rows count (sparse.ts): sums of rows times their elements.
 *
 * Rows of q4_0 and q8_0 are widened in registers, a block of some rows after the other onto the same 32 sums; others are made f32 first. Either way an output
 * is one chain over the rows in their order.
 */
import { mul_mat_packed } from '../matmul/packed';
import { takes_rows, touch } from '../matmul/rows_4x1';
import { range_end, range_start } from '../runtime/schedule';
import { Op, row_of } from '../runtime/tensor';
import { f16_to_f32, held, madd } from '../simd';
import { F32, Q8_0, blck_size, type_size } from '../type/ids';
import { dequantize_row } from '../type/traits';
import { is_dense, list_elements, row_at } from './sparse';

/** Of 16 rows, how many are still added one by one where there are packed weights (src/graph/layout.ts SPARSE_TURN). */
const TURN: i32 = 3;
/** Rows that are added at once, and those that are made f32 first. */
const AT_ONCE: i32 = 8;
const AS_F32: i32 = 4;
/** Columns whose sums, and rows as f32, stay in the L1 cache together. */
const STRIPE: i32 = 512;
const STRIPE_BYTES: usize = <usize>STRIPE << 2;
/** Elements of a column whose rows are added at a time: so many rows of a thread's columns are in the L2 cache still when the next token wants them. */
const STRETCH: i32 = 512;
/** Where in the scratch the addresses of rows lie, behind their elements, rows as f32, and the list of a stretch. */
const ADDRESSES: usize = <usize>AT_ONCE << 2;
const ROWS_AT: usize = 2 * ADDRESSES;
const LIST_AT: usize = ROWS_AT + AS_F32 * STRIPE_BYTES;
/** An element below it times any finite f16 is finite. */
const MOST: f32 = 2.5961484e33; // 2^111

/**
 * dst [n, tokens] f32: for each column of src1, f32, the sum of the rows of src0 [n, rows], plain, whose elements of src2 count (list_elements), each times its
 * element of src1, in their order: one chain y = madd(w, x, y), as in gemm_f32.ts. Of src2 an element stands for p2 rows. Elements that are 0 add nothing. Threads share columns of src0.
 * src4: the same weights packed, not transposed, for columns most of whose rows count; src5: the columns as its products read them.
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
    if (!last && !is_dense(dense, changetype<usize>(dense) ? count_of(op, t, scratch) : 0, w.ne1, TURN)) continue;
    some_columns(op, t0, t, from, to, scratch);
    if (last) return;
    t0 = t + 1;
    const y = row_of(op.dst, t, 0, 0);
    mul_mat_packed(dense.type, dense.data, dense.ne0, from, to, row_of(op.src5, 0, t, 0), op.src5.nb1, 1, y, 0, scratch, 0);
  }
}

/** How many elements of token t's column count. */
function count_of(op: Op, t: i32, scratch: usize): i32 {
  let count = 0;
  const n = op.src2.ne0;
  for (let i = 0; i < n; i += STRETCH) count += list_elements(op, t, i, min(i + STRETCH, n), scratch);
  return count;
}

/** Columns [from, to) of the sums of tokens [t0, t1). */
function some_columns(op: Op, t0: i32, t1: i32, from: i32, to: i32, scratch: usize): void {
  const n = op.src2.ne0;
  const list = scratch + LIST_AT;
  for (let i = 0; i < n; i += STRETCH) {
    for (let t = t0; t < t1; t++) {
      if (i == 0) memory.fill(row_of(op.dst, t, 0, 0) + (<usize>from << 2), 0, <usize>(to - from) << 2);
      const end = list + (<usize>list_elements(op, t, i, min(i + STRETCH, n), list) << 2);
      const blocks = takes_rows(op.src0.type) && are_small(op, t, list, end);
      const step = blocks ? to - from : STRIPE;
      for (let c = from; c < to; c += step) stripe(op, t, blocks, list, end, c, min(step, to - c), scratch);
    }
  }
}

/** Whether all elements times their rows' scales are finite where the scales are. */
function are_small(op: Op, t: i32, list: usize, end: usize): bool {
  const x = row_of(op.src1, t, 0, 0);
  let most: f32 = 0;
  for (let p = list; p != end; p += 4) {
    for (let j = 0; j < op.p2; j++) most = max(most, abs(load<f32>(x + (<usize>(load<i32>(p) * op.p2 + j) << 2))));
  }
  return most < MOST;
}

/** Columns [c, c + n) of one token's sum. scratch: some elements, the addresses of their rows, and rows as f32. */
function stripe(op: Op, t: i32, blocks: bool, list: usize, end: usize, c: i32, n: i32, scratch: usize): void {
  const type = op.src0.type;
  const w = op.src0.data + <usize>(<u32>c / blck_size(type)) * type_size(type);
  const x = row_of(op.src1, t, 0, 0);
  const y = row_of(op.dst, t, 0, 0) + (<usize>c << 2);
  const most = blocks ? AT_ONCE : AS_F32;
  let rows = 0;
  for (let p = list; p != end; p += 4) {
    for (let i = load<i32>(p) * op.p2, last = i + op.p2; i < last; i++) {
      const v = load<f32>(x + (<usize>i << 2));
      if (v == 0) continue;
      const at = scratch + (<usize>rows << 2);
      let row = w + <usize>row_at(op.src3, i) * op.src0.nb1;
      if (!blocks && type != F32) {
        const f32s = scratch + ROWS_AT + <usize>rows * STRIPE_BYTES;
        dequantize_row(type, row, f32s, n);
        row = f32s;
      }
      store<f32>(at, v);
      store<usize>(at, row, ADDRESSES);
      if (++rows < most) continue;
      if (blocks) add_blocks(y, n, scratch, rows, type == Q8_0);
      else add_four(y, n, scratch);
      rows = 0;
    }
  }
  if (blocks) add_blocks(y, n, scratch, rows, type == Q8_0);
  else for (let at = scratch; rows > 0; rows--, at += 4) add_one(y, n, load<usize>(at, ADDRESSES), at);
}

/** y += rows of q4_0, or with `eight` q8_0, times their elements: a block of each in turn, whose scale meets the element first. */
function add_blocks(y: usize, n: i32, rows: usize, count: i32, eight: bool): void {
  const bytes: usize = eight ? 34 : 18;
  const mask = held(15);
  const centre = held(8);
  const last = rows + (<usize>count << 2);
  for (let i = rows; i != last; i += 4) touch(load<usize>(i, ADDRESSES), <usize>(n >> 5) * bytes, rows + ROWS_AT);
  for (let at: usize = 0; n > 0; n -= 32, at += bytes, y += 128) {
    let y0 = v128.load(y);
    let y1 = v128.load(y, 16);
    let y2 = v128.load(y, 32);
    let y3 = v128.load(y, 48);
    let y4 = v128.load(y, 64);
    let y5 = v128.load(y, 80);
    let y6 = v128.load(y, 96);
    let y7 = v128.load(y, 112);
    for (let i = rows; i != last; i += 4) {
      const p = load<usize>(i, ADDRESSES) + at;
      const x = f32x4.splat(f16_to_f32(load<u16>(p)) * load<f32>(i));
      let low = v128.load(p, 2);
      let high = low;
      if (eight) high = v128.load(p, 18);
      else {
        low = i8x16.sub(v128.and(low, mask), centre);
        high = i8x16.sub(v128.and(i16x8.shr_u(high, 4), mask), centre);
      }
      let h = i16x8.extend_low_i8x16_s(low);
      y0 = add_codes(y0, i32x4.extend_low_i16x8_s(h), x);
      y1 = add_codes(y1, i32x4.extend_high_i16x8_s(h), x);
      h = i16x8.extend_high_i8x16_s(low);
      y2 = add_codes(y2, i32x4.extend_low_i16x8_s(h), x);
      y3 = add_codes(y3, i32x4.extend_high_i16x8_s(h), x);
      h = i16x8.extend_low_i8x16_s(high);
      y4 = add_codes(y4, i32x4.extend_low_i16x8_s(h), x);
      y5 = add_codes(y5, i32x4.extend_high_i16x8_s(h), x);
      h = i16x8.extend_high_i8x16_s(high);
      y6 = add_codes(y6, i32x4.extend_low_i16x8_s(h), x);
      y7 = add_codes(y7, i32x4.extend_high_i16x8_s(h), x);
    }
    v128.store(y, y0);
    v128.store(y, y1, 16);
    v128.store(y, y2, 32);
    v128.store(y, y3, 48);
    v128.store(y, y4, 64);
    v128.store(y, y5, 80);
    v128.store(y, y6, 96);
    v128.store(y, y7, 112);
  }
}

/** y + codes * x. */
// @ts-ignore: decorator
@inline
function add_codes(y: v128, codes: v128, x: v128): v128 {
  return madd(f32x4.convert_i32x4_s(codes), x, y);
}

/** y += the four rows, f32, times their elements, one after the other. */
function add_four(y: usize, n: i32, four: usize): void {
  const x0 = v128.load32_splat(four);
  const x1 = v128.load32_splat(four, 4);
  const x2 = v128.load32_splat(four, 8);
  const x3 = v128.load32_splat(four, 12);
  let p0 = load<usize>(four, ADDRESSES);
  const d1 = load<usize>(four, ADDRESSES + 4) - p0;
  const d2 = load<usize>(four, ADDRESSES + 8) - p0;
  const d3 = load<usize>(four, ADDRESSES + 12) - p0;
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
