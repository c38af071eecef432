/**
 * q5_K: 256 elements in 176 bytes, x = d * scale * q - dmin * min; 6-bit scales as in k_scales.ts.
 *
 *   0        2           4                  16                  48                              176
 *   | d: f16 | dmin: f16 | scales: 12 bytes | qh: 32 bytes, bit | qs: 4 x 32 bytes, low nibble  |
 *                                             i of byte j: fifth  64c + j, high 64c + 32 + j
 *                                             bit of 32i + j
 *
 * Its functions repeat the prologue of q4_K's, because AssemblyScript functions return one value.
 */
import { dot2_u6_scaled, f16_to_f32, hsum_f32, hsum_i32, madd, splat_u6 } from '../../simd';
import { dot_mins, quantize_block_k, unpack_mins, unpack_scales } from './k_scales';
import { L } from './work';
import { store_i8_scaled_plus } from './words';

@inline
const BYTES: usize = 176;

/**
 * Codes from sixteen low nibbles, with bit 0 of each byte of h as the fifth bit. low, top: 15 and
 * 16.
 */
@inline
function codes_low(q: v128, h: v128, low: v128, top: v128): v128 {
  return v128.or(v128.and(q, low), v128.and(i16x8.shl(h, 4), top));
}

/** Codes from sixteen high nibbles, with bit 1 of each byte of h as the fifth bit. */
@inline
function codes_high(q: v128, h: v128, low: v128, top: v128): v128 {
  return v128.or(v128.and(i16x8.shr_u(q, 4), low), v128.and(i16x8.shl(h, 3), top));
}

export function dequantize_row_q5_K(x: usize, y: usize, k: i32): void {
  const low = splat_u6(15);
  const top = splat_u6(16);
  for (const end = y + (<usize>k << 2); y < end; x += BYTES) {
    const d = f16_to_f32(load<u16>(x));
    const dmin = f16_to_f32(load<u16>(x, 2));
    let scales = unpack_scales(x);
    let mins = unpack_mins(x);
    let h0 = v128.load(x, 16);
    let h1 = v128.load(x, 32);
    for (let q_end = x + 176, q = x + 48; q < q_end; q += 32, y += 256, scales >>= 16, mins >>= 16) {
      const q0 = v128.load(q);
      const q1 = v128.load(q, 16);
      const d0 = f32x4.splat(d * <f32>(<u32>scales & 63));
      const m0 = f32x4.splat(-(dmin * <f32>(<u32>mins & 63)));
      const d1 = f32x4.splat(d * <f32>((<u32>scales >> 8) & 63));
      const m1 = f32x4.splat(-(dmin * <f32>((<u32>mins >> 8) & 63)));
      store_i8_scaled_plus(y, codes_low(q0, h0, low, top), d0, m0);
      store_i8_scaled_plus(y + 64, codes_low(q1, h1, low, top), d0, m0);
      store_i8_scaled_plus(y + 128, codes_high(q0, h0, low, top), d1, m1);
      store_i8_scaled_plus(y + 192, codes_high(q1, h1, low, top), d1, m1);
      h0 = i16x8.shr_u(h0, 2);
      h1 = i16x8.shr_u(h1, 2);
    }
  }
}

/** Quantises k elements. imatrix 0: ggml's quantize_row_q5_K_ref. */
export function quantize_imatrix_q5_K(x: usize, y: usize, k: i32, imatrix: usize, work: usize): void {
  const nibble = i8x16.splat(15);
  const bit = i8x16.splat(1);
  for (const end = x + (<usize>k << 2); x < end; x += 1024, y += BYTES) {
    quantize_block_k(x, y, 31, -0.5, 15, imatrix, work);
    for (let half: usize = 0; half < 32; half += 16) {
      let h = i8x16.splat(0);
      for (let c = 0; c < 4; c++) {
        const p = work + L + 64 * <usize>c + half;
        const lo = v128.load(p);
        const hi = v128.load(p, 32);
        v128.store(y + 32 * <usize>c + half, v128.or(v128.and(lo, nibble), i8x16.shl(v128.and(hi, nibble), 4)), 48);
        h = v128.or(h, i8x16.shl(v128.and(i8x16.shr_u(lo, 4), bit), 2 * c));
        h = v128.or(h, i8x16.shl(v128.and(i8x16.shr_u(hi, 4), bit), 2 * c + 1));
      }
      v128.store(y + half, h, 16);
    }
    if (imatrix) imatrix += 1024;
  }
}

export function quantize_row_q5_K(x: usize, y: usize, k: i32, work: usize): void {
  quantize_imatrix_q5_K(x, y, k, 0, work);
}

export function vec_dot_q5_K_q8_K(n: i32, x: usize, y: usize): f32 {
  const low = splat_u6(15);
  const top = splat_u6(16);
  let acc = f32x4.splat(0);
  let sum: f32 = 0;
  for (const end = x + <usize>(n >> 8) * BYTES; x < end; x += BYTES, y += 292) {
    const d = f16_to_f32(load<u16>(x)) * load<f32>(y);
    const dmin = f16_to_f32(load<u16>(x, 2)) * load<f32>(y);
    sum += dmin * <f32>hsum_i32(dot_mins(unpack_mins(x), y));
    let scales = unpack_scales(x);
    let h0 = v128.load(x, 16);
    let h1 = v128.load(x, 32);
    let s = i32x4.splat(0);
    for (let c: usize = 0; c < 4; c++, scales >>= 16) {
      const q0 = v128.load(x + 32 * c, 48);
      const q1 = v128.load(x + 32 * c, 64);
      const p = y + 64 * c;
      s = i32x4.add(
        s,
        dot2_u6_scaled(
          codes_low(q0, h0, low, top),
          v128.load(p, 4),
          codes_low(q1, h1, low, top),
          v128.load(p, 20),
          i16x8.splat(<i16>(<u32>scales & 63)),
        ),
      );
      s = i32x4.add(
        s,
        dot2_u6_scaled(
          codes_high(q0, h0, low, top),
          v128.load(p, 36),
          codes_high(q1, h1, low, top),
          v128.load(p, 52),
          i16x8.splat(<i16>((<u32>scales >> 8) & 63)),
        ),
      );
      h0 = i16x8.shr_u(h0, 2);
      h1 = i16x8.shr_u(h1, 2);
    }
    acc = madd(f32x4.convert_i32x4_s(s), f32x4.splat(d), acc);
  }
  return hsum_f32(acc) - sum;
}
