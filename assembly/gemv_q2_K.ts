/**
 * gemv.ts for q2_K where a dot leaves pairs of products apart, as i16 (DotI16): one activation row times 16 packed rows.
 *
 * Scales are for 16 weights, and codes so small that the products of 16 fit an i16 lane: a row's even lane sums the first half of a run, its
 * odd lane the second, and one product with both scales side by side makes the integer sum of the run. Codes are packed in that order
 * (packed/halves.ts), and activations come in it (ACT_HALVES in act.ts).
 *
 * What counts on x64 is operations of the vector unit: about 130 for a run of 16 rows, where q4_0 has 146 and two sums of either half (gemv_w16.ts,
 * other builds) take 30 more. The same f32 operations as gemv_w16.ts and gemm.ts, in the same order.
 */
import { ACT_BLOCK, ACT_D, ACT_QUANTS, ACT_SUMS } from './act';
import { G0, G1, G2, G3, store_sums } from './packed/group';
import { Q2_K } from './packed/q2_K';
import { add_block_min } from './packed/format';

/** y[0..15] = 16 packed rows at w . one column of activations (ACT_HALVES) at a; n super-blocks. */
export function gemv_16x1_q2_K(w: usize, n: i32, a: usize, y: usize): void {
  const f = changetype<Q2_K>(0), m = f.mask(), m2 = f.mask2();
  let y0 = f32x4.splat(0), y1 = y0, y2 = y0, y3 = y0;
  for (; n > 0; n--) {
    const da = v128.load32_splat(a, ACT_D), zero = i32x4.splat(0);
    let i0 = zero, i1 = zero, i2 = zero, i3 = zero, n0 = zero, n1 = zero, n2 = zero, n3 = zero;
    for (let sub = 0; sub < 8; sub++) {
      let p = a, q = f.quads(w, sub);
      let x = v128.load32_splat(p), z = v128.load32_splat(p, 4);
      let v0 = v128.load(q), v1 = v128.load(q, 16), v2 = v128.load(q, 32), v3 = v128.load(q, 48);
      let s0 = dot(x, v0, m), u0 = dot(z, v0, m2), s1 = dot(x, v1, m), u1 = dot(z, v1, m2);
      let s2 = dot(x, v2, m), u2 = dot(z, v2, m2), s3 = dot(x, v3, m), u3 = dot(z, v3, m2);
      // A loop, as in gemv_w16.ts, and its first half before it: 8 additions less.
      for (const end = a + ACT_QUANTS; ; ) {
        x = v128.load32_splat(p, 8), z = v128.load32_splat(p, 12);
        v0 = i16x8.shr_u(v0, 4), v1 = i16x8.shr_u(v1, 4), v2 = i16x8.shr_u(v2, 4), v3 = i16x8.shr_u(v3, 4);
        s0 = i16x8.add(s0, dot(x, v0, m)), u0 = i16x8.add(u0, dot(z, v0, m2)), s1 = i16x8.add(s1, dot(x, v1, m)), u1 = i16x8.add(u1, dot(z, v1, m2));
        s2 = i16x8.add(s2, dot(x, v2, m)), u2 = i16x8.add(u2, dot(z, v2, m2)), s3 = i16x8.add(s3, dot(x, v3, m)), u3 = i16x8.add(u3, dot(z, v3, m2));
        p += 16;
        if (p == end) break;
        q += 64;
        x = v128.load32_splat(p), z = v128.load32_splat(p, 4);
        v0 = v128.load(q), v1 = v128.load(q, 16), v2 = v128.load(q, 32), v3 = v128.load(q, 48);
        s0 = i16x8.add(s0, dot(x, v0, m)), u0 = i16x8.add(u0, dot(z, v0, m2)), s1 = i16x8.add(s1, dot(x, v1, m)), u1 = i16x8.add(u1, dot(z, v1, m2));
        s2 = i16x8.add(s2, dot(x, v2, m)), u2 = i16x8.add(u2, dot(z, v2, m2)), s3 = i16x8.add(s3, dot(x, v3, m)), u3 = i16x8.add(u3, dot(z, v3, m2));
      }
      const sums = v128.load32_splat(a, ACT_SUMS), sc01 = f.half_scales(w, sub), sc23 = f.half_scales(w + 16, sub);
      i0 = run<G0>(i0, s0, u0, sc01), i1 = run<G1>(i1, s1, u1, sc01), i2 = run<G2>(i2, s2, u2, sc23), i3 = run<G3>(i3, s3, u3, sc23);
      n0 = minima<G0>(n0, sc01, sums), n1 = minima<G1>(n1, sc01, sums), n2 = minima<G2>(n2, sc23, sums), n3 = minima<G3>(n3, sc23, sums);
      a += ACT_BLOCK;
    }
    y0 = add_block_min(y0, i0, f.half_d<G0>(w), f32x4.convert_i32x4_s(n0), f.half_m<G0>(w), da);
    y1 = add_block_min(y1, i1, f.half_d<G1>(w), f32x4.convert_i32x4_s(n1), f.half_m<G1>(w), da);
    y2 = add_block_min(y2, i2, f.half_d<G2>(w), f32x4.convert_i32x4_s(n2), f.half_m<G2>(w), da);
    y3 = add_block_min(y3, i3, f.half_d<G3>(w), f32x4.convert_i32x4_s(n3), f.half_m<G3>(w), da);
    w += f.bytes();
  }
  store_sums(y, y0, y1, y2, y3);
}

/** A word of activations in every row times the codes of v under a mask. */
// @ts-ignore: decorator
@inline
function dot(a: v128, v: v128, m: v128): v128 { return i16x8.relaxed_dot_i8x16_i7x16_s(a, v128.and(v, m)); }

/** One run's sums, of even words s and of odd ones u, onto those of group G. */
// @ts-ignore: decorator
@inline
function run<G>(i: v128, s: v128, u: v128, sc: v128): v128 {
  const f = changetype<Q2_K>(0);
  return i32x4.add(i, i32x4.dot_i16x8_s(i16x8.add(s, i16x8.shr_s(u, f.up())), f.half_scale<G>(sc)));
}

// @ts-ignore: decorator
@inline
function minima<G>(n: v128, sc: v128, sums: v128): v128 { return i32x4.add(n, i32x4.dot_i16x8_s(changetype<Q2_K>(0).half_min<G>(sc), sums)); }
