/**
 * Which loop multiplies columns of activations by packed weights: chosen here and nowhere else, statically, from the facts that a format states
 * (format/format.ts) and the dot that a build has, and told to explain() (packed_loop in packed.ts).
 *
 * A loop is named for the rows x columns of sums that it keeps, and for what it is made for: formats with a scale for every 16 weights (s16), signs
 * of activations moved to 8-bit codes (signs), codes as i16 or as two nibbles, formats of 2 bits like q2_K and of 6 bits like q6_K, codes of 1 and 2
 * bits without integer scales (bits), codes of base 3 (trits), codes that are entries of a grid (grid) or levels (levels), f32 scales for 16 weights (nvfp4).
 */
import { ACT_16XN, ACT_64, ACT_I8, ACT_K, ACT_PAIR_ORDER, ACT_SIGNS, TYPE_ACT } from './act';
import { I16_CODES } from './dot_signed';
import * as fmt from './format/format';
import { GRID_I16 } from './format/grid';
import { HAS_PAIR_DOT, HAS_RELAXED_DOT } from '../simd';

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
export const GEMV_16X1_BITS: i32 = 11;
export const GEMM_8X4_BITS: i32 = 12;
export const GEMV_16X1_GRID: i32 = 13;
export const GEMV_16X1_TRITS: i32 = 14;
export const GEMV_16X1_NVFP4: i32 = 15;
export const GEMV_16X1_LEVELS: i32 = 16;
export const GEMM_8X4_GRID: i32 = 17;

/** For one column. */
// @ts-ignore: decorator
@inline
export function column_loop<F>(): i32 {
  if (fmt.grid<F>()) return GEMV_16X1_GRID;
  if (fmt.levels<F>()) return GEMV_16X1_LEVELS;
  if (fmt.trits<F>()) return GEMV_16X1_TRITS;
  if (fmt.few_bits<F>()) return GEMV_16X1_BITS;
  if (fmt.f32_scales<F>()) return GEMV_16X1_NVFP4;
  if (fmt.eight_bits<F>()) return HAS_RELAXED_DOT ? GEMV_16X1_SIGNS : GEMV_16X1;
  if (!fmt.s16<F>()) return GEMV_16X1;
  if (fmt.width<F>() > 4) return GEMV_16X1_Q6_K;
  return fmt.width<F>() == 2 && HAS_PAIR_DOT ? GEMV_16X1_Q2_K : GEMV_16X1_S16;
}

/** For four columns over a panel. */
// @ts-ignore: decorator
@inline
export function tile_loop<F>(): i32 {
  if (fmt.of_grid<F>()) return GRID_I16 ? GEMM_8X4_I16 : HAS_PAIR_DOT ? GEMM_8X4_GRID : GEMM_8X4;
  if (fmt.few_bits<F>()) return GEMM_8X4_BITS;
  if (!fmt.eight_bits<F>()) return GEMM_8X4;
  return I16_CODES ? GEMM_8X4_I16 : GEMM_8X4_NIBBLES;
}

/**
 * Whether a format takes gemm_16xn for few columns. It costs 1.5 KB of code for each, so only formats with the facts of q4_0, q4_K and q5_K do, in which
 * most models are. The simd build has too few registers for its 16-bit codes.
 */
// @ts-ignore: decorator
@inline
export function takes_16xn<F>(): bool {
  if (!HAS_RELAXED_DOT || fmt.of_grid<F>() || fmt.eight_bits<F>() || fmt.s16<F>() || fmt.few_bits<F>()) return false;
  return fmt.super_block<F>() || (fmt.width<F>() == 4 && !fmt.has_min<F>());
}

/** The type of activations (act.ts), which says how these loops read them. */
// @ts-ignore: decorator
@inline
export function act_type<F>(): u32 {
  if (fmt.f32_scales<F>()) return TYPE_ACT + ACT_64;
  const type: u32 = fmt.super_block<F>() ? TYPE_ACT + ACT_K : TYPE_ACT;
  if (fmt.levels<F>()) return HAS_PAIR_DOT ? type + ACT_SIGNS + ACT_I8 : type;
  if (fmt.grid<F>()) return type;
  if (fmt.few_bits<F>()) return type + ACT_64;
  if (takes_16xn<F>()) return type + ACT_16XN;
  if (column_loop<F>() == GEMV_16X1_SIGNS) return type + ACT_SIGNS;
  return column_loop<F>() == GEMV_16X1_Q2_K ? type + ACT_PAIR_ORDER : type;
}
