/**
 * Generation spends its time here: start reading here. One activation row times 16 packed rows of any block format.
 * Weights stream once from memory in order; the quants of a block are shared by the four groups of rows.
 *
 * For each output: acc = madd(float(isum), d_w * d_a, acc), block after block, ascending: gemm.ts does the same operations in the
 * same order, so a token's numbers do not depend on the batch it is in.
 */
import { ACT_BLOCK, ACT_D, ACT_PAIRS0, ACT_PAIRS1 } from './act';
import { ACT_QUANT } from './dot';
import { G0, G1, G2, G3, group_u8 } from './packed/group';
import { madd } from './simd';
import { Format } from './packed/format';

/** d * (integer factor of this run of 32). */
// @ts-ignore: decorator
@inline
export function factor<G>(d: v128, sc: v128): v128 {
  return f32x4.mul(d, f32x4.convert_i32x4_s(group_u8<G>(sc)));
}

/** y[0..15] = 16 packed rows at w . the activation row at a; n blocks of format F. */
export function gemv<F extends Format, D>(w: usize, n: i32, a: usize, y: usize): void {
  const f = changetype<F>(0), dot = changetype<D>(0);
  const m = f.mask(), m2 = f.mask2(), none = i32x4.splat(0);
  const half: usize = f.is_w16() ? 8 : 16;
  let y0 = f32x4.splat(0), y1 = y0, y2 = y0, y3 = y0;
  for (; n > 0; n--) {
    const d0 = f.d<G0>(w), d1 = f.d<G1>(w), d2 = f.d<G2>(w), d3 = f.d<G3>(w);
    for (let sub = 0; sub < f.subs(); sub++) {
      let q = f.quads(w, sub), s0: v128, s1: v128, s2: v128, s3: v128;
      const h = f.high(w, sub);
      const pair0 = v128.load32_splat(a, ACT_PAIRS0), pair1 = v128.load32_splat(a, ACT_PAIRS1);
      s0 = s1 = s2 = s3 = dot.init(f.offset(i16x8.add(pair0, pair1)));
      for (let t = 0; t < 4; t++) {
        const l0 = dot.a0(a), l1 = dot.a1(a, l0), h0 = dot.a0(a + half * ACT_QUANT), h1 = dot.a1(a + half * ACT_QUANT, h0);
        let v = f.load<G0>(q), b = f.bits<G0>(h, t);
        s0 = dot.dot(s0, l0, l1, f.lo(v, b, m, m2));
        s0 = dot.dot(s0, h0, h1, f.hi(f.load2<G0>(q, v), b, m, m2));
        v = f.load<G1>(q), b = f.bits<G1>(h, t);
        s1 = dot.dot(s1, l0, l1, f.lo(v, b, m, m2));
        s1 = dot.dot(s1, h0, h1, f.hi(f.load2<G1>(q, v), b, m, m2));
        v = f.load<G2>(q), b = f.bits<G2>(h, t);
        s2 = dot.dot(s2, l0, l1, f.lo(v, b, m, m2));
        s2 = dot.dot(s2, h0, h1, f.hi(f.load2<G2>(q, v), b, m, m2));
        v = f.load<G3>(q), b = f.bits<G3>(h, t);
        s3 = dot.dot(s3, l0, l1, f.lo(v, b, m, m2));
        s3 = dot.dot(s3, h0, h1, f.hi(f.load2<G3>(q, v), b, m, m2));
        q += f.quad_bytes();
        a += 4 * ACT_QUANT;
      }
      a -= 16 * ACT_QUANT;
      const da = v128.load32_splat(a, ACT_D);
      y0 = madd(f32x4.convert_i32x4_s(dot.sum(s0)), f32x4.mul(d0, da), y0);
      y1 = madd(f32x4.convert_i32x4_s(dot.sum(s1)), f32x4.mul(d1, da), y1);
      y2 = madd(f32x4.convert_i32x4_s(dot.sum(s2)), f32x4.mul(d2, da), y2);
      y3 = madd(f32x4.convert_i32x4_s(dot.sum(s3)), f32x4.mul(d3, da), y3);
      a += ACT_BLOCK;
    }
    w += f.bytes();
  }
  v128.store(y, y0);
  v128.store(y, y1, 16);
  v128.store(y, y2, 32);
  v128.store(y, y3, 48);
}
