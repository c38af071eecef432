/**
 * q2_K: 256 elements in 84 bytes, x = d * scale * q - dmin * min; sub-blocks of 16.
 *
 *   0                                    16                             80       82           84
 *   | scales: 16 bytes, low nibble scale,| qs: 2 x 32 bytes, bits       | d: f16 | dmin: f16  |
 *     high nibble min                      2i..2i+1 of byte j of half
 *                                          h: element 128h + 32i + j
 */
import { dot_u6_scaled, f16_to_f32, f32_to_f16, hsum_f32, hsum_i32, madd, splat_u6 } from '../../simd';
import { requantize16 } from './k_scales';
import { make_qkx_quants, make_qp_quants } from './search_qkx';
import { sum_squares, weigh_sub_block } from './search_qx';
import { L, LM, LS, MIN, SCALE, SUM_WEIGHT, WEIGHT } from './work';
import { nearest_int, store_i8_scaled_plus } from './words';

@inline
const BYTES: usize = 84;

export function dequantize_row_q2_K(x: usize, y: usize, k: i32): void {
  const mask = i8x16.splat(3);
  for (const end = y + (<usize>k << 2); y < end; x += BYTES) {
    const d = f16_to_f32(load<u16>(x, 80));
    const dmin = f16_to_f32(load<u16>(x, 82));
    for (let j: usize = 0; j < 16; j++, y += 64) {
      const scale = <u32>load<u8>(x + j);
      const q = i16x8.shr_u(v128.load(x + ((j & 8) << 2) + ((j & 1) << 4), 16), <i32>(j & 6));
      store_i8_scaled_plus(y, v128.and(q, mask), f32x4.splat(d * <f32>(scale & 15)), f32x4.splat(-(dmin * <f32>(scale >> 4))));
    }
  }
}

/**
 * Rounds the sixteen values to codes 0..15, the largest to 15. Adds the codes, shifted left, to the
 * scale bytes at y, and returns the value of one step.
 */
function round_scales(y: usize, values: usize, shift: i32): f32 {
  let most: f32 = 0;
  for (let j: usize = 0; j < 64; j += 4) {
    const v = load<f32>(values + j);
    if (v > most) most = v;
  }
  if (!(most > 0)) return 0;
  const inverse: f32 = 15 / most;
  for (let j: usize = 0; j < 16; j++) store<u8>(y + j, load<u8>(y + j) | <u8>(nearest_int(inverse * load<f32>(values + 4 * j)) << shift));
  return most / 15;
}

/** Packs the codes 0..3 in work + L into 64 bytes. */
export function pack_codes2(y: usize, codes: usize): void {
  for (let j: usize = 0; j < 64; j += 16) {
    const p = codes + ((j & 32) << 2) + (j & 16);
    const low = v128.or(v128.load(p), i8x16.shl(v128.load(p, 32), 2));
    v128.store(y + j, v128.or(low, v128.or(i8x16.shl(v128.load(p, 64), 4), i8x16.shl(v128.load(p, 96), 6))));
  }
}

/**
 * Quantises k elements. imatrix 0: ggml's quantize_row_q2_K_ref, whose weights are |x| and whose
 * error is absolute.
 */
export function quantize_imatrix_q2_K(x: usize, y: usize, k: i32, imatrix: usize, work: usize): void {
  const w = work + WEIGHT;
  for (const end = x + (<usize>k << 2); x < end; x += 1024, y += BYTES) {
    const sigma2: f32 = imatrix ? sum_squares(x, 256) / 256 : 0;
    for (let j: usize = 0; j < 16; j++) {
      const p = x + 64 * j;
      let scale: f32;
      if (imatrix) {
        weigh_sub_block(work, x, imatrix, sigma2, 16, j);
        scale = make_qkx_quants(16, 3, p, w, work + L + 16 * j, work + MIN + 4 * j, work, -0.9, 0.05, 36, false, true);
      } else {
        for (let i: usize = 0; i < 64; i += 16) v128.store(w + i, f32x4.abs(v128.load(p + i)));
        scale = make_qkx_quants(16, 3, p, w, work + L + 16 * j, work + MIN + 4 * j, work, -0.5, 0.1, 15, true, false);
      }
      store<f32>(work + SCALE + 4 * j, scale);
    }
    let d: f32;
    let dmin: f32;
    if (imatrix) {
      d = make_qp_quants(16, 15, work + SCALE, work + LS, work + SUM_WEIGHT);
      dmin = make_qp_quants(16, 15, work + MIN, work + LM, work + SUM_WEIGHT);
      v128.store(y, v128.or(v128.load(work + LS), i8x16.shl(v128.load(work + LM), 4)));
      imatrix += 1024;
    } else {
      v128.store(y, i8x16.splat(0));
      d = round_scales(y, work + SCALE, 0);
      dmin = round_scales(y, work + MIN, 4);
    }
    store<u16>(y, <u16>f32_to_f16(d), 80);
    store<u16>(y, <u16>f32_to_f16(dmin), 82);
    d = f16_to_f32(load<u16>(y, 80));
    dmin = f16_to_f32(load<u16>(y, 82));
    for (let j: usize = 0; j < 16; j++) {
      const scale = <u32>load<u8>(y + j);
      const dj = d * <f32>(scale & 15);
      if (dj != 0) requantize16(x + 64 * j, work + L + 16 * j, dj, dmin * <f32>(scale >> 4), 0, 3);
    }
    pack_codes2(y + 16, work + L);
  }
}

export function quantize_row_q2_K(x: usize, y: usize, k: i32, work: usize): void {
  quantize_imatrix_q2_K(x, y, k, 0, work);
}

export function vec_dot_q2_K_q8_K(n: i32, x: usize, y: usize): f32 {
  const mask = splat_u6(3);
  const nibble = splat_u6(15);
  let acc = f32x4.splat(0);
  let sum: f32 = 0;
  for (const end = x + <usize>(n >> 8) * BYTES; x < end; x += BYTES, y += 292) {
    const d = load<f32>(y) * f16_to_f32(load<u16>(x, 80));
    const dmin = load<f32>(y) * f16_to_f32(load<u16>(x, 82));
    const mins = v128.and(i16x8.shr_u(v128.load(x), 4), nibble);
    const m = i32x4.add(
      i32x4.dot_i16x8_s(i16x8.extend_low_i8x16_u(mins), v128.load(y, 260)),
      i32x4.dot_i16x8_s(i16x8.extend_high_i8x16_u(mins), v128.load(y, 276)),
    );
    sum += dmin * <f32>hsum_i32(m);
    let s = i32x4.splat(0);
    for (let half: usize = 0; half < 2; half++) {
      let q0 = v128.load(x + 32 * half, 16);
      let q1 = v128.load(x + 32 * half, 32);
      let p = y + 128 * half;
      for (let scale = x + 8 * half, scale_end = scale + 8; scale < scale_end; scale += 2, p += 32) {
        s = i32x4.add(s, dot_u6_scaled(v128.and(q0, mask), v128.load(p, 4), i16x8.splat(<i16>(load<u8>(scale) & 15))));
        s = i32x4.add(s, dot_u6_scaled(v128.and(q1, mask), v128.load(p, 20), i16x8.splat(<i16>(load<u8>(scale, 1) & 15))));
        q0 = i16x8.shr_u(q0, 2);
        q1 = i16x8.shr_u(q1, 2);
      }
    }
    acc = madd(f32x4.convert_i32x4_s(s), f32x4.splat(d), acc);
  }
  return hsum_f32(acc) - sum;
}
