/**
 * q3_K: 256 elements in 110 bytes, x = d * (scale - 32) * (q - 4); sub-blocks of 16.
 *
 *   0                          32                               96                 108      110
 *   | hmask: 32 bytes,         | qs: 2 x 32 bytes, bits         | scales: 12 bytes | d: f16 |
 *     bit i of byte j: third     2i..2i+1 of byte j of half h:
 *     bit of element 32i + j     low bits of element
 *                                128h + 32i + j
 *
 *   scales: low 4 bits of scale j in the low nibble of byte j (j < 8) or the high nibble of byte
 *   j - 8; high 2 bits in byte 8 + j % 4, bits 2 * (j / 4).
 */
import { dot_u6_scaled, f16_to_f32, f32_to_f16, hsum_f32, madd, splat_u6 } from '../../simd';
import { requantize16 } from './k_scales';
import { pack_codes2 } from './q2_K';
import { clamp, make_q3_quants, make_qx_quants, sum_squares, weigh_sub_block } from './search_qx';
import { L, LS, SCALE, SUM_WEIGHT, WEIGHT } from './work';
import { nearest_int, store_i8_scaled } from './words';

@inline
const BYTES: usize = 110;

/** The sixteen scales, -32..31, one per byte. */
@inline
function unpack_scales(x: usize): v128 {
  const low = v128.load64_zero(x, 96);
  const high = <u64>load<u32>(x, 104);
  const nibbles = i64x2.replace_lane(low, 1, i64x2.extract_lane(low, 0) >>> 4);
  const pairs = i64x2.replace_lane(i64x2.splat(high | ((high >> 2) << 32)), 1, (high >> 4) | ((high >> 6) << 32));
  const top = i16x8.shl(v128.and(pairs, i8x16.splat(3)), 4);
  return i8x16.sub(v128.or(v128.and(nibbles, i8x16.splat(15)), top), i8x16.splat(32));
}

/** Packs the scale codes 0..63 at `codes` into 12 bytes at y. */
function pack_scales(y: usize, codes: usize): void {
  for (let j: usize = 0; j < 8; j++) store<u8>(y + j, (load<u8>(codes + j) & 15) | ((load<u8>(codes + j, 8) & 15) << 4));
  for (let j: usize = 0; j < 4; j++) {
    const c = codes + j;
    store<u8>(y + j, (load<u8>(c) >> 4) | ((load<u8>(c, 4) >> 4) << 2) | ((load<u8>(c, 8) >> 4) << 4) | ((load<u8>(c, 12) >> 4) << 6), 8);
  }
}

export function dequantize_row_q3_K(x: usize, y: usize, k: i32): void {
  const mask = i8x16.splat(3);
  const four = i8x16.splat(4);
  for (const end = y + (<usize>k << 2); y < end; x += BYTES) {
    const d = f16_to_f32(load<u16>(x, 108));
    const scales = unpack_scales(x);
    let lo = i64x2.extract_lane(scales, 0);
    let hi = i64x2.extract_lane(scales, 1);
    for (let j: usize = 0; j < 16; j++, y += 64) {
      const q = i16x8.shr_u(v128.load(x + ((j & 8) << 2) + ((j & 1) << 4), 32), <i32>(j & 6));
      const h = i16x8.shl(i16x8.shr_u(v128.load(x + ((j & 1) << 4)), <i32>(j >> 1)), 2);
      const scale = <f32><i8>(j < 8 ? lo : hi);
      store_i8_scaled(y, i8x16.sub(v128.or(v128.and(q, mask), v128.and(h, four)), four), f32x4.splat(d * scale));
      if (j < 8) lo >>= 8;
      else hi >>= 8;
    }
  }
}

/**
 * Rounds sixteen scales to codes 0..63 in work + LS, relative to the one of largest magnitude, and
 * returns d. As ggml's _ref does.
 */
function round_scales(work: usize): f32 {
  let amax: f32 = 0;
  let max: f32 = 0;
  for (let j: usize = 0; j < 64; j += 4) {
    const v = load<f32>(work + SCALE + j);
    if (abs(v) > amax) {
      amax = abs(v);
      max = v;
    }
  }
  memory.fill(work + LS, 0, 16);
  if (max == 0) return 0;
  const iscale: f32 = -32 / max;
  for (let j: usize = 0; j < 16; j++)
    store<u8>(work + LS + j, <u8>(clamp(<i32><i8>nearest_int(iscale * load<f32>(work + SCALE + 4 * j)), -32, 31) + 32));
  return 1 / iscale;
}

/** Quantises k elements. imatrix 0: ggml's quantize_row_q3_K_ref. */
export function quantize_imatrix_q3_K(x: usize, y: usize, k: i32, imatrix: usize, work: usize): void {
  for (const end = x + (<usize>k << 2); x < end; x += 1024, y += BYTES) {
    const sigma2: f32 = imatrix ? (2 * sum_squares(x, 256)) / 256 : 0;
    for (let j: usize = 0; j < 16; j++) {
      const p = x + 64 * j;
      let scale: f32;
      if (imatrix) {
        weigh_sub_block(work, x, imatrix, sigma2, 16, j);
        scale = make_qx_quants(16, 4, p, work + L + 16 * j, work + WEIGHT, work);
      } else {
        scale = make_q3_quants(16, 4, p, work + L + 16 * j);
      }
      store<f32>(work + SCALE + 4 * j, scale);
    }
    let d: f32;
    if (imatrix) {
      d = make_qx_quants(16, 32, work + SCALE, work + LS, work + SUM_WEIGHT, work);
      imatrix += 1024;
    } else {
      d = round_scales(work);
    }
    pack_scales(y + 96, work + LS);
    store<u16>(y, <u16>f32_to_f16(d), 108);
    d = f16_to_f32(load<u16>(y, 108));
    for (let j: usize = 0; j < 16; j++) {
      const dj = d * <f32>(<i32>load<u8>(work + LS + j) - 32);
      if (dj != 0) requantize16(x + 64 * j, work + L + 16 * j, dj, 0, -4, 3);
    }
    for (let half: usize = 0; half < 32; half += 16) {
      let h = i8x16.splat(0);
      for (let i = 0; i < 8; i++) {
        const p = work + L + 32 * <usize>i + half;
        const q = v128.load(p);
        const third = i8x16.gt_s(q, i8x16.splat(3));
        h = v128.or(h, v128.and(third, i8x16.shl(i8x16.splat(1), i)));
        v128.store(p, i8x16.sub(q, v128.and(third, i8x16.splat(4))));
      }
      v128.store(y + half, h);
    }
    pack_codes2(y + 32, work + L);
  }
}

export function quantize_row_q3_K(x: usize, y: usize, k: i32, work: usize): void {
  quantize_imatrix_q3_K(x, y, k, 0, work);
}

/**
 * q3_K . q8_K. The codes stay 0..7, and 4 * scale * (sum of sixteen activations) is subtracted,
 * from q8_K's bsums.
 */
export function vec_dot_q3_K_q8_K(n: i32, x: usize, y: usize): f32 {
  const mask = splat_u6(3);
  const four = splat_u6(4);
  let acc = f32x4.splat(0);
  for (const end = x + <usize>(n >> 8) * BYTES; x < end; x += BYTES, y += 292) {
    const d = load<f32>(y) * f16_to_f32(load<u16>(x, 108));
    const scales = unpack_scales(x);
    const offsets = i32x4.add(
      i32x4.dot_i16x8_s(i16x8.extend_low_i8x16_s(scales), v128.load(y, 260)),
      i32x4.dot_i16x8_s(i16x8.extend_high_i8x16_s(scales), v128.load(y, 276)),
    );
    let s = i32x4.neg(i32x4.shl(offsets, 2));
    let h0 = v128.load(x);
    let h1 = v128.load(x, 16);
    let sc = i64x2.extract_lane(scales, 0);
    for (let half: usize = 0; half < 2; half++) {
      let q0 = v128.load(x + 32 * half, 32);
      let q1 = v128.load(x + 32 * half, 48);
      let p = y + 128 * half;
      for (let i: usize = 0; i < 4; i++, p += 32) {
        s = i32x4.add(
          s,
          dot_u6_scaled(v128.or(v128.and(q0, mask), v128.and(i16x8.shl(h0, 2), four)), v128.load(p, 4), i16x8.splat(<i16><i8>sc)),
        );
        s = i32x4.add(
          s,
          dot_u6_scaled(v128.or(v128.and(q1, mask), v128.and(i16x8.shl(h1, 2), four)), v128.load(p, 20), i16x8.splat(<i16><i8>(sc >> 8))),
        );
        sc >>= 16;
        q0 = i16x8.shr_u(q0, 2);
        q1 = i16x8.shr_u(q1, 2);
        h0 = i16x8.shr_u(h0, 1);
        h1 = i16x8.shr_u(h1, 1);
      }
      sc = i64x2.extract_lane(scales, 1);
    }
    acc = madd(f32x4.convert_i32x4_s(s), f32x4.splat(d), acc);
  }
  return hsum_f32(acc);
}
