/**
 * Code of all loops around their dots: the start value of a sub-block's integer sums, how these
 * join the sums of a super-block, and the end of a block, which adds its integer sum to the f32
 * sum. Every loop calls these functions in the same order, so an output has the same bits in every
 * loop.
 *
 * i: integer sums of 4 rows of a group; y: their f32 sums; da: the activations' scale d. Loops over
 * a panel have a tile of rows x columns, named i<group of rows><column>.
 */
import { ACT_LANE_SUMS0, ACT_LANE_SUMS1 } from './act';
import * as dot from './dot';
import * as fmt from './format/format';
import { madd, splat_ones } from '../simd';

// ---- Integer sums ----

/**
 * Lane sums of the 32 quants of one column's sub-block at a, in every i32 lane; 0 if `start` does
 * not need them.
 */
@inline
export function lane_sums<F>(a: usize): v128 {
  if (fmt.taken_off<F>() == 0 && !fmt.eight_bits<F>()) return i32x4.splat(0);
  return i16x8.add(v128.load32_splat(a, ACT_LANE_SUMS0), v128.load32_splat(a, ACT_LANE_SUMS1));
}

/**
 * Start value of sums (dot.ts), from lane sums. The loops that call this get 8-bit codes as code +
 * 128 (dot_signed.ts), with i32 sums. Codes of 7 bits have i32 sums as well: i16 has no room for
 * their `taken_off`.
 */
@inline
export function start<F>(lanes: v128): v128 {
  if (fmt.eight_bits<F>()) return i32x4.shl(dot.start_at(lanes), 7);
  if (fmt.width<F>() == 7) return i32x4.shl(dot.start_at(lanes), ctz(fmt.taken_off<F>()));
  return fmt.taken_off<F>() == 0 ? i32x4.splat(0) : dot.start_at(fmt.offset<F>(lanes));
}

/**
 * Super-blocks: adds sums s times their rows' scales to i. With f32_scales, i is f32. first: the
 * start value of s, which `biased` formats (their centre is 0) get back.
 */
@inline
export function add_scaled<F>(i: v128, s: v128, first: v128, scale: v128): v128 {
  if (fmt.f32_scales<F>()) return madd(f32x4.convert_i32x4_s(dot.row_sums(s, splat_ones())), scale, i);
  i = i32x4.add(i, dot.scaled(s, scale));
  return fmt.biased<F>() ? i32x4.sub(i, dot.scaled(first, scale)) : i;
}

/**
 * As add_scaled, for i32 sums and scales. In blocks of 32, which have no scales, the result is s.
 */
@inline
export function add_scaled_i32<F>(i: v128, s: v128, scale: v128): v128 {
  return fmt.super_block<F>() ? i32x4.add(i, i32x4.mul(s, scale)) : s;
}

/**
 * Blocks of 32: the amount that `biased` formats have added to their sums at the start, from lane
 * sums, as i32 for `unbiased`.
 */
@inline
export function bias<F>(lanes: v128): v128 {
  return fmt.biased<F>() ? i32x4.shl(i32x4.extadd_pairwise_i16x8_s(lanes), ctz(fmt.taken_off<F>())) : i32x4.splat(0);
}

/** i without that amount. */
@inline
export function unbiased<F>(i: v128, excess: v128): v128 {
  return fmt.biased<F>() ? i32x4.sub(i, excess) : i;
}

/** Adds minima (i16) times the sums of two sub-blocks or two halves of activations to n. */
@inline
export function add_minima(n: v128, minima: v128, sums: v128): v128 {
  return i32x4.add(n, i32x4.dot_i16x8_s(minima, sums));
}

// ---- The end of a block ----

/**
 * Ends a block without minima: adds i * d * da to y. In blocks of 32 both scales are multiplied
 * first, while the sums are computed, which is faster.
 */
@inline
export function add_block<F>(y: v128, i: v128, d: v128, da: v128): v128 {
  if (fmt.f32_scales<F>()) return madd(i, da, y);
  if (!fmt.super_block<F>()) return madd(f32x4.convert_i32x4_s(i), f32x4.mul(d, da), y);
  return madd(f32x4.mul(f32x4.convert_i32x4_s(i), d), da, y); // d stays a normal number when it scales i; d * da might become subnormal
}

/**
 * Ends a block with minima: adds (i * d + sum * dmin) * da to y. sum: of the activations, or in
 * super-blocks of minima times activations. Both parts are added before the activations' scale:
 * they are far from the limits of f32, so nothing overflows unless the block's part of the result
 * does.
 */
@inline
export function add_block_min(y: v128, i: v128, d: v128, sum: v128, dmin: v128, da: v128): v128 {
  return madd(madd(f32x4.convert_i32x4_s(i), d, f32x4.mul(sum, dmin)), da, y);
}

/**
 * Ends the block at w for group G. n: with minima, the result of add_minima; in blocks of 32 the
 * f32 sum of the activations.
 */
@inline
export function end_block<F, G>(y: v128, i: v128, n: v128, w: usize, da: v128): v128 {
  if (!fmt.has_min<F>()) return add_block<F>(y, i, fmt.block_d<F, G>(w), da);
  return add_block_min(y, i, fmt.block_d<F, G>(w), fmt.super_block<F>() ? f32x4.convert_i32x4_s(n) : n, fmt.block_dmin<F, G>(w), da);
}

/**
 * As end_block, over a panel, whose d and minima are f32 in memory. n: as for end_block, but f32; m:
 * dmin.
 */
@inline
export function end_panel_block<F>(y: v128, i: v128, d: v128, n: v128, m: v128, da: v128): v128 {
  return fmt.has_min<F>() ? add_block_min(y, i, d, n, m, da) : add_block<F>(y, i, d, da);
}
