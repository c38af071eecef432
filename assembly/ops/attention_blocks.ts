/**
 * Attention over q8_0 and q4_0 caches, by integer products. These are exact, so the result depends
 * neither on the order of summation nor on the batch.
 *
 * Scores: keys are a packed matrix, and queries are quantised as activations (act.ts), which gives
 * ggml's vec_dot of the cache's type with q8_0.
 *
 * Values: a probability times the scale of a value's block makes one weight. The weights of a split
 * are rounded to 16 bits relative to the largest of them; that error is 1/256 of q8_0's own
 * rounding. A sum over 256 cells fits i32: 256 * 32767 * 128 < 2^30.
 */
import { ATTENTION_BLOCK_FACTORS, ATTENTION_BLOCK_SIZE, KV_SPLIT } from '../layout';
import { quantize_act } from '../matmul/act';
import { mul_mat_packed, mul_mat_packed_scratch, packed_act_type } from '../matmul/packed';
import { f32_to_i16x8 } from '../simd';
import { Q4_0 } from '../type/ids';
import { FromQ4_0, FromQ8_0, One, Two, WEIGHTS, sums } from './attention_values';
import { f16_mask } from './kv_widen';

// ---- Scores ----

/**
 * Quantises query r of `rows` (hd f32 at x) into the activations at q, q_stride bytes a query. The
 * layout is that of block_scores: up to three queries are products of one column each, more are the
 * columns of one product.
 */
export function quantize_query(type: u32, x: usize, hd: i32, q: usize, q_stride: usize, r: i32, rows: i32): void {
  if (rows < 4) quantize_act(packed_act_type(type), x, 0, hd, q + <usize>r * q_stride, q_stride, 0, 1);
  else quantize_act(packed_act_type(type), x, 0, hd, q, q_stride, r, rows);
}

/**
 * s[row][0..n) = the n keys at k . query `row`; n is a multiple of 16. q: from quantize_query,
 * q_stride bytes a query. s: f32, KV_SPLIT floats a row. scratch: block_scores_scratch() bytes.
 */
export function block_scores(type: u32, k: usize, hd: i32, n: i32, q: usize, q_stride: usize, rows: i32, s: usize, scratch: usize): void {
  const most = rows < 4 ? 1 : rows;
  for (let r = 0; r < rows; r += most)
    mul_mat_packed(type, k, hd, 0, n, q + <usize>r * q_stride, q_stride, most, s + <usize>((r * KV_SPLIT) << 2), KV_SPLIT << 2, scratch, 0);
}

export function block_scores_scratch(): i32 {
  return <i32>mul_mat_packed_scratch();
}

// ---- Values ----

/**
 * Bytes of scratch for block_values:
 *
 *   for every 32 dimensions: | weights of two rows | twice: factor f32, -8 * sum of weights i32 |
 *   then: | f32 [KV_SPLIT] | 16 bytes of zeros |
 */
export function block_values_scratch(hd: i32): i32 {
  return (hd >> 5) * <i32>ATTENTION_BLOCK_SIZE + (KV_SPLIT << 2) + 16;
}

/**
 * 2^-110 as bits. If no weight exceeds it, all become zero. The reciprocal of a larger one is
 * finite.
 */
const LEAST: u32 = 0x08800000;

/**
 * out[row][0..hd) = sum over n cells of p[row][cell] * value[cell], for one or two rows.
 *
 *   v       | n cells of values, `plane` bytes from 16 dimensions to the next
 *   scales  | their scales, scales_step bytes from 32 dimensions to the next (kv_cache.ts)
 *   p       | f32, KV_SPLIT floats a row, 0 from cell n on
 *   out     | f32, out_row bytes a row, scaled by 2^-112 as with an f16 cache
 *   scratch | block_values_scratch() bytes
 */
export function block_values(
  type: u32,
  rows: i32,
  p: usize,
  n: i32,
  v: usize,
  plane: usize,
  scales: usize,
  scales_step: usize,
  hd: i32,
  out: usize,
  out_row: usize,
  scratch: usize,
): void {
  const work = scratch + <usize>(hd >> 5) * ATTENTION_BLOCK_SIZE;
  for (let i = 0, w = scratch; i < hd; i += 32, w += ATTENTION_BLOCK_SIZE, scales += scales_step) {
    for (let r: usize = 0; r < <usize>rows; r++)
      weigh(p + r * (KV_SPLIT << 2), scales, n, work, w + r * WEIGHTS, w + ATTENTION_BLOCK_FACTORS + (r << 3));
  }
  if (type == Q4_0)
    rows > 1 ? sums<FromQ4_0, Two>(scratch, n, v, plane, hd, out, out_row) : sums<FromQ4_0, One>(scratch, n, v, plane, hd, out, out_row);
  else rows > 1 ? sums<FromQ8_0, Two>(scratch, n, v, plane, hd, out, out_row) : sums<FromQ8_0, One>(scratch, n, v, plane, hd, out, out_row);
}

/**
 * Stores the weights of n cells for 32 dimensions as i16: w = round(p * d / factor), with zeros up
 * to a multiple of 8. The factor makes the largest weight 32767. p: f32, d: f16, work: f32
 * [KV_SPLIT]. Stores at `factor` the factor, f32, and -8 * the sum of w, i32, which subtracts
 * q4_0's centre.
 */
function weigh(p: usize, d: usize, n: i32, work: usize, w: usize, factor: usize): void {
  const mask = f16_mask();
  const whole = <usize>(n & -4) << 2;
  // Twice the bits of |x| sort like the numbers, with NaN above Inf: so the maximum never misses a
  // NaN.
  let top = i32x4.splat(2 * LEAST);
  let i: usize = 0;
  for (; i < whole; i += 16) {
    const x = f32x4.mul(v128.load(p + i), v128.and(i32x4.shl(v128.load16x4_s(d + (i >> 1)), 13), mask));
    top = i32x4.max_u(top, i32x4.add(x, x));
    v128.store(work + i, x);
  }
  if (n & 3) {
    // The scales after the last cell may be any bits.
    const cells = i32x4.lt_s(i32x4(0, 1, 2, 3), i32x4.splat(n & 3));
    const scale = v128.and(i32x4.shl(v128.load16x4_s(d + (i >> 1)), 13), mask);
    const x = f32x4.mul(v128.load(p + i), v128.and(scale, cells));
    top = i32x4.max_u(top, i32x4.add(x, x));
    v128.store(work + i, x);
    i += 16;
  }
  v128.store(work + i, i32x4.splat(0)); // the second half of a vector of eight; not read if n fills it
  top = i32x4.max_u(top, i64x2.shuffle(top, top, 1, 0));
  const most = reinterpret<f32>(max<u32>(i32x4.extract_lane(top, 0), i32x4.extract_lane(top, 1)) >> 1);
  const inverse = f32x4.splat(32767 / most);
  const eight = i16x8.splat(-8);
  let sum = i32x4.splat(0);
  for (let j: usize = 0; j < i; j += 32) {
    const x = f32_to_i16x8(f32x4.mul(v128.load(work + j), inverse), f32x4.mul(v128.load(work + j, 16), inverse));
    sum = i32x4.add(sum, i32x4.dot_i16x8_s(x, eight));
    v128.store(w + (j >> 1), x);
  }
  sum = i32x4.add(sum, i64x2.shuffle(sum, sum, 1, 0));
  store<f32>(factor, most / 32767);
  store<i32>(factor, i32x4.extract_lane(sum, 0) + i32x4.extract_lane(sum, 1), 4);
}
