/**
 * A column block: activations of four columns side by side, as the GEMM's tiles read them (act.ts
 * writes them). One pointer replaces four, and scales and sums of four columns are computed at
 * once, one in each lane.
 *
 *   sub-block: | quants: 4 bytes of each column, then the next 4 (8 x 16; i16 quants: 16 x 16) |
 *              | d x 4 | sum x 4 | lane sums x 4 | lane sums x 4 |
 *
 * With ACT_K, d and sum hold what act.ts says of one column.
 */
import { ACT_D, ACT_LANE_SUMS0, ACT_LANE_SUMS1, ACT_QUANTS, ACT_SUB, ACT_SUM, COLS, COLS_SUB, COLS_SUB_SIGNED } from './act';
import * as fmt from './format/format';

/** Bytes of a sub-block of a column block of the activations that format F takes. */
@inline
export function cols_sub<F>(): usize {
  return fmt.eight_bits<F>() ? COLS_SUB_SIGNED : COLS_SUB;
}

/** Bytes that follow the quants of a sub-block. */
export const COLS_REST: usize = COLS * (ACT_SUB - ACT_QUANTS);
const COLS_D: usize = COLS * ACT_D;
const COLS_SUM: usize = COLS * ACT_SUM;
const COLS_LANE_SUMS0: usize = COLS * ACT_LANE_SUMS0;
const COLS_LANE_SUMS1: usize = COLS * ACT_LANE_SUMS1;

/** The lane of column C (G0..G3), in all lanes. */
@inline
export function splat<C>(v: v128): v128 {
  return v128.shuffle<i32>(v, v, <u8>(offsetof<C>() / 16), <u8>(offsetof<C>() / 16), <u8>(offsetof<C>() / 16), <u8>(offsetof<C>() / 16));
}

/**
 * Lane sums of the sub-block whose quants begin at a: of all 32 quants, or with s16 of half 0 or 1.
 * For half 1, `a` has already advanced past the first half's quants. 0 if the format does not need
 * them.
 */
@inline
export function lane_sums_ahead<F>(a: usize, half: i32): v128 {
  if (fmt.taken_off<F>() == 0) return i32x4.splat(0);
  if (fmt.s16<F>()) return v128.load(half != 0 ? a + (COLS_LANE_SUMS1 - COLS_LANE_SUMS0 - (COLS * ACT_QUANTS) / 2) : a, COLS_LANE_SUMS0);
  return i16x8.add(v128.load(a, COLS_LANE_SUMS0), v128.load(a, COLS_LANE_SUMS1));
}

// ---- In these functions, a points after the quants ----

/** Lane sums of all 32 quants. */
@inline
export function lane_sums_behind(a: usize): v128 {
  return i16x8.add(v128.load(a, COLS_LANE_SUMS0 - COLS_D), v128.load(a, COLS_LANE_SUMS1 - COLS_D));
}

/** The scales d. */
@inline
export function scales(a: usize): v128 {
  return v128.load(a);
}

/** Factors of the minima: the sums of the quants, f32. */
@inline
export function quant_sums<F>(a: usize): v128 {
  return fmt.has_min<F>() ? v128.load(a, COLS_SUM - COLS_D) : i32x4.splat(0);
}

/**
 * With ACT_K: two i16 sums, those of two sub-blocks (a: after the odd one's quants), or with s16
 * those of the two halves of one.
 */
@inline
export function sums_pair<F>(a: usize): v128 {
  return v128.load(a, fmt.s16<F>() ? COLS_SUM - COLS_D : 0);
}
