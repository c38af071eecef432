/**
 * q4_K: 256 elements in 144 bytes, x = d * scale * q - dmin * min; 6-bit scales as in k_scales.ts.
 *
 *   0        2           4                    16                                              144
 *   | d: f16 | dmin: f16 | scales: 12 bytes   | qs: 4 x 32 bytes, low nibble 64c + j,         |
 *                                               high 64c + 32 + j
 */
import { dot2_u6_scaled, f16_to_f32, hsum_f32, hsum_i32, madd, splat_u6 } from '../../simd';
import { dot_mins, quantize_block_k, unpack_mins, unpack_scales } from './k_scales';
import { L } from './work';
import { store_i8_scaled_plus } from './words';

@inline
const BYTES: usize = 144;

export function dequantize_row_q4_K(x: usize, y: usize, k: i32): void {
  const mask = i8x16.splat(15);
  for (const end = y + (<usize>k << 2); y < end; x += BYTES) {
    const d = f16_to_f32(load<u16>(x));
    const dmin = f16_to_f32(load<u16>(x, 2));
    let scales = unpack_scales(x);
    let mins = unpack_mins(x);
    for (let q_end = x + 144, q = x + 16; q < q_end; q += 32, y += 256, scales >>= 16, mins >>= 16) {
      const q0 = v128.load(q);
      const q1 = v128.load(q, 16);
      const d0 = f32x4.splat(d * <f32>(<u32>scales & 63));
      const m0 = f32x4.splat(-(dmin * <f32>(<u32>mins & 63)));
      const d1 = f32x4.splat(d * <f32>((<u32>scales >> 8) & 63));
      const m1 = f32x4.splat(-(dmin * <f32>((<u32>mins >> 8) & 63)));
      store_i8_scaled_plus(y, v128.and(q0, mask), d0, m0);
      store_i8_scaled_plus(y + 64, v128.and(q1, mask), d0, m0);
      store_i8_scaled_plus(y + 128, v128.and(i16x8.shr_u(q0, 4), mask), d1, m1);
      store_i8_scaled_plus(y + 192, v128.and(i16x8.shr_u(q1, 4), mask), d1, m1);
    }
  }
}

/** Quantises k elements. imatrix 0: ggml's quantize_row_q4_K_ref. */
export function quantize_imatrix_q4_K(x: usize, y: usize, k: i32, imatrix: usize, work: usize): void {
  for (const end = x + (<usize>k << 2); x < end; x += 1024, y += BYTES) {
    quantize_block_k(x, y, 15, -1, 20, imatrix, work);
    for (let c: usize = 0; c < 4; c++) {
      const codes = work + L + 64 * c;
      v128.store(y + 32 * c, v128.or(v128.load(codes), i8x16.shl(v128.load(codes, 32), 4)), 16);
      v128.store(y + 32 * c, v128.or(v128.load(codes, 16), i8x16.shl(v128.load(codes, 48), 4)), 32);
    }
    if (imatrix) imatrix += 1024;
  }
}

export function quantize_row_q4_K(x: usize, y: usize, k: i32, work: usize): void {
  quantize_imatrix_q4_K(x, y, k, 0, work);
}

export function vec_dot_q4_K_q8_K(n: i32, x: usize, y: usize): f32 {
  const mask = splat_u6(15);
  let acc = f32x4.splat(0);
  let sum: f32 = 0;
  for (const end = x + <usize>(n >> 8) * BYTES; x < end; x += BYTES, y += 292) {
    const d = f16_to_f32(load<u16>(x)) * load<f32>(y);
    const dmin = f16_to_f32(load<u16>(x, 2)) * load<f32>(y);
    sum += dmin * <f32>hsum_i32(dot_mins(unpack_mins(x), y));
    let scales = unpack_scales(x);
    let s = i32x4.splat(0);
    for (let c: usize = 0; c < 4; c++, scales >>= 16) {
      const q0 = v128.load(x + 32 * c, 16);
      const q1 = v128.load(x + 32 * c, 32);
      const p = y + 64 * c;
      s = i32x4.add(
        s,
        dot2_u6_scaled(v128.and(q0, mask), v128.load(p, 4), v128.and(q1, mask), v128.load(p, 20), i16x8.splat(<i16>(<u32>scales & 63))),
      );
      s = i32x4.add(
        s,
        dot2_u6_scaled(
          v128.and(i16x8.shr_u(q0, 4), mask),
          v128.load(p, 36),
          v128.and(i16x8.shr_u(q1, 4), mask),
          v128.load(p, 52),
          i16x8.splat(<i16>((<u32>scales >> 8) & 63)),
        ),
      );
    }
    acc = madd(f32x4.convert_i32x4_s(s), f32x4.splat(d), acc);
  }
  return hsum_f32(acc) - sum;
}
