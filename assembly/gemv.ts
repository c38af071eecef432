/**
 * Generation spends its time here: start reading here. One activation row times 16 packed rows of any block format.
 * Weights stream once from memory in order; the quants of a block are shared by the four groups of rows.
 * (gemv_w16.ts is the loop of formats with a scale for every 16 weights, gemv_wide.ts of those with 8-bit codes.)
 *
 * For each output: acc = madd(float(isum), d_w * d_a, acc), run of 32 after run of 32, ascending (then the minimum's term, if any).
 * gemm.ts does the same operations in the same order, so a token's numbers do not depend on the batch it is in.
 */
import { ACT_BLOCK, ACT_D, ACT_DSUM, ACT_PAIRS0, ACT_PAIRS1 } from './act';
import { ACT_QUANT } from './dot';
import * as fmt from './packed/format';
import { G0, G1, G2, G3, store_sums } from './packed/group';
import { held_ones, madd } from './simd';

/** y[0..15] = 16 packed rows at w . the activation row at a; n blocks of format F, dots of flavour D. */
export function gemv<F, D>(w: usize, n: i32, a: usize, y: usize): void {
  const f = changetype<F>(0), dot = changetype<D>(0);
  const m = fmt.mask<F>(), m2 = fmt.mask2<F>(), ones = held_ones();
  let y0 = f32x4.splat(0), y1 = y0, y2 = y0, y3 = y0;
  for (; n > 0; n--) {
    const d0 = f.d<G0>(w), d1 = f.d<G1>(w), d2 = f.d<G2>(w), d3 = f.d<G3>(w);
    const e0 = fmt.dmin<F, G0>(w), e1 = fmt.dmin<F, G1>(w), e2 = fmt.dmin<F, G2>(w), e3 = fmt.dmin<F, G3>(w);
    let sub = 0;
    do {
      const h = fmt.high<F>(w, sub), end = a + ACT_BLOCK;
      const da = v128.load32_splat(a, ACT_D), dsum = v128.load32_splat(a, ACT_DSUM);
      const pair = i16x8.add(v128.load32_splat(a, ACT_PAIRS0), v128.load32_splat(a, ACT_PAIRS1));
      const start = dot.init(fmt.offset<F>(pair));
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
      let i0 = dot.sum(s0, ones), i1 = dot.sum(s1, ones), i2 = dot.sum(s2, ones), i3 = dot.sum(s3, ones);
      if (fmt.biased<F>()) {
        const back = i32x4.shl(i32x4.extadd_pairwise_i16x8_s(pair), 4);
        i0 = i32x4.sub(i0, back), i1 = i32x4.sub(i1, back), i2 = i32x4.sub(i2, back), i3 = i32x4.sub(i3, back);
      }
      const sc = fmt.sc<F>(w, sub);
      y0 = madd(f32x4.convert_i32x4_s(i0), f32x4.mul(fmt.factor<F, G0>(d0, sc), da), y0);
      y1 = madd(f32x4.convert_i32x4_s(i1), f32x4.mul(fmt.factor<F, G1>(d1, sc), da), y1);
      y2 = madd(f32x4.convert_i32x4_s(i2), f32x4.mul(fmt.factor<F, G2>(d2, sc), da), y2);
      y3 = madd(f32x4.convert_i32x4_s(i3), f32x4.mul(fmt.factor<F, G3>(d3, sc), da), y3);
      if (fmt.has_min<F>()) {
        const mn = fmt.mn<F>(w, sub);
        y0 = madd(fmt.factor<F, G0>(e0, mn), dsum, y0), y1 = madd(fmt.factor<F, G1>(e1, mn), dsum, y1);
        y2 = madd(fmt.factor<F, G2>(e2, mn), dsum, y2), y3 = madd(fmt.factor<F, G3>(e3, mn), dsum, y3);
      }
      a = end;
    } while (fmt.subs<F>() > 1 && ++sub < fmt.subs<F>());
    w += f.bytes();
  }
  store_sums(y, y0, y1, y2, y3);
}

/** One quad of group G onto its sums. */
// @ts-ignore: decorator
@inline
function quad<F, D, G>(s: v128, q: usize, b: v128, l0: v128, l1: v128, h0: v128, h1: v128, m: v128, m2: v128): v128 {
  const dot = changetype<D>(0), v = fmt.load_lo<F, G>(q);
  return dot.dot(dot.dot(s, l0, l1, fmt.lo<F>(v, b, m, m2)), h0, h1, fmt.hi<F>(fmt.load_hi<F, G>(q, v), b, m, m2));
}
