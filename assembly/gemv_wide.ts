/**
 * gemv.ts for 8-bit codes (q8_0, iq4_nl, iq4_xs) in builds with relaxed SIMD: one activation row times 16 packed rows.
 *
 * The relaxed dot multiplies signed bytes and unsigned ones of 7 bits. The signed ones are the weights here, the unsigned ones |activation|: the sign
 * of an activation, the same for all rows, moves to the weights. For a negative one a * w = |a| * ~w + |a|: one xor makes ~w, and the sum of such |a| is
 * what the rows' integer sums start at. Activations come so (ACT_SIGNS in act.ts), in the order in which the loop reads them.
 *
 * Four operations for 16 codes of q8_0 (x64: vpxor, vpmaddubsw, vpmaddwd, vpaddd; with a dot-add two), where two nibbles with sums of their own take
 * seven: 32 GMAC/s instead of 23, and 34 GB/s from memory instead of 24 (Zen 4, Node 24). The same f32 operations as gemm_wide.ts, in the same order.
 */
import { SIGNS_AT, SIGNS_D, SIGNS_RUN, SIGNS_START } from './act';
import * as fmt from './packed/format';
import { G0, G1, G2, G3, store_sums } from './packed/group';
import { held_ones } from './simd';

/** y[0..15] = 16 packed rows at w . one column of activations (ACT_SIGNS) at a; n blocks. */
export function gemv_16x1_signs<F, D>(w: usize, n: i32, a: usize, y: usize): void {
  const f = changetype<F>(0), dot = changetype<D>(0), m = fmt.mask<F>(), m2 = fmt.mask2<F>(), ones = held_ones(), none = i32x4.splat(0);
  let y0 = f32x4.splat(0), y1 = y0, y2 = y0, y3 = y0;
  for (; n > 0; n--) {
    const da = v128.load32_splat(a, SIGNS_D);
    let sub = 0, i0 = none, i1 = none, i2 = none, i3 = none;
    do {
      let s0 = v128.load32_splat(a, SIGNS_START), s1 = s0, s2 = s0, s3 = s0, p = a, q = f.quads(w, sub);
      for (const end = a + SIGNS_AT; p != end; p += 8) {
        let x = v128.load32_splat(p), s = v128.load32_splat(p, SIGNS_AT);
        let v0 = fmt.load_lo<F, G0>(q), v1 = fmt.load_lo<F, G1>(q), v2 = fmt.load_lo<F, G2>(q), v3 = fmt.load_lo<F, G3>(q);
        s0 = dot.wide(s0, x, v128.xor(fmt.lo<F>(v0, none, m, m2), s), ones), s1 = dot.wide(s1, x, v128.xor(fmt.lo<F>(v1, none, m, m2), s), ones);
        s2 = dot.wide(s2, x, v128.xor(fmt.lo<F>(v2, none, m, m2), s), ones), s3 = dot.wide(s3, x, v128.xor(fmt.lo<F>(v3, none, m, m2), s), ones);
        x = v128.load32_splat(p, 4), s = v128.load32_splat(p, SIGNS_AT + 4);
        v0 = fmt.load_hi<F, G0>(q, v0), v1 = fmt.load_hi<F, G1>(q, v1), v2 = fmt.load_hi<F, G2>(q, v2), v3 = fmt.load_hi<F, G3>(q, v3);
        s0 = dot.wide(s0, x, v128.xor(fmt.hi<F>(v0, none, m, m2), s), ones), s1 = dot.wide(s1, x, v128.xor(fmt.hi<F>(v1, none, m, m2), s), ones);
        s2 = dot.wide(s2, x, v128.xor(fmt.hi<F>(v2, none, m, m2), s), ones), s3 = dot.wide(s3, x, v128.xor(fmt.hi<F>(v3, none, m, m2), s), ones);
        q += fmt.quad_bytes<F>();
      }
      const sc = fmt.sc<F>(w, sub);
      i0 = add_run<F, G0>(i0, s0, sc), i1 = add_run<F, G1>(i1, s1, sc), i2 = add_run<F, G2>(i2, s2, sc), i3 = add_run<F, G3>(i3, s3, sc);
      a += SIGNS_RUN;
    } while (fmt.super_block<F>() && ++sub < fmt.subs<F>());
    y0 = fmt.add_block<F>(y0, i0, f.d<G0>(w), da), y1 = fmt.add_block<F>(y1, i1, f.d<G1>(w), da);
    y2 = fmt.add_block<F>(y2, i2, f.d<G2>(w), da), y3 = fmt.add_block<F>(y3, i3, f.d<G3>(w), da);
    w += f.bytes();
  }
  store_sums(y, y0, y1, y2, y3);
}

/** A run's sums: a block's, or with their scales onto the super-block's. */
// @ts-ignore: decorator
@inline
function add_run<F, G>(i: v128, s: v128, sc: v128): v128 { return fmt.super_block<F>() ? i32x4.add(i, i32x4.mul(s, fmt.scale<F, G>(sc))) : s; }
