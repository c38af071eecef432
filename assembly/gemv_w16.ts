/**
 * gemv.ts for formats with a scale for every 16 weights (q3_K, q6_K, and q2_K outside gemv_q2_K.ts): one activation row times 16 packed rows.
 * Two sums of every group, one for either half of a run, and four quants at a time stay in registers.
 *
 * For each output and run of 32: acc = madd(float(isum), d_w * d_a, acc); with minima acc = madd(d_w * float(isum) + dmin_w * float(msum), d_a, acc).
 * Integer sums take both halves with their scales. gemm.ts does the same operations in the same order.
 */
import { ACT_BLOCK, ACT_D, ACT_PAIRS0, ACT_PAIRS1 } from './act';
import { ACT_QUANT } from './dot';
import * as fmt from './packed/format';
import { G0, G1, G2, G3, store_sums } from './packed/group';
import { group_mins, group_scale, fourth, half_sums, onto } from './packed/w16';
import { madd } from './simd';

/** Bytes of 16 quants, and of 4. */
const HALF: usize = 16 * ACT_QUANT;
const QUAD: usize = 4 * ACT_QUANT;

/** y[0..15] = 16 packed rows at w . the activation row at a; n blocks of format F, dots of flavour D. */
export function gemv_w16<F, D>(w: usize, n: i32, a: usize, y: usize): void {
  const f = changetype<F>(0), m = fmt.mask<F>(), m2 = fmt.mask2<F>();
  let y0 = f32x4.splat(0), y1 = y0, y2 = y0, y3 = y0;
  for (; n > 0; n--) {
    const d0 = f.d<G0>(w), d1 = f.d<G1>(w), d2 = f.d<G2>(w), d3 = f.d<G3>(w);
    const e0 = fmt.dmin<F, G0>(w), e1 = fmt.dmin<F, G1>(w), e2 = fmt.dmin<F, G2>(w), e3 = fmt.dmin<F, G3>(w);
    for (let sub = 0; sub < 8; sub++) {
      const da = v128.load32_splat(a, ACT_D), pair0 = v128.load32_splat(a, ACT_PAIRS0), pair1 = v128.load32_splat(a, ACT_PAIRS1);
      let s0 = changetype<D>(0).init(fmt.offset<F>(pair0)), u0 = changetype<D>(0).init(fmt.offset<F>(i16x8.shl(pair1, f.up())));
      let s1 = s0, s2 = s0, s3 = s0, u1 = u0, u2 = u0, u3 = u0, p = a, q = f.quads(w, sub);
      // A loop, not unrolled: unrolled, all of a group's work comes together and the quants do not stay in registers (q2_K on Node 24: 28 against 30 GMAC/s).
      for (const end = a + (fmt.two_bits<F>() ? 4 : 3) * QUAD; p != end; p += STEP<F>()) {
        const x = v128.load32_splat(p), z = v128.load32_splat(p, HALF);
        let v0 = v128.load(q), v1 = v128.load(q, 16), v2 = v128.load(q, 32), v3 = v128.load(q, 48);
        s0 = onto<D>(s0, x, p, v128.and(v0, m)), u0 = onto<D>(u0, z, p + HALF, v128.and(second<F, G0>(q, v0), m2));
        s1 = onto<D>(s1, x, p, v128.and(v1, m)), u1 = onto<D>(u1, z, p + HALF, v128.and(second<F, G1>(q, v1), m2));
        s2 = onto<D>(s2, x, p, v128.and(v2, m)), u2 = onto<D>(u2, z, p + HALF, v128.and(second<F, G2>(q, v2), m2));
        s3 = onto<D>(s3, x, p, v128.and(v3, m)), u3 = onto<D>(u3, z, p + HALF, v128.and(second<F, G3>(q, v3), m2));
        if (fmt.two_bits<F>()) {
          const r = p + QUAD, x = v128.load32_splat(p, QUAD), z = v128.load32_splat(p, HALF + QUAD);
          v0 = i16x8.shr_u(v0, 4), v1 = i16x8.shr_u(v1, 4), v2 = i16x8.shr_u(v2, 4), v3 = i16x8.shr_u(v3, 4);
          s0 = onto<D>(s0, x, r, v128.and(v0, m)), u0 = onto<D>(u0, z, r + HALF, v128.and(v0, m2));
          s1 = onto<D>(s1, x, r, v128.and(v1, m)), u1 = onto<D>(u1, z, r + HALF, v128.and(v1, m2));
          s2 = onto<D>(s2, x, r, v128.and(v2, m)), u2 = onto<D>(u2, z, r + HALF, v128.and(v2, m2));
          s3 = onto<D>(s3, x, r, v128.and(v3, m)), u3 = onto<D>(u3, z, r + HALF, v128.and(v3, m2));
        }
        q += 64;
      }
      if (!fmt.two_bits<F>()) {
        const x = v128.load32_splat(p), z = v128.load32_splat(p, HALF);
        q -= 192;
        let v = fourth<G0>(q);
        s0 = onto<D>(s0, x, p, v128.and(v, m)), u0 = onto<D>(u0, z, p + HALF, v128.and(second_fourth<F, G0>(q, v), m2));
        v = fourth<G1>(q);
        s1 = onto<D>(s1, x, p, v128.and(v, m)), u1 = onto<D>(u1, z, p + HALF, v128.and(second_fourth<F, G1>(q, v), m2));
        v = fourth<G2>(q);
        s2 = onto<D>(s2, x, p, v128.and(v, m)), u2 = onto<D>(u2, z, p + HALF, v128.and(second_fourth<F, G2>(q, v), m2));
        v = fourth<G3>(q);
        s3 = onto<D>(s3, x, p, v128.and(v, m)), u3 = onto<D>(u3, z, p + HALF, v128.and(second_fourth<F, G3>(q, v), m2));
      }
      const sc = f.sc(w, sub << 1), tc = f.sc(w, sub << 1 | 1);
      const mn0 = fmt.mn<F>(w, sub << 1), mn1 = fmt.mn<F>(w, sub << 1 | 1), sums = fmt.has_min<F>() ? half_sums(pair0, pair1) : da;
      y0 = run<F, D, G0>(y0, d0, e0, s0, u0, sc, tc, mn0, mn1, sums, da);
      y1 = run<F, D, G1>(y1, d1, e1, s1, u1, sc, tc, mn0, mn1, sums, da);
      y2 = run<F, D, G2>(y2, d2, e2, s2, u2, sc, tc, mn0, mn1, sums, da);
      y3 = run<F, D, G3>(y3, d3, e3, s3, u3, sc, tc, mn0, mn1, sums, da);
      a += ACT_BLOCK;
    }
    w += f.bytes();
  }
  store_sums(y, y0, y1, y2, y3);
}

/** What the loop over quads advances by. */
// @ts-ignore: decorator
@inline
function STEP<F>(): usize { return fmt.two_bits<F>() ? 2 * QUAD : QUAD; }

/** What has the second half's codes: the same vector, unless they are apart. */
// @ts-ignore: decorator
@inline
function second<F, G>(q: usize, v: v128): v128 { return fmt.apart<F>() ? v128.load(q, offsetof<G>() + 192) : v; }

// @ts-ignore: decorator
@inline
function second_fourth<F, G>(q: usize, v: v128): v128 { return fmt.apart<F>() ? fourth<G>(q + 192) : v; }

/** One run's sums of both halves onto those of group G. */
// @ts-ignore: decorator
@inline
function run<F, D, G>(y: v128, d: v128, e: v128, s: v128, u: v128, sc: v128, tc: v128, mn0: v128, mn1: v128, sums: v128, da: v128): v128 {
  const dot = changetype<D>(0), high = dot.scaled(u, group_scale<G>(tc));
  const i = f32x4.convert_i32x4_s(i32x4.add(dot.scaled(s, group_scale<G>(sc)), changetype<F>(0).up() > 0 ? i32x4.shr_s(high, changetype<F>(0).up()) : high));
  if (!fmt.has_min<F>()) return madd(i, f32x4.mul(d, da), y);
  const mins = f32x4.convert_i32x4_s(i32x4.dot_i16x8_s(group_mins<G>(mn0, mn1), sums));
  return madd(madd(i, d, f32x4.mul(mins, e)), da, y);
}
