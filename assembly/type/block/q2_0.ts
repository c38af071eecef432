/**
 * q2_0: 64 elements in 18 bytes, x = d * (q - 1) with q of 0..3.
 *
 *   0        2                                                             18
 *   | d: f16 | qs: 16 bytes, bits 2i..2i+1 of byte j are element 4j + i    |
 */
import { f16_to_f32, f32_to_f16, round_f32x4, splat_u6 } from '../../simd';
import { store_i8_scaled } from './words';

@inline
const BYTES: usize = 18;

/** Codes of sixteen elements in order, from four bytes. */
@inline
export function codes_q2_0(p: usize): v128 {
  const v = v128.load32_splat(p);
  // Lane 4j + i holds byte j, and its code is 2i bits up. Codes of the lanes i = 2, 3 are shifted
  // by 4 bits, then those of odd lanes by 2.
  const b = i8x16.shuffle(v, v, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  const low = v128.and(b, i32x4.splat(0x00000c03));
  const high = v128.and(b, i32x4.splat(<i32>0xc0300000));
  const c = v128.or(low, i32x4.shr_u(high, 4));
  return v128.or(v128.and(c, i16x8.splat(0x0003)), i16x8.shr_u(v128.and(c, i16x8.splat(0x0c00)), 2));
}

export function dequantize_row_q2_0(x: usize, y: usize, k: i32): void {
  const one = splat_u6(1);
  for (const end = y + (<usize>k << 2); y < end; x += BYTES) {
    const d = f32x4.splat(f16_to_f32(load<u16>(x)));
    for (let j: usize = 0; j < 16; j += 4, y += 64) store_i8_scaled(y, i8x16.sub(codes_q2_0(x + 2 + j), one), d);
  }
}

/**
 * Quantises k elements. d is the largest |x|; NaNs are ignored, and elements whose x / d is NaN or
 * too large for an integer get the code 0.
 */
export function quantize_row_q2_0(x: usize, y: usize, k: i32): void {
  for (const end = x + (<usize>k << 2); x < end; y += BYTES) {
    let d: f32 = 0;
    for (let j: usize = 0; j < 256; j += 4) {
      const v = abs(load<f32>(x + j));
      if (v > d) d = v;
    }
    const id = f32x4.splat(d > 0 ? 1 / d : 0);
    store<u16>(y, <u16>f32_to_f16(d));
    for (let j: usize = 0; j < 16; j++, x += 16) {
      const v = round_f32x4(f32x4.mul(v128.load(x), id));
      const fits = i32x4.lt_u(v128.and(v, i32x4.splat(0x7fffffff)), i32x4.splat(0x4f000000));
      const q = v128.and(i32x4.add(i32x4.trunc_sat_f32x4_s(v), i32x4.splat(1)), fits);
      const c = i32x4.min_s(i32x4.max_s(q, i32x4.splat(0)), i32x4.splat(3));
      const b =
        i32x4.extract_lane(c, 0) | (i32x4.extract_lane(c, 1) << 2) | (i32x4.extract_lane(c, 2) << 4) | (i32x4.extract_lane(c, 3) << 6);
      store<u8>(y + j, <u8>b, 2);
    }
  }
}
