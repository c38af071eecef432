/**
 * Activations as the GEMM's tile reads them: four columns side by side, word after word of all four. One pointer walks where four did, and
 * what is made of scales and sums is made for four columns at once, a lane each.
 *
 *   run: | quants: 4 bytes of each column, then the next 4 (8 x 16; i16 quants: 16 x 16) | d x 4 | d * sum x 4 | -pairs x 4 | -pairs x 4 |
 */
import { ACT_BLOCK, ACT_D, ACT_DSUM, ACT_PAIRS0, ACT_PAIRS1, ACT_QUANTS } from './act';
import * as fmt from './packed/format';
import { half_sums } from './packed/w16';

export const COLS: usize = 4;

/** Bytes of a run. */
export const QUAD_RUN: usize = COLS * ACT_BLOCK;
export const QUAD_D: usize = COLS * ACT_D;
const QUAD_DSUM: usize = COLS * ACT_DSUM;
const QUAD_PAIRS0: usize = COLS * ACT_PAIRS0;
const QUAD_PAIRS1: usize = COLS * ACT_PAIRS1;
/** From a first half's pair sums to where the second half's are, seen from a pointer that has walked half the quants. */
export const NEXT_HALF: usize = QUAD_PAIRS1 - QUAD_PAIRS0 - COLS * ACT_QUANTS / 2;

/** n runs of the columns at a0 .. a3 to p. Where scales are for 32 weights (not w16) the first pair sums become those of both halves. */
export function side_by_side(a0: usize, a1: usize, a2: usize, a3: usize, p: usize, n: i32, w16: bool): void {
  for (; n > 0; n--) {
    for (const end = a0 + ACT_QUANTS + 16; a0 != end; p += 64) {
      const x0 = v128.load(a0), x1 = v128.load(a1), x2 = v128.load(a2), x3 = v128.load(a3);
      const l0 = v128.shuffle<i32>(x0, x1, 0, 4, 1, 5), h0 = v128.shuffle<i32>(x0, x1, 2, 6, 3, 7);
      const l1 = v128.shuffle<i32>(x2, x3, 0, 4, 1, 5), h1 = v128.shuffle<i32>(x2, x3, 2, 6, 3, 7);
      v128.store(p, v128.shuffle<i64>(l0, l1, 0, 2));
      v128.store(p, v128.shuffle<i64>(l0, l1, 1, 3), 16);
      v128.store(p, v128.shuffle<i64>(h0, h1, 0, 2), 32);
      v128.store(p, v128.shuffle<i64>(h0, h1, 1, 3), 48);
      a0 += 16;
      a1 += 16;
      a2 += 16;
      a3 += 16;
    }
    if (!w16) v128.store(p - 32, i16x8.add(v128.load(p - 32), v128.load(p - 16)));
  }
}

/** The lane of column C in all lanes. */
// @ts-ignore: decorator
@inline
export function splat<C>(v: v128): v128 {
  return v128.shuffle<i32>(v, v, <u8>(offsetof<C>() / 16), <u8>(offsetof<C>() / 16), <u8>(offsetof<C>() / 16), <u8>(offsetof<C>() / 16));
}

/** What the sums start at. */
// @ts-ignore: decorator
@inline
export function start<F, D>(a: usize): v128 {
  if (fmt.wide<F>() || !fmt.has_offset<F>()) return i32x4.splat(0);
  return changetype<D>(0).init(fmt.offset<F>(v128.load(a, QUAD_PAIRS0)));
}

/** What the integer sums still lack; a: behind the quants, here and below. */
// @ts-ignore: decorator
@inline
export function correction<F>(a: usize): v128 {
  if (!fmt.wide<F>() && !fmt.biased<F>()) return i32x4.splat(0);
  const sum = i32x4.extadd_pairwise_i16x8_s(v128.load(a, QUAD_PAIRS0 - QUAD_D));
  return fmt.wide<F>() ? i32x4.shl(sum, 7) : i32x4.neg(i32x4.shl(sum, 4));
}

// @ts-ignore: decorator
@inline
export function corrected<F, C>(i: v128, back: v128): v128 {
  return fmt.wide<F>() || fmt.biased<F>() ? i32x4.add(i, splat<C>(back)) : i;
}

/** What minima are multiplied with: d * sum, or where there are minima for both halves the integer sums of both (w16.ts). */
// @ts-ignore: decorator
@inline
export function dsum<F>(a: usize): v128 {
  if (!fmt.has_min<F>()) return i32x4.splat(0);
  return fmt.w16<F>() ? half_sums(v128.load(a, QUAD_PAIRS0 - QUAD_D), v128.load(a, QUAD_PAIRS1 - QUAD_D)) : v128.load(a, QUAD_DSUM - QUAD_D);
}
