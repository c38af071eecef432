/**
 * q4_1: 32 elements in 20 bytes, x = d * q + m.
 *
 *   0        2        4                                            20
 *   | d: f16 | m: f16 | qs: 16 bytes, low nibble j, high j + 16    |
 */
import { dot2_u6, f16_to_f32, f32_to_f16, hsum_f32, madd, splat_u6 } from '../../simd';
import { make_qkx_quants } from './search_qkx';
import { sum_squares, weigh } from './search_qx';
import { L, SCALAR, WEIGHT } from './work';
import { codes16, store_i8_scaled_plus } from './words';

@inline
const QK: i32 = 32;
@inline
const BYTES: usize = 20;

export function dequantize_row_q4_1(x: usize, y: usize, k: i32): void {
  const mask = i8x16.splat(15);
  for (const end = y + (<usize>k << 2); y < end; x += BYTES, y += 128) {
    const d = f32x4.splat(f16_to_f32(load<u16>(x)));
    const m = f32x4.splat(f16_to_f32(load<u16>(x, 2)));
    const q = v128.load(x, 4);
    store_i8_scaled_plus(y, v128.and(q, mask), d, m);
    store_i8_scaled_plus(y + 64, v128.and(i16x8.shr_u(q, 4), mask), d, m);
  }
}

/**
 * Smallest (sign -1) or largest (sign 1) of 32 f32. NaNs are ignored, and a block of NaNs gives
 * FLT_MAX.
 */
export function block32_extreme(x: usize, sign: f32): f32 {
  let most: f32 = -f32.MAX_VALUE;
  for (let j: usize = 0; j < 128; j += 4) {
    const v = sign * load<f32>(x + j);
    if (v > most) most = v;
  }
  return sign * most;
}

export function quantize_row_q4_1(x: usize, y: usize, k: i32): void {
  const fifteen = i8x16.splat(15);
  for (const end = x + (<usize>k << 2); x < end; x += 128, y += BYTES) {
    const min = block32_extreme(x, -1);
    const d = (block32_extreme(x, 1) - min) / 15;
    const m = f32x4.splat(min);
    const id = f32x4.splat(d != 0 ? 1 / d : 0);
    store<u16>(y, <u16>f32_to_f16(d));
    store<u16>(y, <u16>f32_to_f16(min), 2);
    const q0 = i8x16.min_s(fifteen, codes16(x, m, id, 0.5));
    const q1 = i8x16.min_s(fifteen, codes16(x + 64, m, id, 0.5));
    v128.store(y, v128.or(q0, i8x16.shl(q1, 4)), 4);
  }
}

/** Quantises one row with importance weights, as ggml's quantize_q4_1 with an imatrix. */
export function quantize_imatrix_q4_1(x: usize, y: usize, k: i32, imatrix: usize, work: usize): void {
  const sigma2 = sum_squares(x, k) / <f32>k;
  for (const end = x + (<usize>k << 2); x < end; x += 128, y += BYTES, imatrix += 128) {
    weigh(work + WEIGHT, x, imatrix, sigma2, 32);
    const d = make_qkx_quants(32, 15, x, work + WEIGHT, work + L, work + SCALAR, work, -0.9, 0.05, 36, false, true);
    store<u16>(y, <u16>f32_to_f16(d));
    store<u16>(y, <u16>f32_to_f16(-load<f32>(work + SCALAR)), 2);
    v128.store(y, v128.or(v128.load(work + L), i8x16.shl(v128.load(work + L, 16), 4)), 4);
  }
}

export function vec_dot_q4_1_q8_1(n: i32, x: usize, y: usize): f32 {
  const mask = splat_u6(15);
  let acc = f32x4.splat(0);
  let sum: f32 = 0;
  for (const end = x + <usize>(n / QK) * BYTES; x < end; x += BYTES, y += 36) {
    const d = f16_to_f32(load<u16>(x)) * f16_to_f32(load<u16>(y));
    sum += f16_to_f32(load<u16>(x, 2)) * f16_to_f32(load<u16>(y, 2));
    const q = v128.load(x, 4);
    const s = dot2_u6(v128.and(q, mask), v128.load(y, 4), v128.and(i16x8.shr_u(q, 4), mask), v128.load(y, 20));
    acc = madd(f32x4.convert_i32x4_s(s), f32x4.splat(d), acc);
  }
  return hsum_f32(acc) + sum;
}
