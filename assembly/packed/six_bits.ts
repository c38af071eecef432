/**
 * Integer scales of six bits, eight for each of 16 rows (q4_K, q5_K, iq4_xs), as six vectors of bytes:
 *
 *   byte of vector i < 6: | bits 2..7: value i | bits 0, 1: two bits of value 6 (i < 3) or 7, low ones in the first vector |
 *
 * Rows lie as the loops want them: byte 4r + g is row r of group g. So a shift or two make a group's four values i32 lanes, where sixteen
 * bytes in order take an extension or two, and neither a shift by a variable nor putting together for six runs of eight.
 */
import { bits_0x03 } from './group';

/** Value i of every row in the top six bits of its byte; in the other two: anything. */
// @ts-ignore: decorator
@inline
export function six_bits(p: usize, i: i32): v128 {
  if (i < 6) return v128.load(p + (<usize>i << 4));
  if (i > 6) p += 48;
  const m = bits_0x03(), a = v128.and(v128.load(p), m), b = v128.and(v128.load(p, 16), m), c = v128.and(v128.load(p, 32), m);
  return v128.or(v128.or(i16x8.shl(a, 2), i16x8.shl(b, 4)), i16x8.shl(c, 6));
}

/** The rows of group G, unsigned. */
// @ts-ignore: decorator
@inline
export function six_u<G>(v: v128): v128 {
  return i32x4.shr_u(offsetof<G>() == 48 ? v : i32x4.shl(v, 24 - <i32>(offsetof<G>() >> 1)), 26);
}

/** Signed. */
// @ts-ignore: decorator
@inline
export function six_s<G>(v: v128): v128 {
  return i32x4.shr_s(offsetof<G>() == 48 ? v : i32x4.shl(v, 24 - <i32>(offsetof<G>() >> 1)), 26);
}

/** Where row `row` of 16 is in a vector. */
// @ts-ignore: decorator
@inline
export function six_at(row: usize): usize {
  return (row & 3) << 2 | row >> 2;
}

/** Value i of a row to p; i ascending. */
export function put_six(p: usize, i: usize, row: usize, x: u32): void {
  p += six_at(row);
  if (i < 6) {
    store<u8>(p + (i << 4), x << 2);
    return;
  }
  if (i > 6) p += 48;
  for (let part = 0; part < 3; part++) store<u8>(p, load<u8>(p) | (x >> (part << 1) & 3)), p += 16;
}
