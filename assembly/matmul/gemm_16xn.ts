// Generated from assembly/templates/gemm_16xn.ts for ROWS = 8 by `npm run generate`: edit the template.
/**
 * A product of 2 to MOST_FEW columns of activations with packed weights: a step of several clients
 * spends its time here. These columns are too few to pay for a panel (gemm_8x4.ts). So the codes of
 * 8 rows x 16 weights are unpacked into 8 registers, and all columns run over them:
 *
 *   for 16 rows             | one sequential stream of weights, as in gemv_16x1.ts
 *     for a sub-block       |
 *       for 8 rows          | 2 groups share the loads of a column
 *         for 2 quads       | of both halves: four weight vectors of each group
 *           for each column | 8 dots; the first pass leaves its integer sums in L1,
 *                           | the second updates the f32 sums
 *
 * Each output takes the same operations in the same order as in gemv_16x1.ts and gemm_8x4.ts, so
 * its bits are the same. The limit is instructions per dot (see gemm_8x4.ts). Not kept: one group
 * at a time with all four quads in registers (slower); a panel for 8 columns (slower from memory,
 * equal from cache).
 */
import { MOST_FEW } from '../layout';
import { ACT_D, ACT_SUB } from './act';
import * as dot from './dot';
import { add_block, add_minima, add_scaled, end_block, lane_sums, start } from './epilogue';
import * as fmt from './format/format';
import { ACC, G0, G1, G2, G3 } from './format/group';
import { minima_of_group } from './format/k_scales';
import { splat_ones } from '../simd';

/** Bytes of one column's integer sums of 8 rows, kept between the passes. */
const PART: usize = 32;
/** Bytes of a sub-block's factors for 16 rows: d, or integer scales. */
const FACTORS: usize = 64;
/** Bytes of scratch: the columns' f32 sums, and after them the scratch that gemm_16xn takes. */
export const SCRATCH_16XN: usize = FACTORS + <usize>MOST_FEW * (ACC + PART + ACC);

/**
 * acc[column][0..15] += 16 packed rows at w . the columns of activations at a, `stride` bytes
 * apart; n blocks. acc: f32 sums, ACC bytes for each column. scratch:
 *
 *   | factors | integer sums between the passes, PART bytes for each column |
 *   | a super-block's integer sums, ACC bytes for each column |
 */
export function gemm_16xn<F>(w: usize, n: i32, a: usize, stride: usize, ncols: i32, acc: usize, scratch: usize): void {
  if (fmt.s16<F>() || fmt.eight_bits<F>() || (fmt.has_min<F>() && !fmt.super_block<F>()))
    ERROR('not for scales of 16 weights, 8-bit codes or f32 minima');
  const f = changetype<F>(0);
  const end = acc + <usize>ncols * ACC;
  const parts = scratch + FACTORS;
  const sums = parts + <usize>ncols * PART;
  for (; n > 0; n--) {
    if (fmt.super_block<F>()) memory.fill(sums, 0, <usize>ncols * ACC);
    for (let sub = 0; sub < fmt.subs<F>(); sub++) {
      const sc = fmt.sc<F>(w, sub);
      store_factors<F, G0>(w, sc, scratch + 0);
      store_factors<F, G1>(w, sc, scratch + 16);
      store_factors<F, G2>(w, sc, scratch + 32);
      store_factors<F, G3>(w, sc, scratch + 48);
      const q = f.codes_at(w, sub);
      const h = fmt.rests_at<F>(w, sub);
      for (let g: usize = 0; g < 64; g += 32) {
        first_pass<F>(q + g, h + g, a, stride, acc + g, end, parts);
        second_pass<F>(q + g, h + g, a, stride, acc + g, end, parts, scratch + g, sums - acc);
      }
      a += ACT_SUB;
    }
    if (fmt.super_block<F>()) end_super_block<F>(w, a - 8 * ACT_SUB, stride, acc, end, sums);
    w += f.bytes();
  }
}

/**
 * Ends the super-block at w, column after column: adds the integer sums at `sums` to the f32 sums
 * at y. a: its activations.
 */
function end_super_block<F>(w: usize, a: usize, stride: usize, y: usize, end: usize, sums: usize): void {
  const zero = i32x4.splat(0);
  for (; y < end; y += ACC, a += stride, sums += ACC) {
    let n0 = zero;
    let n1 = zero;
    let n2 = zero;
    let n3 = zero;
    let p = a + ACT_SUB + ACT_D;
    for (let i = 0; i < 8; i += 2) {
      const x = v128.load32_splat(p);
      const v = fmt.mn<F>(w, i);
      const z = fmt.mn<F>(w, i + 1);
      n0 = add_minima(n0, minima_of_group<G0>(v), x);
      n1 = add_minima(n1, minima_of_group<G1>(v), x);
      n2 = add_minima(n2, minima_of_group<G2>(z), x);
      n3 = add_minima(n3, minima_of_group<G3>(z), x);
      p += 2 * ACT_SUB;
    }
    const da = v128.load32_splat(a, ACT_D);
    v128.store(y, end_block<F, G0>(v128.load(y, 0), v128.load(sums, 0), n0, w, da), 0);
    v128.store(y, end_block<F, G1>(v128.load(y, 16), v128.load(sums, 16), n1, w, da), 16);
    v128.store(y, end_block<F, G2>(v128.load(y, 32), v128.load(sums, 32), n2, w, da), 32);
    v128.store(y, end_block<F, G3>(v128.load(y, 48), v128.load(sums, 48), n3, w, da), 48);
  }
}

/**
 * Stores at `part`, column after column, the integer sums of quads 0 and 1 of both halves for
 * 8 rows. q, h: codes and rests (format.ts) of the first group.
 */
@inline
function first_pass<F>(q: usize, h: usize, a: usize, stride: usize, y: usize, end: usize, part: usize): void {
  const m = fmt.mask<F>();
  const m2 = fmt.mask2<F>();
  const next = q + fmt.quad_bytes<F>();
  const w00 = first<F, G0>(q, 0, m, m2);
  const w01 = first<F, G0>(next, 1, m, m2);
  const w02 = second<F, G0>(q, h, 0, m, m2);
  const w03 = second<F, G0>(next, h, 1, m, m2);
  const w10 = first<F, G1>(q, 0, m, m2);
  const w11 = first<F, G1>(next, 1, m, m2);
  const w12 = second<F, G1>(q, h, 0, m, m2);
  const w13 = second<F, G1>(next, h, 1, m, m2);
  for (; y < end; y += ACC, a += stride, part += PART) {
    let s0 = start<F>(lane_sums<F>(a));
    let s1 = s0;
    let k: v128;
    k = v128.load32_splat(a, 0);
    s0 = dot.mac(s0, k, w00);
    s1 = dot.mac(s1, k, w10);
    k = v128.load32_splat(a, 4);
    s0 = dot.mac(s0, k, w01);
    s1 = dot.mac(s1, k, w11);
    k = v128.load32_splat(a, 16);
    s0 = dot.mac(s0, k, w02);
    s1 = dot.mac(s1, k, w12);
    k = v128.load32_splat(a, 20);
    s0 = dot.mac(s0, k, w03);
    s1 = dot.mac(s1, k, w13);
    v128.store(part, s0, 0);
    v128.store(part, s1, 16);
  }
}

/**
 * Adds quads 2 and 3 to the sums at `part`, then the sub-block's sums to the f32 sums
 * (gemv_16x1.ts). In super-blocks, adds them to the integer sums instead, whose distance from y is
 * the last argument.
 */
@inline
function second_pass<F>(
  q: usize,
  h: usize,
  a: usize,
  stride: usize,
  y: usize,
  end: usize,
  part: usize,
  factors: usize,
  behind: usize,
): void {
  const m = fmt.mask<F>();
  const m2 = fmt.mask2<F>();
  const ones = splat_ones();
  q += 2 * fmt.quad_bytes<F>();
  const next = q + fmt.quad_bytes<F>();
  const w00 = first<F, G0>(q, 2, m, m2);
  const w01 = first<F, G0>(next, 3, m, m2);
  const w02 = second<F, G0>(q, h, 2, m, m2);
  const w03 = second<F, G0>(next, h, 3, m, m2);
  const w10 = first<F, G1>(q, 2, m, m2);
  const w11 = first<F, G1>(next, 3, m, m2);
  const w12 = second<F, G1>(q, h, 2, m, m2);
  const w13 = second<F, G1>(next, h, 3, m, m2);
  for (; y < end; y += ACC, a += stride, part += PART) {
    let s0 = v128.load(part, 0);
    let s1 = v128.load(part, 16);
    let k: v128;
    k = v128.load32_splat(a, 8);
    s0 = dot.mac(s0, k, w00);
    s1 = dot.mac(s1, k, w10);
    k = v128.load32_splat(a, 12);
    s0 = dot.mac(s0, k, w01);
    s1 = dot.mac(s1, k, w11);
    k = v128.load32_splat(a, 24);
    s0 = dot.mac(s0, k, w02);
    s1 = dot.mac(s1, k, w12);
    k = v128.load32_splat(a, 28);
    s0 = dot.mac(s0, k, w03);
    s1 = dot.mac(s1, k, w13);
    if (fmt.super_block<F>()) {
      const p = y + behind;
      const from = fmt.biased<F>() ? start<F>(lane_sums<F>(a)) : ones;
      s0 = add_scaled<F>(v128.load(p, 0), s0, from, v128.load(factors, 0));
      s1 = add_scaled<F>(v128.load(p, 16), s1, from, v128.load(factors, 16));
      v128.store(p, s0, 0);
      v128.store(p, s1, 16);
      continue;
    }
    s0 = dot.row_sums(s0, ones);
    s1 = dot.row_sums(s1, ones);
    const da = v128.load32_splat(a, ACT_D);
    const y0 = add_block<F>(v128.load(y, 0), s0, v128.load(factors, 0), da);
    const y1 = add_block<F>(v128.load(y, 16), s1, v128.load(factors, 16), da);
    v128.store(y, y0, 0);
    v128.store(y, y1, 16);
  }
}

/** Codes of quad t of the first half for group G; q: address of the quad. */
@inline
function first<F, G>(q: usize, t: i32, m: v128, m2: v128): v128 {
  return fmt.first<F>(fmt.load_first<F, G>(q, t), m, m2);
}

/** Codes of quad t of the second half for group G; h: fmt.rests_at. */
@inline
function second<F, G>(q: usize, h: usize, t: i32, m: v128, m2: v128): v128 {
  return fmt.second<F>(fmt.load_second<F, G>(q, t, fmt.load_first<F, G>(q, t)), fmt.rests<F, G>(h, t), m, m2);
}

/** Stores the factors of group G's rows in a sub-block at p. sc: the sub-block's scales. */
@inline
function store_factors<F, G>(w: usize, sc: v128, p: usize): void {
  v128.store(p, fmt.super_block<F>() ? fmt.scale<F, G>(sc) : fmt.d<F, G>(w));
}
