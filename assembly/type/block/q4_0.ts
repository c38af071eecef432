/**
 * q4_0: 32 elements in 18 bytes, x = d * (q - 8).
 *
 *   0        2                                            18
 *   | d: f16 | qs: 16 bytes, low nibble j, high j + 16    |
 */
import { dot2_u6_offset, f16_to_f32, f32_to_f16, hsum_f32, madd, splat_u6 } from '../../simd';
import { make_qx_quants, sum_squares, weigh } from './search_qx';
import { L, WEIGHT } from './work';
import { codes16, store_i8_scaled } from './words';

@inline
const QK: i32 = 32;
@inline
const BYTES: usize = 18;

export function dequantize_row_q4_0(x: usize, y: usize, k: i32): void {
  const mask = i8x16.splat(15);
  const eight = i8x16.splat(8);
  for (const end = y + (<usize>k << 2); y < end; x += BYTES, y += 128) {
    const d = f32x4.splat(f16_to_f32(load<u16>(x)));
    const q = v128.load(x, 2);
    store_i8_scaled(y, i8x16.sub(v128.and(q, mask), eight), d);
    store_i8_scaled(y + 64, i8x16.sub(v128.and(i16x8.shr_u(q, 4), mask), eight), d);
  }
}

/** Element of largest magnitude (the first if several are equal). NaNs are ignored. */
export function block32_signed_max(x: usize): f32 {
  let amax: f32 = 0;
  let max: f32 = 0;
  for (let j: usize = 0; j < 128; j += 4) {
    const v = load<f32>(x + j);
    if (amax < abs(v)) {
      amax = abs(v);
      max = v;
    }
  }
  return max;
}

export function quantize_row_q4_0(x: usize, y: usize, k: i32): void {
  const zero = f32x4.splat(0);
  const fifteen = i8x16.splat(15);
  for (const end = x + (<usize>k << 2); x < end; x += 128, y += BYTES) {
    const d = block32_signed_max(x) / -8;
    const id = f32x4.splat(d != 0 ? 1 / d : 0);
    store<u16>(y, <u16>f32_to_f16(d));
    const q0 = i8x16.min_s(fifteen, codes16(x, zero, id, 8.5));
    const q1 = i8x16.min_s(fifteen, codes16(x + 64, zero, id, 8.5));
    v128.store(y, v128.or(q0, i8x16.shl(q1, 4)), 2);
  }
}

/** Quantises one row with importance weights, as ggml's quantize_q4_0 with an imatrix. */
export function quantize_imatrix_q4_0(x: usize, y: usize, k: i32, imatrix: usize, work: usize): void {
  const sigma2 = sum_squares(x, k) / <f32>k;
  for (const end = x + (<usize>k << 2); x < end; x += 128, y += BYTES, imatrix += 128) {
    weigh(work + WEIGHT, x, imatrix, sigma2, 32);
    const d = make_qx_quants(32, 8, x, work + L, work + WEIGHT, work);
    store<u16>(y, <u16>f32_to_f16(d));
    v128.store(y, v128.or(v128.load(work + L), i8x16.shl(v128.load(work + L, 16), 4)), 2);
  }
}

/**
 * q4_0 . q8_0; blocks of q8_0 are 34 bytes. The vec_dot functions of all block formats repeat the
 * same loop over blocks, because AssemblyScript functions return one value, so sums must be locals.
 */
export function vec_dot_q4_0_q8_0(n: i32, x: usize, y: usize): f32 {
  const mask = splat_u6(15);
  const eight = splat_u6(8);
  let acc = f32x4.splat(0);
  for (const end = x + <usize>(n / QK) * BYTES; x < end; x += BYTES, y += 34) {
    const d = f16_to_f32(load<u16>(x)) * f16_to_f32(load<u16>(y));
    const q = v128.load(x, 2);
    const s = dot2_u6_offset(v128.and(q, mask), v128.load(y, 2), v128.and(i16x8.shr_u(q, 4), mask), v128.load(y, 18), eight);
    acc = madd(f32x4.convert_i32x4_s(s), f32x4.splat(d), acc);
  }
  return hsum_f32(acc);
}
