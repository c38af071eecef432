/**
 * Code shared by q4_K and q5_K: eight sub-blocks of 32, each with a 6-bit scale and a 6-bit
 * minimum, x = (d * scale) * q - (dmin * min).
 *
 *   0        2           4                                                              16
 *   | d: f16 | dmin: f16 | scales: 12 bytes                                              |
 *                          0..3: scale 0..3 (bits 0-5), bits 4-5 of scale 4..7 (bits 6-7)
 *                          4..7: min 0..3   (bits 0-5), bits 4-5 of min 4..7   (bits 6-7)
 *                          8..11: bits 0-3 of scale 4..7 (low nibble), of min 4..7 (high nibble)
 */
import { f16_to_f32, f32_to_f16 } from '../../simd';
import { make_qkx_quants, make_qp_quants } from './search_qkx';
import { sum_squares, weigh_sub_block } from './search_qx';
import { L, LM, LS, MIN, SCALE, SUM_WEIGHT, WEIGHT } from './work';
import { low_bytes, nearest_i32x4, nearest_int } from './words';

/** The eight scales of a block at x, one per byte. */
@inline
export function unpack_scales(x: usize): u64 {
  const high = (load<u32>(x, 12) & 0x0f0f0f0f) | (((load<u32>(x, 4) >> 6) & 0x03030303) << 4);
  return <u64>(load<u32>(x, 4) & 0x3f3f3f3f) | (<u64>high << 32);
}

/** The eight minima of a block at x, one per byte. */
@inline
export function unpack_mins(x: usize): u64 {
  const high = ((load<u32>(x, 12) >> 4) & 0x0f0f0f0f) | (((load<u32>(x, 8) >> 6) & 0x03030303) << 4);
  return <u64>(load<u32>(x, 8) & 0x3f3f3f3f) | (<u64>high << 32);
}

/**
 * Sum over the eight sub-blocks of min * (sum of the activations), as four i32 sums. y: a q8_K
 * block.
 */
@inline
export function dot_mins(mins: u64, y: usize): v128 {
  const m = i16x8.extend_low_i8x16_u(i64x2.splat(mins));
  const lo = i8x16.shuffle(m, m, 0, 1, 0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7, 6, 7);
  const hi = i8x16.shuffle(m, m, 8, 9, 8, 9, 10, 11, 10, 11, 12, 13, 12, 13, 14, 15, 14, 15);
  return i32x4.add(i32x4.dot_i16x8_s(lo, v128.load(y, 260)), i32x4.dot_i16x8_s(hi, v128.load(y, 276)));
}

/**
 * Codes of sixteen elements for the final scale d and minimum dm: clamp(nearest((x + dm) / d), lo,
 * hi) - lo.
 */
export function requantize16(x: usize, codes: usize, d: f32, dm: f32, lo: i32, hi: i32): void {
  const D = f32x4.splat(d);
  const M = f32x4.splat(dm);
  const LO = i32x4.splat(lo);
  const HI = i32x4.splat(hi);
  const a = i32x4.max_s(LO, i32x4.min_s(HI, nearest_i32x4(f32x4.div(f32x4.add(v128.load(x), M), D))));
  const b = i32x4.max_s(LO, i32x4.min_s(HI, nearest_i32x4(f32x4.div(f32x4.add(v128.load(x, 16), M), D))));
  const c = i32x4.max_s(LO, i32x4.min_s(HI, nearest_i32x4(f32x4.div(f32x4.add(v128.load(x, 32), M), D))));
  const e = i32x4.max_s(LO, i32x4.min_s(HI, nearest_i32x4(f32x4.div(f32x4.add(v128.load(x, 48), M), D))));
  v128.store(codes, i8x16.sub(low_bytes(a, b, c, e), i8x16.splat(<i8>lo)));
}

/** Packs bytes LS and LM of the work area into the 12 bytes at y + 4. */
function pack_scales(y: usize, work: usize): void {
  for (let j: usize = 0; j < 4; j++) {
    const ls = load<u8>(work + LS + j, 4);
    const lm = load<u8>(work + LM + j, 4);
    store<u8>(y + j, load<u8>(work + LS + j) | ((ls >> 4) << 6), 4);
    store<u8>(y + j, load<u8>(work + LM + j) | ((lm >> 4) << 6), 8);
    store<u8>(y + j, (ls & 15) | ((lm & 15) << 4), 12);
  }
}

/**
 * Rounds the eight f32 at values to 6-bit codes, as bytes of at most 63. most: the largest of the
 * eight.
 */
function round_scales(values: usize, codes: usize, most: f32): void {
  const inverse: f32 = most > 0 ? 63 / most : 0;
  for (let j: usize = 0; j < 8; j++) {
    const l = <u32>nearest_int(inverse * load<f32>(values + 4 * j)) & 255;
    store<u8>(codes + j, <u8>(l < 63 ? l : 63));
  }
}

/** min(63, byte) of eight bytes. */
@inline
function cut63(codes: u64): u64 {
  return i64x2.extract_lane(i8x16.min_u(i64x2.splat(codes), i8x16.splat(63)), 0);
}

/** Largest of eight f32 and 0. */
function largest8(values: usize): f32 {
  let most: f32 = 0;
  for (let j: usize = 0; j < 32; j += 4) {
    const v = load<f32>(values + j);
    if (v > most) most = v;
  }
  return most;
}

/**
 * Quantises one block of 256: writes d, dmin and the 12 bytes of scales, and leaves the codes
 * 0..nmax in work + L. With imatrix 0, this is ggml's _ref, whose search has the parameters rmin
 * and nstep. Otherwise it is ggml's _impl with these weights.
 */
export function quantize_block_k(x: usize, y: usize, nmax: i32, rmin: f32, nstep: i32, imatrix: usize, work: usize): void {
  const w = work + WEIGHT;
  let sigma2: f32 = 0;
  if (imatrix) sigma2 = (2 * sum_squares(x, 256)) / 256;
  for (let j: usize = 0; j < 8; j++) {
    const p = x + 128 * j;
    const codes = work + L + 32 * j;
    const the_min = work + MIN + 4 * j;
    let scale: f32;
    if (imatrix) {
      weigh_sub_block(work, x, imatrix, sigma2, 32, j);
      scale = make_qkx_quants(32, nmax, p, w, codes, the_min, work, -0.9, 0.05, 36, false, true);
    } else {
      const average: f32 = sqrt<f32>(sum_squares(p, 32) / 32);
      for (let i: usize = 0; i < 128; i += 4) store<f32>(w + i, average + abs(load<f32>(p + i)));
      scale = make_qkx_quants(32, nmax, p, w, codes, the_min, work, rmin, 0.1, nstep, false, false);
    }
    store<f32>(work + SCALE + 4 * j, scale);
  }
  let d: f32;
  let dmin: f32;
  if (imatrix) {
    d = make_qp_quants(8, 63, work + SCALE, work + LS, work + SUM_WEIGHT);
    dmin = make_qp_quants(8, 63, work + MIN, work + LM, work + SUM_WEIGHT);
    if (nmax == 31) {
      // Only q5_K limits these codes again. In q4_K a negative scale wraps to a large byte, which
      // is stored as it is.
      store<u64>(work + LS, cut63(load<u64>(work + LS)));
      store<u64>(work + LM, cut63(load<u64>(work + LM)));
    }
  } else {
    d = largest8(work + SCALE);
    dmin = largest8(work + MIN);
    round_scales(work + SCALE, work + LS, d);
    round_scales(work + MIN, work + LM, dmin);
    d /= 63;
    dmin /= 63;
  }
  store<u16>(y, <u16>f32_to_f16(d));
  store<u16>(y, <u16>f32_to_f16(dmin), 2);
  pack_scales(y, work);
  d = f16_to_f32(load<u16>(y));
  dmin = f16_to_f32(load<u16>(y, 2));
  const scales = unpack_scales(y);
  const mins = unpack_mins(y);
  for (let j: usize = 0; j < 8; j++) {
    const dj = d * <f32>(<u32>(scales >> (8 * j)) & 63);
    if (dj == 0) continue;
    const mj = dmin * <f32>(<u32>(mins >> (8 * j)) & 63);
    requantize16(x + 128 * j, work + L + 32 * j, dj, mj, 0, nmax);
    requantize16(x + 128 * j + 64, work + L + 32 * j + 16, dj, mj, 0, nmax);
  }
}
