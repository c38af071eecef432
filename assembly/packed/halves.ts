/**
 * The order of q2_K's codes for gemv_q2_K.ts: a word of four codes of a row is two of the first half of a run and the same two of the second,
 * so that the two i16 lanes a dot gives a row are sums of one half each. Other builds keep four of one half together.
 */
import { HAS_PAIR_DOT } from '../simd';

/** 16 codes of either half of a row to bytes that have two: below, and two bits further up, those of even and odd words. */
// @ts-ignore: decorator
@inline
export function two_halves(first: v128, second: v128): v128 {
  if (!HAS_PAIR_DOT) return v128.or(first, i16x8.shl(second, 2));
  const even = v128.or(low_pairs(first), i32x4.shl(second, 16)), odd = v128.or(i32x4.shr_u(first, 16), high_pairs(second));
  return v128.or(even, i16x8.shl(odd, 2));
}

/** Of such bytes, with even words' codes and odd words' apart, the codes of one half. */
// @ts-ignore: decorator
@inline
export function one_half(even: v128, odd: v128, half: i32): v128 {
  if (!HAS_PAIR_DOT) return half == 0 ? even : odd;
  return half == 0 ? v128.or(low_pairs(even), i32x4.shl(odd, 16)) : v128.or(i32x4.shr_u(even, 16), high_pairs(odd));
}

// @ts-ignore: decorator
@inline
function low_pairs(v: v128): v128 { return v128.and(v, i32x4.splat(0x0000ffff)); }

// @ts-ignore: decorator
@inline
function high_pairs(v: v128): v128 { return v128.and(v, i32x4.splat(0xffff0000)); }
