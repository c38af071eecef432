// Generated from assembly/templates/gemv_s16.ts by `npm run generate`: edit the template.
/**
 * gemv_16x1.ts for formats with a scale for every 16 weights whose vectors of codes serve both
 * halves of a sub-block: codes of 3 bits (q3_K) and of 2 (q2_K, in builds without
 * gemv_16x1_q2_K.ts). One column of activations times 16 packed rows.
 *
 * Two sums for every group, one for each half, and four activations at a time stay in registers.
 * The integer sums of a super-block add all halves times their scales. gemm_8x4.ts does the same
 * operations in the same order. Not kept: one sum for both halves of q3_K (slower).
 */
import { ACT_D, ACT_LANE_SUMS0, ACT_LANE_SUMS1, ACT_SUB, ACT_SUM } from './act';
import * as dot from './dot';
import { QUANT_BYTES, mac_quad_at } from './dot';
import { add_minima, end_block } from './epilogue';
import * as fmt from './format/format';
import { G0, G1, G2, G3, store_sums } from './format/group';
import { fourth_quad, minima_of_halves } from './format/s16';

/** Bytes of 16 quants, and of 4. */
const HALF: usize = 16 * QUANT_BYTES;
const QUAD: usize = 4 * QUANT_BYTES;

/** y[0..15] = 16 packed rows at w . the column of activations at a; n super-blocks. */
export function gemv_16x1_s16<F>(w: usize, n: i32, a: usize, y: usize): void {
  if (fmt.width<F>() != 2 && fmt.width<F>() != 3) ERROR('codes of other widths want a loop of their own');
  if (fmt.biased<F>()) ERROR('with s16, only the centre is taken off');
  const f = changetype<F>(0);
  const m = fmt.mask<F>();
  const m2 = fmt.mask2<F>();
  let y0 = f32x4.splat(0);
  let y1 = y0;
  let y2 = y0;
  let y3 = y0;
  for (; n > 0; n--) {
    const da = v128.load32_splat(a, ACT_D);
    const zero = i32x4.splat(0);
    let i0 = zero;
    let i1 = zero;
    let i2 = zero;
    let i3 = zero;
    let n0 = zero;
    let n1 = zero;
    let n2 = zero;
    let n3 = zero;
    for (let sub = 0; sub < 8; sub++) {
      const l0 = v128.load32_splat(a, ACT_LANE_SUMS0);
      const l1 = v128.load32_splat(a, ACT_LANE_SUMS1);
      let s0 = dot.start_at(fmt.offset<F>(l0));
      let u0 = dot.start_at(fmt.offset<F>(i16x8.shl(l1, fmt.second_shift<F>())));
      let s1 = s0;
      let s2 = s0;
      let s3 = s0;
      let u1 = u0;
      let u2 = u0;
      let u3 = u0;
      let p = a;
      let q = f.codes_at(w, sub);
      // Not unrolled: V8 would then group the work of each group, and the activations would be
      // spilled.
      for (const end = a + (fmt.width<F>() == 2 ? 4 : 3) * QUAD; p != end; p += STEP<F>()) {
        const x = v128.load32_splat(p);
        const z = v128.load32_splat(p, HALF);
        let v0 = v128.load(q, 0);
        let v1 = v128.load(q, 16);
        let v2 = v128.load(q, 32);
        let v3 = v128.load(q, 48);
        s0 = mac_quad_at(s0, x, p, v128.and(v0, m));
        u0 = mac_quad_at(u0, z, p + HALF, v128.and(v0, m2));
        s1 = mac_quad_at(s1, x, p, v128.and(v1, m));
        u1 = mac_quad_at(u1, z, p + HALF, v128.and(v1, m2));
        s2 = mac_quad_at(s2, x, p, v128.and(v2, m));
        u2 = mac_quad_at(u2, z, p + HALF, v128.and(v2, m2));
        s3 = mac_quad_at(s3, x, p, v128.and(v3, m));
        u3 = mac_quad_at(u3, z, p + HALF, v128.and(v3, m2));
        if (fmt.width<F>() == 2) {
          const r = p + QUAD;
          const x1 = v128.load32_splat(p, QUAD);
          const z1 = v128.load32_splat(p, HALF + QUAD);
          v0 = i16x8.shr_u(v0, 4);
          v1 = i16x8.shr_u(v1, 4);
          v2 = i16x8.shr_u(v2, 4);
          v3 = i16x8.shr_u(v3, 4);
          s0 = mac_quad_at(s0, x1, r, v128.and(v0, m));
          u0 = mac_quad_at(u0, z1, r + HALF, v128.and(v0, m2));
          s1 = mac_quad_at(s1, x1, r, v128.and(v1, m));
          u1 = mac_quad_at(u1, z1, r + HALF, v128.and(v1, m2));
          s2 = mac_quad_at(s2, x1, r, v128.and(v2, m));
          u2 = mac_quad_at(u2, z1, r + HALF, v128.and(v2, m2));
          s3 = mac_quad_at(s3, x1, r, v128.and(v3, m));
          u3 = mac_quad_at(u3, z1, r + HALF, v128.and(v3, m2));
        }
        q += 64;
      }
      if (fmt.width<F>() != 2) {
        const x = v128.load32_splat(p);
        const z = v128.load32_splat(p, HALF);
        q -= 192;
        let v: v128;
        v = fourth_quad<G0>(q);
        s0 = mac_quad_at(s0, x, p, v128.and(v, m));
        u0 = mac_quad_at(u0, z, p + HALF, v128.and(v, m2));
        v = fourth_quad<G1>(q);
        s1 = mac_quad_at(s1, x, p, v128.and(v, m));
        u1 = mac_quad_at(u1, z, p + HALF, v128.and(v, m2));
        v = fourth_quad<G2>(q);
        s2 = mac_quad_at(s2, x, p, v128.and(v, m));
        u2 = mac_quad_at(u2, z, p + HALF, v128.and(v, m2));
        v = fourth_quad<G3>(q);
        s3 = mac_quad_at(s3, x, p, v128.and(v, m));
        u3 = mac_quad_at(u3, z, p + HALF, v128.and(v, m2));
      }
      const sc = f.sc(w, sub << 1);
      const tc = f.sc(w, (sub << 1) | 1);
      i0 = add_halves<F, G0>(i0, s0, u0, sc, tc);
      i1 = add_halves<F, G1>(i1, s1, u1, sc, tc);
      i2 = add_halves<F, G2>(i2, s2, u2, sc, tc);
      i3 = add_halves<F, G3>(i3, s3, u3, sc, tc);
      if (fmt.has_min<F>()) {
        const sums = v128.load32_splat(a, ACT_SUM);
        const v = fmt.mn<F>(w, sub << 1);
        const z = fmt.mn<F>(w, (sub << 1) | 1);
        n0 = add_minima(n0, minima_of_halves<G0>(v, z), sums);
        n1 = add_minima(n1, minima_of_halves<G1>(v, z), sums);
        n2 = add_minima(n2, minima_of_halves<G2>(v, z), sums);
        n3 = add_minima(n3, minima_of_halves<G3>(v, z), sums);
      }
      a += ACT_SUB;
    }
    y0 = end_block<F, G0>(y0, i0, n0, w, da);
    y1 = end_block<F, G1>(y1, i1, n1, w, da);
    y2 = end_block<F, G2>(y2, i2, n2, w, da);
    y3 = end_block<F, G3>(y3, i3, n3, w, da);
    w += f.bytes();
  }
  store_sums(y, y0, y1, y2, y3);
}

/** Bytes of activations that one round of the loop reads. */
@inline
function STEP<F>(): usize {
  return fmt.width<F>() == 2 ? 2 * QUAD : QUAD;
}

/**
 * Adds the sums of both halves of a sub-block, times their scales, to those of group G. The second
 * half's are second_shift bits too large.
 */
@inline
function add_halves<F, G>(i: v128, s: v128, u: v128, sc: v128, tc: v128): v128 {
  const second = dot.scaled(u, fmt.scale<F, G>(tc));
  return i32x4.add(i32x4.add(i, dot.scaled(s, fmt.scale<F, G>(sc))), i32x4.shr_s(second, fmt.second_shift<F>()));
}
