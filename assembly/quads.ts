/**
 * Activations as the GEMM's tile reads them: four columns side by side, word after word of all four (act.ts writes them). One pointer walks where
 * four did, and what is made of scales and sums is made for four columns at once, a lane each.
 *
 *   run: | quants: 4 bytes of each column, then the next 4 (8 x 16; i16 quants, also for 8-bit codes: 16 x 16) | d x 4 | sum x 4 | -pairs x 4 | -pairs x 4 |
 */
import { ACT_BLOCK, ACT_D, ACT_PAIRS0, ACT_PAIRS1, ACT_QUANTS, ACT_SUM, COLS, QUAD_RUN, QUAD_RUN_WIDE } from './act';
import * as fmt from './packed/format';

/** Bytes of a run, and of what is behind its quants. */
// @ts-ignore: decorator
@inline
export function quad_run<F>(): usize {
  return fmt.wide<F>() ? QUAD_RUN_WIDE : QUAD_RUN;
}

export const QUAD_REST: usize = COLS * (ACT_BLOCK - ACT_QUANTS);
const QUAD_D: usize = COLS * ACT_D;
const QUAD_SUM: usize = COLS * ACT_SUM;
const QUAD_PAIRS0: usize = COLS * ACT_PAIRS0;
const QUAD_PAIRS1: usize = COLS * ACT_PAIRS1;
/** From a first half's pair sums to where the second half's are, seen from a pointer that has walked half the quants. */
export const NEXT_HALF: usize = QUAD_PAIRS1 - QUAD_PAIRS0 - COLS * ACT_QUANTS / 2;

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
  if (!fmt.has_offset<F>()) return i32x4.splat(0);
  const pairs = v128.load(a, QUAD_PAIRS0);
  return changetype<D>(0).init(fmt.offset<F>(fmt.w16<F>() ? pairs : i16x8.add(pairs, v128.load(a, QUAD_PAIRS1))));
}

/** The negated sums of the quants; a: behind them, here and below. */
// @ts-ignore: decorator
@inline
export function pair_sums(a: usize): v128 {
  return i32x4.extadd_pairwise_i16x8_s(i16x8.add(v128.load(a, QUAD_PAIRS0 - QUAD_D), v128.load(a, QUAD_PAIRS1 - QUAD_D)));
}

/** What the integer sums still lack. */
// @ts-ignore: decorator
@inline
export function correction<F>(a: usize): v128 {
  if (!fmt.biased<F>()) return i32x4.splat(0);
  return i32x4.neg(i32x4.shl(pair_sums(a), 4));
}

// @ts-ignore: decorator
@inline
export function corrected<F, C>(i: v128, back: v128): v128 {
  return fmt.biased<F>() ? i32x4.add(i, splat<C>(back)) : i;
}

/** What minima are multiplied with: the sums of the quants, f32. */
// @ts-ignore: decorator
@inline
export function quant_sums<F>(a: usize): v128 {
  return fmt.has_min<F>() ? v128.load(a, QUAD_SUM - QUAD_D) : i32x4.splat(0);
}

/** And in super-blocks: integer sums of two runs (a: of the odd one), or of both halves of one, as i16. */
// @ts-ignore: decorator
@inline
export function run_sums<F>(a: usize): v128 {
  return v128.load(a, fmt.w16<F>() ? QUAD_SUM - QUAD_D : 0);
}
