/**
 * Activations as the GEMM's tile reads them: four columns side by side, word after word of all four. One pointer walks where four did, and
 * what is made of scales and sums is made for four columns at once, a lane each.
 *
 *   run: | quants: 4 bytes of each column, then the next 4 (8 x 16; i16 quants, also for 8-bit codes: 16 x 16) | d x 4 | d * sum x 4 | -pairs x 4 | -pairs x 4 |
 */
import { ACT_BLOCK, ACT_D, ACT_DSUM, ACT_PAIRS0, ACT_PAIRS1, ACT_QUANTS } from './act';
import * as fmt from './packed/format';
import { WIDENS, even_words, odd_words } from './packed/wide';

export const COLS: usize = 4;

/** Whether the quants, i8 until here, become i16: for 8-bit codes as words. */
// @ts-ignore: decorator
@inline
function widens<F>(): bool {
  return WIDENS && fmt.wide<F>();
}

/** Bytes of a run, at most QUAD_RUN, and of what is behind its quants. */
// @ts-ignore: decorator
@inline
export function quad_run<F>(): usize {
  return widens<F>() ? COLS * (ACT_BLOCK + 32) : COLS * ACT_BLOCK;
}

export const QUAD_RUN: usize = COLS * (64 + ACT_BLOCK - ACT_QUANTS);
export const QUAD_REST: usize = COLS * (ACT_BLOCK - ACT_QUANTS);
const QUAD_D: usize = COLS * ACT_D;
const QUAD_DSUM: usize = COLS * ACT_DSUM;
const QUAD_PAIRS0: usize = COLS * ACT_PAIRS0;
const QUAD_PAIRS1: usize = COLS * ACT_PAIRS1;
/** From a first half's pair sums to where the second half's are, seen from a pointer that has walked half the quants. */
export const NEXT_HALF: usize = QUAD_PAIRS1 - QUAD_PAIRS0 - COLS * ACT_QUANTS / 2;

/** n runs of the columns at a0 .. a3 to p. Where scales are for 32 weights (not w16) the first pair sums become those of both halves. */
export function side_by_side<F>(a0: usize, a1: usize, a2: usize, a3: usize, p: usize, n: i32): void {
  if (quad_run<F>() > QUAD_RUN) ERROR('QUAD_RUN must have room for this format, too');
  for (; n > 0; n--) {
    for (const rest = a0 + ACT_QUANTS, end = rest + 16; a0 != end; p += 64) {
      const x0 = v128.load(a0), x1 = v128.load(a1), x2 = v128.load(a2), x3 = v128.load(a3);
      const l0 = v128.shuffle<i32>(x0, x1, 0, 4, 1, 5), h0 = v128.shuffle<i32>(x0, x1, 2, 6, 3, 7);
      const l1 = v128.shuffle<i32>(x2, x3, 0, 4, 1, 5), h1 = v128.shuffle<i32>(x2, x3, 2, 6, 3, 7);
      const v0 = v128.shuffle<i64>(l0, l1, 0, 2), v1 = v128.shuffle<i64>(l0, l1, 1, 3);
      const v2 = v128.shuffle<i64>(h0, h1, 0, 2), v3 = v128.shuffle<i64>(h0, h1, 1, 3);
      if (widens<F>() && a0 != rest) {
        v128.store(p, even_words(v0));
        v128.store(p, odd_words(v0), 16);
        v128.store(p, even_words(v1), 32);
        v128.store(p, odd_words(v1), 48);
        v128.store(p, even_words(v2), 64);
        v128.store(p, odd_words(v2), 80);
        v128.store(p, even_words(v3), 96);
        v128.store(p, odd_words(v3), 112);
        p += 64;
      } else {
        v128.store(p, v0);
        v128.store(p, v1, 16);
        v128.store(p, v2, 32);
        v128.store(p, v3, 48);
      }
      a0 += 16;
      a1 += 16;
      a2 += 16;
      a3 += 16;
    }
    if (!fmt.w16<F>()) v128.store(p - 32, i16x8.add(v128.load(p - 32), v128.load(p - 16)));
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
  if (!fmt.has_offset<F>()) return i32x4.splat(0);
  return changetype<D>(0).init(fmt.offset<F>(v128.load(a, QUAD_PAIRS0)));
}

/** The negated sums of the quants; a: behind them, here and below. */
// @ts-ignore: decorator
@inline
export function pair_sums(a: usize): v128 {
  return i32x4.extadd_pairwise_i16x8_s(v128.load(a, QUAD_PAIRS0 - QUAD_D));
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

/** What minima are multiplied with: d * sum. */
// @ts-ignore: decorator
@inline
export function dsum<F>(a: usize): v128 {
  return fmt.has_min<F>() ? v128.load(a, QUAD_DSUM - QUAD_D) : i32x4.splat(0);
}

/** And in super-blocks: integer sums of two runs (a: of the odd one), or of both halves of one, as i16. */
// @ts-ignore: decorator
@inline
export function run_sums<F>(a: usize): v128 {
  return v128.load(a, fmt.w16<F>() ? QUAD_DSUM - QUAD_D : 0);
}
