/**
 * Numbers of six bits, eight for each of 16 rows (scales and minima of q4_K and q5_K, scales of iq4_xs), as six vectors of bytes:
 *
 *   byte of vector i < 6: | bits 0..5: of number i | bits 6, 7: two bits of number 6 (i < 3) or 7, low ones in the first vector |
 *
 * What lies in which byte is chosen so that the loops need few operations: scales are bytes 4r + g for row r of group g, which one shuffle,
 * or two shifts, make a group's four factors. Minima are multiplied for two runs at once (k_scales.ts).
 */
import { HAS_PAIR_DOT, lookup16 } from '../simd';
import { bits_0x3f, bits_0xc0 } from './w16';

/** Vector i of eight; bits 6 and 7 of its bytes: anything, or 0 (`clean`). */
// @ts-ignore: decorator
@inline
export function six_bits(p: usize, i: i32, clean: bool): v128 {
  if (i < 6) {
    const v = v128.load(p + (<usize>i << 4));
    return clean ? v128.and(v, bits_0x3f()) : v;
  }
  if (i > 6) p += 48;
  const m = bits_0xc0(), a = v128.and(v128.load(p), m), b = v128.and(v128.load(p, 16), m), c = v128.and(v128.load(p, 32), m);
  return v128.or(v128.or(i16x8.shr_u(a, 6), i16x8.shr_u(b, 4)), i16x8.shr_u(c, 2));
}

/** For each group: byte 4r + g of row r to both i16 of its lane; nothing to their high bytes. */
const PAIRS: usize = memory.data<u8>([
  0, 128, 0, 128, 4, 128, 4, 128, 8, 128, 8, 128, 12, 128, 12, 128,
  1, 128, 1, 128, 5, 128, 5, 128, 9, 128, 9, 128, 13, 128, 13, 128,
  2, 128, 2, 128, 6, 128, 6, 128, 10, 128, 10, 128, 14, 128, 14, 128,
  3, 128, 3, 128, 7, 128, 7, 128, 11, 128, 11, 128, 15, 128, 15, 128,
], 16);

/** Unsigned scales of group G as `scaled` (dot.ts) wants them; v clean. */
// @ts-ignore: decorator
@inline
export function six_u<G>(v: v128): v128 {
  if (HAS_PAIR_DOT) return lookup16(v, v128.load(PAIRS + offsetof<G>()));
  return i32x4.shr_u(i32x4.shl(v, 26 - <i32>(offsetof<G>() >> 1)), 26);
}

/** Signed ones as i32. */
// @ts-ignore: decorator
@inline
export function six_s<G>(v: v128): v128 {
  return i32x4.shr_s(i32x4.shl(v, 26 - <i32>(offsetof<G>() >> 1)), 26);
}

/** The byte of a row's scale. */
// @ts-ignore: decorator
@inline
export function six_at(row: usize): usize {
  return (row & 3) << 2 | row >> 2;
}

/** Number x to byte `at` of vector i; i ascending. */
export function put_six(p: usize, i: usize, at: usize, x: u32): void {
  p += at;
  if (i < 6) {
    store<u8>(p + (i << 4), x);
    return;
  }
  if (i > 6) p += 48;
  for (let part = 0; part < 3; part++) store<u8>(p, load<u8>(p) | (x >> (part << 1) & 3) << 6), p += 16;
}

/** The number there. */
export function get_six(p: usize, i: usize, at: usize): u32 {
  p += at;
  if (i < 6) return load<u8>(p + (i << 4)) & 63;
  if (i > 6) p += 48;
  return <u32>load<u8>(p) >> 6 | <u32>load<u8>(p, 16) >> 6 << 2 | <u32>load<u8>(p, 32) >> 6 << 4;
}
