/**
 * q6_K: 256 elements in 210 bytes, x = d * scale * (q - 32); sub-blocks of 16.
 *
 *   0                                  128                          192               208      210
 *   | ql: 2 x 64 bytes, half h:        | qh: 2 x 32 bytes, bits     | scales: 16 x i8 | d: f16 |
 *     byte j: low 4 bits of 128h + j     2i..2i+1 of byte j: high
 *     and of 128h + 64 + j (j < 64)      bits of 128h + 32i + j
 */
import { dot_u6_scaled, f16_to_f32, f32_to_f16, hsum_f32, madd, splat_u6 } from '../../simd';
import { requantize16 } from './k_scales';
import { EPS, make_qx_quants } from './search_qx';
import { L, SCALE } from './work';
import { nearest_int, store_i8_scaled } from './words';

@inline
const BYTES: usize = 210;

/** Codes 0..63 from sixteen nibbles, with bits 0..1 of h as the top bits. low, high: 15 and 48. */
@inline
function codes(nibbles: v128, h: v128, low: v128, high: v128): v128 {
  return v128.or(v128.and(nibbles, low), v128.and(i16x8.shl(h, 4), high));
}

export function dequantize_row_q6_K(x: usize, y: usize, k: i32): void {
  const low = splat_u6(15);
  const high = splat_u6(48);
  const offset = splat_u6(32);
  for (const end = y + (<usize>k << 2); y < end; x += BYTES) {
    const d = f16_to_f32(load<u16>(x, 208));
    for (let j: usize = 0; j < 16; j++, y += 64) {
      // Sub-block j is half j / 8, quarter i = j / 2 % 4, sixteen j % 2.
      const q = i16x8.shr_u(v128.load(x + ((j & 8) << 3) + ((j & 3) << 4)), <i32>(j & 4));
      const h = i16x8.shr_u(v128.load(x + ((j & 8) << 2) + ((j & 1) << 4), 128), <i32>(j & 6));
      store_i8_scaled(y, i8x16.sub(codes(q, h, low, high), offset), f32x4.splat(d * <f32>load<i8>(x + j, 192)));
    }
  }
}

/**
 * Quantises k elements. imatrix 0: ggml's quantize_row_q6_K_ref, whose weights are x^2; its _impl
 * takes the imatrix unchanged.
 */
export function quantize_imatrix_q6_K(x: usize, y: usize, k: i32, imatrix: usize, work: usize): void {
  const nibble = i8x16.splat(15);
  for (const end = x + (<usize>k << 2); x < end; x += 1024, y += BYTES) {
    let amax: f32 = 0;
    let max: f32 = 0;
    for (let j: usize = 0; j < 16; j++) {
      const scale = make_qx_quants(16, 32, x + 64 * j, work + L + 16 * j, imatrix ? imatrix + 64 * j : 0, work);
      store<f32>(work + SCALE + 4 * j, scale);
      if (abs(scale) > amax) {
        amax = abs(scale);
        max = scale;
      }
    }
    if (imatrix) imatrix += 1024;
    if (amax < EPS) {
      memory.fill(y, 0, BYTES);
      continue;
    }
    const iscale: f32 = -128 / max;
    store<u16>(y, <u16>f32_to_f16(1 / iscale), 208);
    const d = f16_to_f32(load<u16>(y, 208));
    for (let j: usize = 0; j < 16; j++) {
      const scale = nearest_int(iscale * load<f32>(work + SCALE + 4 * j));
      store<i8>(y + j, <i8>(scale < 127 ? scale : 127), 192);
      const dj = d * <f32>load<i8>(y + j, 192);
      if (dj != 0) requantize16(x + 64 * j, work + L + 16 * j, dj, 0, -32, 31);
    }
    for (let j: usize = 0; j < 64; j += 16) {
      // j: half j / 32, sixteen j / 16 % 2.
      const p = work + L + ((j & 32) << 2) + (j & 16);
      const to = y + ((j & 32) << 1) + (j & 16);
      const q0 = v128.load(p);
      const q1 = v128.load(p, 32);
      const q2 = v128.load(p, 64);
      const q3 = v128.load(p, 96);
      v128.store(to, v128.or(v128.and(q0, nibble), i8x16.shl(q2, 4)));
      v128.store(to, v128.or(v128.and(q1, nibble), i8x16.shl(q3, 4)), 32);
      const low = v128.or(i8x16.shr_u(q0, 4), i8x16.shl(i8x16.shr_u(q1, 4), 2));
      v128.store(y + j, v128.or(low, v128.or(i8x16.shl(i8x16.shr_u(q2, 4), 4), i8x16.shl(i8x16.shr_u(q3, 4), 6))), 128);
    }
  }
}

export function quantize_row_q6_K(x: usize, y: usize, k: i32, work: usize): void {
  quantize_imatrix_q6_K(x, y, k, 0, work);
}

/**
 * q6_K . q8_K. The codes stay 0..63, and 32 * scale * (sum of sixteen activations) is subtracted,
 * from q8_K's bsums.
 */
export function vec_dot_q6_K_q8_K(n: i32, x: usize, y: usize): f32 {
  const low = splat_u6(15);
  const high = splat_u6(48);
  let acc = f32x4.splat(0);
  for (const end = x + <usize>(n >> 8) * BYTES; x < end; x += BYTES, y += 292) {
    const d = load<f32>(y) * f16_to_f32(load<u16>(x, 208));
    const scales = v128.load(x, 192);
    const offsets = i32x4.add(
      i32x4.dot_i16x8_s(i16x8.extend_low_i8x16_s(scales), v128.load(y, 260)),
      i32x4.dot_i16x8_s(i16x8.extend_high_i8x16_s(scales), v128.load(y, 276)),
    );
    let s = i32x4.neg(i32x4.shl(offsets, 5));
    for (let half: usize = 0; half < 2; half++) {
      const q = x + 64 * half;
      const scale = x + 8 * half;
      let p = y + 128 * half;
      for (let part: usize = 0; part < 2; part++, p += 16) {
        const h = v128.load(x + 32 * half + 16 * part, 128);
        const q0 = v128.load(q + 16 * part);
        const q1 = v128.load(q + 16 * part, 32);
        const sc = scale + part;
        s = i32x4.add(s, dot_u6_scaled(codes(q0, h, low, high), v128.load(p, 4), i16x8.splat(<i16>load<i8>(sc, 192))));
        s = i32x4.add(s, dot_u6_scaled(codes(q1, i16x8.shr_u(h, 2), low, high), v128.load(p, 36), i16x8.splat(<i16>load<i8>(sc, 194))));
        s = i32x4.add(
          s,
          dot_u6_scaled(codes(i16x8.shr_u(q0, 4), i16x8.shr_u(h, 4), low, high), v128.load(p, 68), i16x8.splat(<i16>load<i8>(sc, 196))),
        );
        s = i32x4.add(
          s,
          dot_u6_scaled(codes(i16x8.shr_u(q1, 4), i16x8.shr_u(h, 6), low, high), v128.load(p, 100), i16x8.splat(<i16>load<i8>(sc, 198))),
        );
      }
    }
    acc = madd(f32x4.convert_i32x4_s(s), f32x4.splat(d), acc);
  }
  return hsum_f32(acc);
}
