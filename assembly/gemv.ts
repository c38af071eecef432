/**
 * Generation spends its time here: start reading here. One activation row times 16 packed rows of any block format.
 * Weights stream once from memory in order; the quants of a block are shared by the four groups of rows.
 * (gemv_w16.ts is the loop of formats with a scale for every 16 weights, gemv_wide.ts of those with 8-bit codes.)
 *
 * For each output: one step of f32 a block, ascending (add_block, or add_block_min, in packed/format.ts), of the integer sum of 32 products or of a
 * super-block's 256. gemm.ts does the same operations in the same order, so a token's numbers do not depend on the batch it is in.
 */
import { ACT_BLOCK, ACT_D, ACT_PAIRS0, ACT_PAIRS1, ACT_SUM } from './act';
import { ACT_QUANT } from './dot';
import * as fmt from './packed/format';
import { G0, G1, G2, G3, store_sums } from './packed/group';
import { k_min } from './packed/k_scales';
import { held_ones } from './simd';

/** y[0..15] = 16 packed rows at w . the activation row at a; n blocks of format F, dots of flavour D. */
export function gemv_16x1<F, D>(w: usize, n: i32, a: usize, y: usize): void {
  const f = changetype<F>(0), dot = changetype<D>(0);
  const m = fmt.mask<F>(), m2 = fmt.mask2<F>(), ones = held_ones(), zero = i32x4.splat(0);
  let y0 = f32x4.splat(0), y1 = y0, y2 = y0, y3 = y0;
  for (; n > 0; n--) {
    const block = a;
    let sub = 0, i0 = zero, i1 = zero, i2 = zero, i3 = zero;
    do {
      const h = fmt.high<F>(w, sub), end = a + ACT_BLOCK;
      const pair = i16x8.add(v128.load32_splat(a, ACT_PAIRS0), v128.load32_splat(a, ACT_PAIRS1));
      // 8-bit codes come here + 128 (packed/wide.ts), and where sums are i32.
      const start = fmt.wide<F>() ? i32x4.shl(dot.init(pair), 7) : dot.init(fmt.offset<F>(pair));
      let s0 = start, s1 = start, s2 = start, s3 = start;
      let b0 = fmt.bits<F, G0>(h, 0), b1 = fmt.bits<F, G1>(h, 0), b2 = fmt.bits<F, G2>(h, 0), b3 = fmt.bits<F, G3>(h, 0);
      let q = f.quads(w, sub);
      for (let t = 0; t < 4; t++) {
        const l0 = dot.a0(a), l1 = dot.a1(a, l0), h0 = dot.a0(a + 16 * ACT_QUANT), h1 = dot.a1(a + 16 * ACT_QUANT, h0);
        s0 = quad<F, D, G0>(s0, q, b0, l0, l1, h0, h1, m, m2), b0 = fmt.next_bits<F>(b0);
        s1 = quad<F, D, G1>(s1, q, b1, l0, l1, h0, h1, m, m2), b1 = fmt.next_bits<F>(b1);
        s2 = quad<F, D, G2>(s2, q, b2, l0, l1, h0, h1, m, m2), b2 = fmt.next_bits<F>(b2);
        s3 = quad<F, D, G3>(s3, q, b3, l0, l1, h0, h1, m, m2), b3 = fmt.next_bits<F>(b3);
        q += fmt.quad_bytes<F>();
        a += 4 * ACT_QUANT;
      }
      a = end;
      const sc = fmt.sc<F>(w, sub);
      if (fmt.super_block<F>()) {
        i0 = add_scaled<F, D, G0>(i0, s0, start, sc), i1 = add_scaled<F, D, G1>(i1, s1, start, sc);
        i2 = add_scaled<F, D, G2>(i2, s2, start, sc), i3 = add_scaled<F, D, G3>(i3, s3, start, sc);
      } else {
        i0 = dot.sum(s0, ones), i1 = dot.sum(s1, ones), i2 = dot.sum(s2, ones), i3 = dot.sum(s3, ones);
        if (fmt.biased<F>()) {
          const back = i32x4.shl(i32x4.extadd_pairwise_i16x8_s(pair), 4);
          i0 = i32x4.sub(i0, back), i1 = i32x4.sub(i1, back), i2 = i32x4.sub(i2, back), i3 = i32x4.sub(i3, back);
        }
      }
    } while (fmt.super_block<F>() && ++sub < fmt.subs<F>());
    const da = v128.load32_splat(block, ACT_D);
    if (!fmt.has_min<F>()) {
      y0 = fmt.add_block<F>(y0, i0, fmt.block_d<F, G0>(w), da), y1 = fmt.add_block<F>(y1, i1, fmt.block_d<F, G1>(w), da);
      y2 = fmt.add_block<F>(y2, i2, fmt.block_d<F, G2>(w), da), y3 = fmt.add_block<F>(y3, i3, fmt.block_d<F, G3>(w), da);
    } else if (fmt.super_block<F>()) {
      let n0 = zero, n1 = zero, n2 = zero, n3 = zero;
      sub = 0;
      for (let p = block + ACT_BLOCK + ACT_D; sub < 8; p += 2 * ACT_BLOCK) {
        const sums = v128.load32_splat(p), v = fmt.mn<F>(w, sub), z = fmt.mn<F>(w, sub + 1);
        n0 = i32x4.add(n0, i32x4.dot_i16x8_s(k_min<G0>(v), sums)), n1 = i32x4.add(n1, i32x4.dot_i16x8_s(k_min<G1>(v), sums));
        n2 = i32x4.add(n2, i32x4.dot_i16x8_s(k_min<G2>(z), sums)), n3 = i32x4.add(n3, i32x4.dot_i16x8_s(k_min<G3>(z), sums));
        sub += 2;
      }
      y0 = fmt.add_super_block<F, G0>(y0, i0, n0, w, da), y1 = fmt.add_super_block<F, G1>(y1, i1, n1, w, da);
      y2 = fmt.add_super_block<F, G2>(y2, i2, n2, w, da), y3 = fmt.add_super_block<F, G3>(y3, i3, n3, w, da);
    } else {
      const sum = v128.load32_splat(block, ACT_SUM);
      y0 = fmt.add_block_min(y0, i0, f.d<G0>(w), sum, fmt.dmin<F, G0>(w), da), y1 = fmt.add_block_min(y1, i1, f.d<G1>(w), sum, fmt.dmin<F, G1>(w), da);
      y2 = fmt.add_block_min(y2, i2, f.d<G2>(w), sum, fmt.dmin<F, G2>(w), da), y3 = fmt.add_block_min(y3, i3, f.d<G3>(w), sum, fmt.dmin<F, G3>(w), da);
    }
    w += f.bytes();
  }
  store_sums(y, y0, y1, y2, y3);
}

/** A run's sums s times its scales onto i. start: what they began at, which the formats that say `biased` get back. */
// @ts-ignore: decorator
@inline
function add_scaled<F, D, G>(i: v128, s: v128, start: v128, sc: v128): v128 {
  const dot = changetype<D>(0), factors = fmt.scale<F, G>(sc);
  i = i32x4.add(i, dot.scaled(s, factors));
  return fmt.biased<F>() ? i32x4.sub(i, dot.scaled(start, factors)) : i;
}

/** One quad of group G onto its sums. */
// @ts-ignore: decorator
@inline
function quad<F, D, G>(s: v128, q: usize, b: v128, l0: v128, l1: v128, h0: v128, h1: v128, m: v128, m2: v128): v128 {
  const dot = changetype<D>(0), v = fmt.load_lo<F, G>(q);
  return dot.dot(dot.dot(s, l0, l1, fmt.lo<F>(v, b, m, m2)), h0, h1, fmt.hi<F>(fmt.load_hi<F, G>(q, v), b, m, m2));
}
