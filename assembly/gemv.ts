/**
 * Generation spends its time here: start reading here. One activation row times 16 packed rows of any block format.
 * Weights stream once from memory in order; the quants of a block are shared by the four groups of rows.
 *
 * For each output: acc = madd(float(isum), d_w * d_a, acc), run of 32 after run of 32, ascending (then the minimum's term, if any).
 * gemm.ts does the same operations in the same order, so a token's numbers do not depend on the batch it is in.
 */
import { ACT_BLOCK, ACT_D, ACT_DSUM, ACT_PAIRS0, ACT_PAIRS1 } from './act';
import { ACT_QUANT } from './dot';
import * as fmt from './packed/format';
import { G0, G1, G2, G3, factor, group_i8, low_nibbles } from './packed/group';
import { held_ones, madd } from './simd';

/** y[0..15] = 16 packed rows at w . the activation row at a; n blocks of format F, dots of flavour D. */
export function gemv<F, D>(w: usize, n: i32, a: usize, y: usize): void {
  const f = changetype<F>(0), dot = changetype<D>(0);
  const m = fmt.mask<F>(), m2 = fmt.mask2<F>(), low = low_nibbles(), ones = held_ones(), zero = i32x4.splat(0);
  const halves = fmt.w16<F>() ? 2 : 1;
  const part: usize = (fmt.w16<F>() ? 8 : 16) * ACT_QUANT;
  let y0 = f32x4.splat(0), y1 = y0, y2 = y0, y3 = y0;
  for (; n > 0; n--) {
    const d0 = f.d<G0>(w), d1 = f.d<G1>(w), d2 = f.d<G2>(w), d3 = f.d<G3>(w);
    const e0 = fmt.dmin<F, G0>(w), e1 = fmt.dmin<F, G1>(w), e2 = fmt.dmin<F, G2>(w), e3 = fmt.dmin<F, G3>(w);
    for (let sub = 0; sub < fmt.subs<F>(); sub++) {
      const h = fmt.high<F>(w, sub), end = a + ACT_BLOCK;
      const pair0 = v128.load32_splat(a, ACT_PAIRS0), pair1 = v128.load32_splat(a, ACT_PAIRS1);
      const da = v128.load32_splat(a, ACT_D), dsum = v128.load32_splat(a, ACT_DSUM);
      let q = f.quads(w, sub);
      let i0 = zero, i1 = zero, i2 = zero, i3 = zero;
      for (let half = 0; half < halves; half++) {
        const pair = fmt.w16<F>() ? half ? pair1 : pair0 : i16x8.add(pair0, pair1);
        const start = fmt.wide<F>() ? zero : dot.init(fmt.offset<F>(pair));
        let s0 = start, s1 = start, s2 = start, s3 = start;
        let u0 = zero, u1 = zero, u2 = zero, u3 = zero; // high nibbles of 8-bit codes
        if (fmt.w16<F>()) {
          // Both quads of 16 weights at once: their shifts are constants then (a variable one is three instructions).
          let l0 = dot.a0(a), l1 = dot.a1(a, l0), h0 = dot.a0(a + part), h1 = dot.a1(a + part, h0);
          s0 = quad<F, D, G0>(s0, q, h, half, 0, l0, l1, h0, h1, m, m2);
          s1 = quad<F, D, G1>(s1, q, h, half, 0, l0, l1, h0, h1, m, m2);
          s2 = quad<F, D, G2>(s2, q, h, half, 0, l0, l1, h0, h1, m, m2);
          s3 = quad<F, D, G3>(s3, q, h, half, 0, l0, l1, h0, h1, m, m2);
          q += fmt.quad_bytes<F>();
          a += 4 * ACT_QUANT;
          l0 = dot.a0(a), l1 = dot.a1(a, l0), h0 = dot.a0(a + part), h1 = dot.a1(a + part, h0);
          s0 = quad<F, D, G0>(s0, q, h, half, 1, l0, l1, h0, h1, m, m2);
          s1 = quad<F, D, G1>(s1, q, h, half, 1, l0, l1, h0, h1, m, m2);
          s2 = quad<F, D, G2>(s2, q, h, half, 1, l0, l1, h0, h1, m, m2);
          s3 = quad<F, D, G3>(s3, q, h, half, 1, l0, l1, h0, h1, m, m2);
          q += fmt.quad_bytes<F>();
          a += 12 * ACT_QUANT;
        } else {
          for (let t = 0; t < 4; t++) {
            const l0 = dot.a0(a), l1 = dot.a1(a, l0), h0 = dot.a0(a + part), h1 = dot.a1(a + part, h0);
            if (fmt.wide<F>()) {
              let v = fmt.load_lo<F, G0>(q, 0, t), lo = fmt.lo<F>(v, zero, m, m2), hi = fmt.hi<F>(fmt.load_hi<F, G0>(q, v), zero, m, m2);
              s0 = dot.dot_low(dot.dot_low(s0, l0, l1, lo, low), h0, h1, hi, low);
              u0 = dot.dot_high(dot.dot_high(u0, l0, l1, lo, low), h0, h1, hi, low);
              v = fmt.load_lo<F, G1>(q, 0, t), lo = fmt.lo<F>(v, zero, m, m2), hi = fmt.hi<F>(fmt.load_hi<F, G1>(q, v), zero, m, m2);
              s1 = dot.dot_low(dot.dot_low(s1, l0, l1, lo, low), h0, h1, hi, low);
              u1 = dot.dot_high(dot.dot_high(u1, l0, l1, lo, low), h0, h1, hi, low);
              v = fmt.load_lo<F, G2>(q, 0, t), lo = fmt.lo<F>(v, zero, m, m2), hi = fmt.hi<F>(fmt.load_hi<F, G2>(q, v), zero, m, m2);
              s2 = dot.dot_low(dot.dot_low(s2, l0, l1, lo, low), h0, h1, hi, low);
              u2 = dot.dot_high(dot.dot_high(u2, l0, l1, lo, low), h0, h1, hi, low);
              v = fmt.load_lo<F, G3>(q, 0, t), lo = fmt.lo<F>(v, zero, m, m2), hi = fmt.hi<F>(fmt.load_hi<F, G3>(q, v), zero, m, m2);
              s3 = dot.dot_low(dot.dot_low(s3, l0, l1, lo, low), h0, h1, hi, low);
              u3 = dot.dot_high(dot.dot_high(u3, l0, l1, lo, low), h0, h1, hi, low);
            } else {
              s0 = quad<F, D, G0>(s0, q, h, 0, t, l0, l1, h0, h1, m, m2);
              s1 = quad<F, D, G1>(s1, q, h, 0, t, l0, l1, h0, h1, m, m2);
              s2 = quad<F, D, G2>(s2, q, h, 0, t, l0, l1, h0, h1, m, m2);
              s3 = quad<F, D, G3>(s3, q, h, 0, t, l0, l1, h0, h1, m, m2);
            }
            q += fmt.quad_bytes<F>();
            a += 4 * ACT_QUANT;
          }
        }
        if (fmt.w16<F>()) {
          const sc = fmt.sc<F>(w, (sub << 1) + half);
          i0 = i32x4.add(i0, dot.scaled(s0, dot.scale(group_i8<G0>(sc))));
          i1 = i32x4.add(i1, dot.scaled(s1, dot.scale(group_i8<G1>(sc))));
          i2 = i32x4.add(i2, dot.scaled(s2, dot.scale(group_i8<G2>(sc))));
          i3 = i32x4.add(i3, dot.scaled(s3, dot.scale(group_i8<G3>(sc))));
        } else if (fmt.wide<F>()) {
          i0 = dot.sum_wide(s0, u0, pair), i1 = dot.sum_wide(s1, u1, pair), i2 = dot.sum_wide(s2, u2, pair), i3 = dot.sum_wide(s3, u3, pair);
        } else {
          i0 = dot.sum(s0, ones), i1 = dot.sum(s1, ones), i2 = dot.sum(s2, ones), i3 = dot.sum(s3, ones);
          if (fmt.biased<F>()) {
            const back = i32x4.shl(i32x4.extadd_pairwise_i16x8_s(pair), 4);
            i0 = i32x4.sub(i0, back), i1 = i32x4.sub(i1, back), i2 = i32x4.sub(i2, back), i3 = i32x4.sub(i3, back);
          }
        }
      }
      let x0 = d0, x1 = d1, x2 = d2, x3 = d3;
      if (fmt.has_sc<F>() && !fmt.w16<F>()) {
        const sc = fmt.sc<F>(w, sub);
        x0 = factor<G0>(d0, sc), x1 = factor<G1>(d1, sc), x2 = factor<G2>(d2, sc), x3 = factor<G3>(d3, sc);
      }
      y0 = madd(f32x4.convert_i32x4_s(i0), f32x4.mul(x0, da), y0);
      y1 = madd(f32x4.convert_i32x4_s(i1), f32x4.mul(x1, da), y1);
      y2 = madd(f32x4.convert_i32x4_s(i2), f32x4.mul(x2, da), y2);
      y3 = madd(f32x4.convert_i32x4_s(i3), f32x4.mul(x3, da), y3);
      if (fmt.has_min<F>()) {
        for (let half = 0; half < halves; half++) {
          const ds = fmt.w16<F>() ? half_dsum(half ? pair1 : pair0, da) : dsum;
          x0 = e0, x1 = e1, x2 = e2, x3 = e3;
          if (fmt.has_sc<F>()) {
            const mn = fmt.mn<F>(w, fmt.w16<F>() ? (sub << 1) + half : sub);
            x0 = factor<G0>(x0, mn), x1 = factor<G1>(x1, mn), x2 = factor<G2>(x2, mn), x3 = factor<G3>(x3, mn);
          }
          y0 = madd(x0, ds, y0), y1 = madd(x1, ds, y1), y2 = madd(x2, ds, y2), y3 = madd(x3, ds, y3);
        }
      }
      a = end;
    }
    w += f.bytes();
  }
  v128.store(y, y0);
  v128.store(y, y1, 16);
  v128.store(y, y2, 32);
  v128.store(y, y3, 48);
}

/** One quad of group G onto its sums. */
// @ts-ignore: decorator
@inline
function quad<F, D, G>(s: v128, q: usize, h: usize, half: i32, t: i32, l0: v128, l1: v128, h0: v128, h1: v128, m: v128, m2: v128): v128 {
  const dot = changetype<D>(0), v = fmt.load_lo<F, G>(q, half, t), b = fmt.bits<F, G>(h, half, t);
  return dot.dot(dot.dot(s, l0, l1, fmt.lo<F>(v, b, m, m2)), h0, h1, fmt.hi<F>(fmt.load_hi<F, G>(q, v), b, m, m2));
}

/** d_a * (sum of the quants of half a block), from their negated pair sums. */
// @ts-ignore: decorator
@inline
export function half_dsum(pair: v128, da: v128): v128 {
  return f32x4.mul(f32x4.convert_i32x4_s(i32x4.neg(i32x4.extadd_pairwise_i16x8_s(pair))), da);
}
