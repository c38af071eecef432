/**
 * Numbers of six bits, eight for each of 16 rows: scales and minima of q4_K and q5_K, scales of
 * iq4_xs. They are packed in six vectors of bytes:
 *
 *   vector i < 6, bits 0..5 | number i
 *   vector i < 3, bits 6, 7 | two bits of number 6; vector 0 has the lowest two
 *   vector i > 2, bits 6, 7 | two bits of number 7; vector 3 has the lowest two
 *
 * The row of each byte is chosen so that loops need few operations. For scales, byte 4r + g belongs
 * to row r of group g, so one shuffle or two shifts make the factors of a group. Minima of two
 * sub-blocks are multiplied at once (k_scales.ts).
 */
import { bytes_0x3f, bytes_0xc0 } from './constants';

/**
 * Vector i (0..7) of the six-bit numbers at p. clean: bits 6 and 7 of its bytes are cleared;
 * otherwise they may be anything.
 */
@inline
export function six_bits(p: usize, i: i32, clean: bool): v128 {
  if (i < 6) {
    const v = v128.load(p + (<usize>i << 4));
    return clean ? v128.and(v, bytes_0x3f()) : v;
  }
  if (i > 6) p += 48;
  const m = bytes_0xc0();
  const a = v128.and(v128.load(p), m);
  const b = v128.and(v128.load(p, 16), m);
  const c = v128.and(v128.load(p, 32), m);
  return v128.or(v128.or(i16x8.shr_u(a, 6), i16x8.shr_u(b, 4)), i16x8.shr_u(c, 2));
}

/** Signed six-bit scales of group G as i32. (Unsigned ones: scales_u6 in dot.ts.) */
@inline
export function scales_s6<G>(v: v128): v128 {
  return i32x4.shr_s(i32x4.shl(v, 26 - <i32>(offsetof<G>() >> 1)), 26);
}

/** Byte with the scales of row `row` (0..15). */
@inline
export function scale_byte(row: usize): usize {
  return ((row & 3) << 2) | (row >> 2);
}

/** Stores number x as byte `at` of vector i, at p. Callers must ascend in i. */
export function put_six(p: usize, i: usize, at: usize, x: u32): void {
  p += at;
  if (i < 6) {
    store<u8>(p + (i << 4), x);
    return;
  }
  if (i > 6) p += 48;
  for (let part = 0; part < 3; part++) {
    store<u8>(p, load<u8>(p) | (((x >> (part << 1)) & 3) << 6));
    p += 16;
  }
}
