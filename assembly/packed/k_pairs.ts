/** How q2_K, q3_K and q6_K lay out fields of two bits, and what the packed formats make of them. */

/** k 0..7 and 16..23 of a run in the low bits, k 8..15 and 24..31 `bits` higher: both halves of 16 weights folded. */
// @ts-ignore: decorator
@inline
export function fold(a: v128, b: v128, bits: i32): v128 {
  return v128.or(i64x2.shuffle(a, b, 0, 2), i16x8.shl(i64x2.shuffle(a, b, 1, 3), bits));
}

/** Run s of 8 has bits 2 (s % 4).. of bytes 32 (s / 4) .. + 31. */
export function k_pairs(p: usize, sub: i32): v128 {
  p += <usize>(sub >> 2) << 5;
  const shift = (sub & 3) << 1, m = i8x16.splat(3);
  return fold(v128.and(i16x8.shr_u(v128.load(p), shift), m), v128.and(i16x8.shr_u(v128.load(p, 16), shift), m), 2);
}
