/**
 * q5_1: 32 elements in 24 bytes, x = d * q + m.
 *
 *   0        2        4                           8                                            24
 *   | d: f16 | m: f16 | qh: u32, bit j of q >> 4  | qs: 16 bytes, low nibble j, high j + 16    |
 *
 * Its functions repeat the prologue of q5_0's, because AssemblyScript functions return one value.
 */
import { dot2_u6, f16_to_f32, f32_to_f16, hsum_f32, madd, splat_u6 } from '../../simd';
import { block32_extreme } from './q4_1';
import { codes5, qh_bits, qh_bytes, store_codes5 } from './q5_0';
import { make_qkx_quants } from './search_qkx';
import { sum_squares, weigh } from './search_qx';
import { L, SCALAR, WEIGHT } from './work';
import { codes16, store_i8_scaled_plus } from './words';

@inline
const QK: i32 = 32;
@inline
const BYTES: usize = 24;

export function dequantize_row_q5_1(x: usize, y: usize, k: i32): void {
  const low = splat_u6(15);
  const top = splat_u6(16);
  const bits = qh_bits();
  const bytes0 = qh_bytes();
  const bytes1 = i8x16.add(bytes0, splat_u6(2));
  for (const end = y + (<usize>k << 2); y < end; x += BYTES, y += 128) {
    const d = f32x4.splat(f16_to_f32(load<u16>(x)));
    const m = f32x4.splat(f16_to_f32(load<u16>(x, 2)));
    const qh = v128.load32_splat(x, 4);
    const q = v128.load(x, 8);
    store_i8_scaled_plus(y, codes5(v128.and(q, low), qh, bytes0, bits, top), d, m);
    store_i8_scaled_plus(y + 64, codes5(v128.and(i16x8.shr_u(q, 4), low), qh, bytes1, bits, top), d, m);
  }
}

export function quantize_row_q5_1(x: usize, y: usize, k: i32): void {
  for (const end = x + (<usize>k << 2); x < end; x += 128, y += BYTES) {
    const min = block32_extreme(x, -1);
    const d = (block32_extreme(x, 1) - min) / 31;
    const m = f32x4.splat(min);
    const id = f32x4.splat(d != 0 ? 1 / d : 0);
    store<u16>(y, <u16>f32_to_f16(d));
    store<u16>(y, <u16>f32_to_f16(min), 2);
    store_codes5(y + 4, codes16(x, m, id, 0.5), codes16(x + 64, m, id, 0.5));
  }
}

/** Quantises one row with importance weights, as ggml's quantize_q5_1 with an imatrix. */
export function quantize_imatrix_q5_1(x: usize, y: usize, k: i32, imatrix: usize, work: usize): void {
  const sigma2 = sum_squares(x, k) / <f32>k;
  for (const end = x + (<usize>k << 2); x < end; x += 128, y += BYTES, imatrix += 128) {
    weigh(work + WEIGHT, x, imatrix, sigma2, 32);
    const d = make_qkx_quants(32, 31, x, work + WEIGHT, work + L, work + SCALAR, work, -0.9, 0.05, 36, false, true);
    store<u16>(y, <u16>f32_to_f16(d));
    store<u16>(y, <u16>f32_to_f16(-load<f32>(work + SCALAR)), 2);
    store_codes5(y + 4, v128.load(work + L), v128.load(work + L, 16));
  }
}

export function vec_dot_q5_1_q8_1(n: i32, x: usize, y: usize): f32 {
  const low = splat_u6(15);
  const top = splat_u6(16);
  const bits = qh_bits();
  const bytes0 = qh_bytes();
  const bytes1 = i8x16.add(bytes0, splat_u6(2));
  let acc = f32x4.splat(0);
  let sum: f32 = 0;
  for (const end = x + <usize>(n / QK) * BYTES; x < end; x += BYTES, y += 36) {
    const d = f16_to_f32(load<u16>(x)) * f16_to_f32(load<u16>(y));
    sum += f16_to_f32(load<u16>(x, 2)) * f16_to_f32(load<u16>(y, 2));
    const qh = v128.load32_splat(x, 4);
    const q = v128.load(x, 8);
    const s = dot2_u6(
      codes5(v128.and(q, low), qh, bytes0, bits, top),
      v128.load(y, 4),
      codes5(v128.and(i16x8.shr_u(q, 4), low), qh, bytes1, bits, top),
      v128.load(y, 20),
    );
    acc = madd(f32x4.convert_i32x4_s(s), f32x4.splat(d), acc);
  }
  return hsum_f32(acc) + sum;
}
