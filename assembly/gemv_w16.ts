/**
 * gemv.ts for formats with a scale for every 16 weights whose vectors of codes serve both halves of a run (q3_K, and q2_K outside gemv_q2_K.ts;
 * q6_K: gemv_q6_K.ts): one activation row times 16 packed rows.
 * Two sums of every group, one for either half of a run, and four quants at a time stay in registers.
 *
 * A super-block's integer sums take all halves with their scales; add_super_block ends it. gemm.ts does the same operations in the same order.
 */
import { ACT_BLOCK, ACT_D, ACT_PAIRS0, ACT_PAIRS1, ACT_SUMS } from './act';
import { ACT_QUANT } from './dot';
import * as fmt from './packed/format';
import { G0, G1, G2, G3, store_sums } from './packed/group';
import { fourth, group_mins, onto } from './packed/w16';

/** Bytes of 16 quants, and of 4. */
const HALF: usize = 16 * ACT_QUANT;
const QUAD: usize = 4 * ACT_QUANT;

/** y[0..15] = 16 packed rows at w . the activation row at a; n blocks of format F, dots of flavour D. */
export function gemv_16x1_s16<F, D>(w: usize, n: i32, a: usize, y: usize): void {
  if (fmt.width<F>() > 4) ERROR('codes of more than 4 bits want a loop of their own: column_loop');
  const f = changetype<F>(0), m = fmt.mask<F>(), m2 = fmt.mask2<F>();
  let y0 = f32x4.splat(0), y1 = y0, y2 = y0, y3 = y0;
  for (; n > 0; n--) {
    const da = v128.load32_splat(a, ACT_D), zero = i32x4.splat(0);
    let i0 = zero, i1 = zero, i2 = zero, i3 = zero, n0 = zero, n1 = zero, n2 = zero, n3 = zero;
    for (let sub = 0; sub < 8; sub++) {
      const pair0 = v128.load32_splat(a, ACT_PAIRS0), pair1 = v128.load32_splat(a, ACT_PAIRS1);
      let s0 = changetype<D>(0).init(fmt.offset<F>(pair0)), u0 = changetype<D>(0).init(fmt.offset<F>(i16x8.shl(pair1, f.up())));
      let s1 = s0, s2 = s0, s3 = s0, u1 = u0, u2 = u0, u3 = u0, p = a, q = f.quads(w, sub);
      // A loop, not unrolled: unrolled, all of a group's work comes together and the quants do not stay in registers (q2_K on Node 24: 28 against 30 GMAC/s).
      for (const end = a + (fmt.width<F>() == 2 ? 4 : 3) * QUAD; p != end; p += STEP<F>()) {
        const x = v128.load32_splat(p), z = v128.load32_splat(p, HALF);
        let v0 = v128.load(q), v1 = v128.load(q, 16), v2 = v128.load(q, 32), v3 = v128.load(q, 48);
        s0 = onto<D>(s0, x, p, v128.and(v0, m)), u0 = onto<D>(u0, z, p + HALF, v128.and(v0, m2));
        s1 = onto<D>(s1, x, p, v128.and(v1, m)), u1 = onto<D>(u1, z, p + HALF, v128.and(v1, m2));
        s2 = onto<D>(s2, x, p, v128.and(v2, m)), u2 = onto<D>(u2, z, p + HALF, v128.and(v2, m2));
        s3 = onto<D>(s3, x, p, v128.and(v3, m)), u3 = onto<D>(u3, z, p + HALF, v128.and(v3, m2));
        if (fmt.width<F>() == 2) {
          const r = p + QUAD, x = v128.load32_splat(p, QUAD), z = v128.load32_splat(p, HALF + QUAD);
          v0 = i16x8.shr_u(v0, 4), v1 = i16x8.shr_u(v1, 4), v2 = i16x8.shr_u(v2, 4), v3 = i16x8.shr_u(v3, 4);
          s0 = onto<D>(s0, x, r, v128.and(v0, m)), u0 = onto<D>(u0, z, r + HALF, v128.and(v0, m2));
          s1 = onto<D>(s1, x, r, v128.and(v1, m)), u1 = onto<D>(u1, z, r + HALF, v128.and(v1, m2));
          s2 = onto<D>(s2, x, r, v128.and(v2, m)), u2 = onto<D>(u2, z, r + HALF, v128.and(v2, m2));
          s3 = onto<D>(s3, x, r, v128.and(v3, m)), u3 = onto<D>(u3, z, r + HALF, v128.and(v3, m2));
        }
        q += 64;
      }
      if (fmt.width<F>() != 2) {
        const x = v128.load32_splat(p), z = v128.load32_splat(p, HALF);
        q -= 192;
        let v = fourth<G0>(q);
        s0 = onto<D>(s0, x, p, v128.and(v, m)), u0 = onto<D>(u0, z, p + HALF, v128.and(v, m2));
        v = fourth<G1>(q);
        s1 = onto<D>(s1, x, p, v128.and(v, m)), u1 = onto<D>(u1, z, p + HALF, v128.and(v, m2));
        v = fourth<G2>(q);
        s2 = onto<D>(s2, x, p, v128.and(v, m)), u2 = onto<D>(u2, z, p + HALF, v128.and(v, m2));
        v = fourth<G3>(q);
        s3 = onto<D>(s3, x, p, v128.and(v, m)), u3 = onto<D>(u3, z, p + HALF, v128.and(v, m2));
      }
      const sc = f.sc(w, sub << 1), tc = f.sc(w, sub << 1 | 1);
      i0 = run<F, D, G0>(i0, s0, u0, sc, tc), i1 = run<F, D, G1>(i1, s1, u1, sc, tc);
      i2 = run<F, D, G2>(i2, s2, u2, sc, tc), i3 = run<F, D, G3>(i3, s3, u3, sc, tc);
      if (fmt.has_min<F>()) {
        const sums = v128.load32_splat(a, ACT_SUMS), v = fmt.mn<F>(w, sub << 1), z = fmt.mn<F>(w, sub << 1 | 1);
        n0 = i32x4.add(n0, i32x4.dot_i16x8_s(group_mins<G0>(v, z), sums)), n1 = i32x4.add(n1, i32x4.dot_i16x8_s(group_mins<G1>(v, z), sums));
        n2 = i32x4.add(n2, i32x4.dot_i16x8_s(group_mins<G2>(v, z), sums)), n3 = i32x4.add(n3, i32x4.dot_i16x8_s(group_mins<G3>(v, z), sums));
      }
      a += ACT_BLOCK;
    }
    y0 = fmt.add_super_block<F, G0>(y0, i0, n0, w, da), y1 = fmt.add_super_block<F, G1>(y1, i1, n1, w, da);
    y2 = fmt.add_super_block<F, G2>(y2, i2, n2, w, da), y3 = fmt.add_super_block<F, G3>(y3, i3, n3, w, da);
    w += f.bytes();
  }
  store_sums(y, y0, y1, y2, y3);
}

/** What the loop over quads advances by. */
// @ts-ignore: decorator
@inline
function STEP<F>(): usize { return fmt.width<F>() == 2 ? 2 * QUAD : QUAD; }

/** One run's sums of both halves, with their scales, onto those of group G. */
// @ts-ignore: decorator
@inline
function run<F, D, G>(i: v128, s: v128, u: v128, sc: v128, tc: v128): v128 {
  const dot = changetype<D>(0), high = dot.scaled(u, fmt.scale<F, G>(tc));
  return i32x4.add(i32x4.add(i, dot.scaled(s, fmt.scale<F, G>(sc))), i32x4.shr_s(high, changetype<F>(0).up()));
}
