/**
 * Code of all loops around their dots: the start value of a sub-block's integer sums, how these
 * join the sums of a super-block, and the end of a block, which adds its integer sum to the f32
 * sum. Every loop calls these functions in the same order, so an output has the same bits in every
 * loop.
 *
 * i: integer sums of 4 rows of a group; y: their f32 sums; da: the activations' scale d. Loops over
 * a panel have 8 rows x 4 columns, named i<row group><column>.
 */
import { ACT_LANE_SUMS0, ACT_LANE_SUMS1 } from './act';
import { COLS_REST, cols_sub, scales, splat, sums_pair } from './columns';
import * as dot from './dot';
import * as fmt from './format/format';
import { ACC, G0, G1, G2, G3 } from './format/group';
import { minima_bytes } from './panel_size';
import { held_ones, madd } from '../simd';

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
  if (fmt.f32_scales<F>()) return madd(f32x4.convert_i32x4_s(dot.row_sums(s, held_ones())), scale, i);
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

// ---- The same over a panel, whose d and minima are f32 in memory. The two stores of a column are
// adjacent, so that V8's revectoriser joins them. ----

/** Ends a block without minima for column C (G0..G3): 8 rows' sums at acc. */
@inline
export function end_column<F, C>(acc: usize, da: v128, i0: v128, d0: v128, i1: v128, d1: v128): void {
  const y0 = add_block<F>(v128.load(acc, (ACC / 16) * offsetof<C>()), i0, d0, da);
  const y1 = add_block<F>(v128.load(acc, (ACC / 16) * offsetof<C>() + 16), i1, d1, da);
  v128.store(acc, y0, (ACC / 16) * offsetof<C>());
  v128.store(acc, y1, (ACC / 16) * offsetof<C>() + 16);
}

/** Ends any block for column C. n0, n1: as for end_block, but f32; m0, m1: dmin. */
@inline
export function end_column_min<F, C>(
  acc: usize,
  da: v128,
  i0: v128,
  d0: v128,
  n0: v128,
  m0: v128,
  i1: v128,
  d1: v128,
  n1: v128,
  m1: v128,
): void {
  if (!fmt.has_min<F>()) return end_column<F, C>(acc, da, i0, d0, i1, d1);
  const y0 = add_block_min(v128.load(acc, (ACC / 16) * offsetof<C>()), i0, d0, n0, m0, da);
  const y1 = add_block_min(v128.load(acc, (ACC / 16) * offsetof<C>() + 16), i1, d1, n1, m1, da);
  v128.store(acc, y0, (ACC / 16) * offsetof<C>());
  v128.store(acc, y1, (ACC / 16) * offsetof<C>() + 16);
}

/**
 * Ends a super-block for four columns: d (and dmin) lie at w, minima before w, activations before
 * a. (Inlined: V8's revectoriser crashes the process if vectors that it joined are arguments of a
 * call.)
 */
@inline
export function end_super_block<F>(
  w: usize,
  a: usize,
  acc: usize,
  i00: v128,
  i10: v128,
  i01: v128,
  i11: v128,
  i02: v128,
  i12: v128,
  i03: v128,
  i13: v128,
): void {
  const zero = i32x4.splat(0);
  let n00 = zero;
  let n10 = zero;
  let n01 = zero;
  let n11 = zero;
  let n02 = zero;
  let n12 = zero;
  let n03 = zero;
  let n13 = zero;
  if (fmt.has_min<F>()) {
    const step = fmt.s16<F>() ? cols_sub<F>() : cols_sub<F>() << 1;
    let p = a - 8 * cols_sub<F>() + step - COLS_REST;
    for (let m = w - minima_bytes<F>(); m != w; m += 32) {
      const v = v128.load(m);
      const z = v128.load(m, 16);
      const sums = sums_pair<F>(p);
      let x = splat<G0>(sums);
      n00 = add_minima(n00, v, x);
      n10 = add_minima(n10, z, x);
      x = splat<G1>(sums);
      n01 = add_minima(n01, v, x);
      n11 = add_minima(n11, z, x);
      x = splat<G2>(sums);
      n02 = add_minima(n02, v, x);
      n12 = add_minima(n12, z, x);
      x = splat<G3>(sums);
      n03 = add_minima(n03, v, x);
      n13 = add_minima(n13, z, x);
      p += step;
    }
  }
  const d0 = v128.load(w);
  const d1 = v128.load(w, 16);
  const m0 = fmt.has_min<F>() ? v128.load(w, 32) : zero;
  const m1 = fmt.has_min<F>() ? v128.load(w, 48) : zero;
  const da = scales(a - cols_sub<F>() - COLS_REST);
  end_column_min<F, G0>(acc, splat<G0>(da), i00, d0, f32x4.convert_i32x4_s(n00), m0, i10, d1, f32x4.convert_i32x4_s(n10), m1);
  end_column_min<F, G1>(acc, splat<G1>(da), i01, d0, f32x4.convert_i32x4_s(n01), m0, i11, d1, f32x4.convert_i32x4_s(n11), m1);
  end_column_min<F, G2>(acc, splat<G2>(da), i02, d0, f32x4.convert_i32x4_s(n02), m0, i12, d1, f32x4.convert_i32x4_s(n12), m1);
  end_column_min<F, G3>(acc, splat<G3>(da), i03, d0, f32x4.convert_i32x4_s(n03), m0, i13, d1, f32x4.convert_i32x4_s(n13), m1);
}
