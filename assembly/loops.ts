/**
 * Which loop multiplies columns by packed weights: chosen here, statically, for each format on each build, and told to explain() (packed_loop).
 * A loop is named for the rows x columns of sums that it keeps, and for what is unlike the usual: a scale for every 16 weights (s16), signs of
 * activations moved to 8-bit codes (signs), codes as i16 or as two nibbles. A format has the loop of its shape, or names one of its own (column_loop).
 */
import { NARROW, in_fours } from './act';
import * as fmt from './packed/format';
import { WORDS } from './packed/wide';
import { HAS_RELAXED_DOT } from './simd';

// The same list: src/graph/layout.ts LOOPS; a test compares them.
export const GEMV_16X1: i32 = 0;
export const GEMV_16X1_S16: i32 = 1;
export const GEMV_16X1_Q2_K: i32 = 2;
export const GEMV_16X1_Q6_K: i32 = 3;
export const GEMV_16X1_SIGNS: i32 = 4;
export const GEMM_16XN: i32 = 5;
export const GEMM_8X4: i32 = 6;
export const GEMM_8X4_I16: i32 = 7;
export const GEMM_8X4_NIBBLES: i32 = 8;
export const GEMV_F32_16X1: i32 = 9;
export const GEMM_F32_8X4: i32 = 10;

/** For one column. */
// @ts-ignore: decorator
@inline
export function column_loop<F>(): i32 {
  if (isDefined(changetype<F>(0).column_loop)) return changetype<F>(0).column_loop();
  if (HAS_RELAXED_DOT && fmt.wide<F>()) return GEMV_16X1_SIGNS;
  return fmt.w16<F>() ? GEMV_16X1_S16 : GEMV_16X1;
}

/** For four columns over a panel. */
// @ts-ignore: decorator
@inline
export function tile_loop<F>(): i32 {
  if (!fmt.wide<F>()) return GEMM_8X4;
  return WORDS ? GEMM_8X4_I16 : GEMM_8X4_NIBBLES;
}

/** Whether a product of ncols columns is one for gemm_16xn; builds without relaxed SIMD have too few registers for their 16-bit codes. */
// @ts-ignore: decorator
@inline
export function is_narrow<F>(ncols: i32): bool {
  return fmt.narrow<F>() && HAS_RELAXED_DOT && ncols > 1 && ncols <= NARROW;
}

/** The loop that computes column c of ncols. */
export function loop_of<F>(c: i32, ncols: i32): i32 {
  if (is_narrow<F>(ncols)) return GEMM_16XN;
  return c < in_fours(fmt.act_type<F>(), ncols) ? tile_loop<F>() : column_loop<F>();
}
