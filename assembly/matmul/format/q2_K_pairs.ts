/**
 * Pair order: the order of packed q2_K for gemv_16x1_q2_K.ts, in builds whose dot leaves a row's
 * products of k 0, 1 and of k 2, 3 in two i16 lanes. A word of four codes of a row is two codes of
 * the first half of a sub-block (16 weights) and the same two of the second half, so each lane is
 * the sum of one half. Activations come in the same order (ACT_PAIRS in act.ts), and the
 * scales of both halves lie side by side.
 *
 * Other builds keep four codes of one half together, and each half's scales in a vector, rows in
 * order.
 */
import { PAIR_SUMS } from '../dot';

/**
 * Joins 16 codes of each half of a row's sub-block to bytes of two codes. The second half's two
 * bits lie above the first half's; in pair order, odd words' above even words'.
 */
@inline
export function join_halves(first: v128, second: v128): v128 {
  if (!PAIR_SUMS) return v128.or(first, i16x8.shl(second, 2));
  const even = v128.or(low_pairs(first), i32x4.shl(second, 16));
  const odd = v128.or(i32x4.shr_u(first, 16), high_pairs(second));
  return v128.or(even, i16x8.shl(odd, 2));
}

/** Codes of one half, from the lower and the upper codes of such bytes. */
@inline
export function take_half(lower: v128, upper: v128, half: i32): v128 {
  if (!PAIR_SUMS) return half == 0 ? lower : upper;
  return half == 0 ? v128.or(low_pairs(lower), i32x4.shl(upper, 16)) : v128.or(i32x4.shr_u(lower, 16), high_pairs(upper));
}

/**
 * Orders the 256 bytes of scales and minima at p: 16 vectors of 16 rows. In pair order a
 * sub-block's two vectors become one of groups 0 and 1 and one of groups 2 and 3. For each row r of
 * a group they have the first half's bytes of both groups, then the second half's bytes of both
 * groups.
 */
export function order_scales(p: usize): void {
  if (!PAIR_SUMS) return;
  for (const end = p + 256; p < end; p += 32) {
    const a = v128.load(p);
    const b = v128.load(p, 16);
    v128.store(p, i8x16.shuffle(a, b, 0, 4, 16, 20, 1, 5, 17, 21, 2, 6, 18, 22, 3, 7, 19, 23));
    v128.store(p, i8x16.shuffle(a, b, 8, 12, 24, 28, 9, 13, 25, 29, 10, 14, 26, 30, 11, 15, 27, 31), 16);
  }
}

/** Scales and minima of half i (0..15), rows in order, from the ordered ones at p. */
@inline
export function scales_of_half(p: usize, i: i32): v128 {
  if (!PAIR_SUMS) return v128.load(p + (<usize>i << 4));
  p += <usize>(i >> 1) << 5;
  const shift = (i & 1) << 4;
  const a = i32x4.shr_u(v128.load(p), shift);
  const b = i32x4.shr_u(v128.load(p, 16), shift);
  return i8x16.shuffle(a, b, 0, 4, 8, 12, 1, 5, 9, 13, 16, 20, 24, 28, 17, 21, 25, 29);
}

@inline
function low_pairs(v: v128): v128 {
  return v128.and(v, i32x4.splat(0x0000ffff));
}

@inline
function high_pairs(v: v128): v128 {
  return v128.and(v, i32x4.splat(0xffff0000));
}
