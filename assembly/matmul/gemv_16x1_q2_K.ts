// Generated from assembly/templates/gemv_q2_K.ts by `npm run generate`: edit the template.
/**
 * gemv_16x1.ts for formats of 2 bits with a scale and a minimum for every 16 weights (q2_K), in
 * relaxed builds, whose dot leaves sums of pairs as i16: one column of activations times 16 packed
 * rows.
 *
 * Codes are so small that 16 products fit an i16 lane. A row's even lane sums the first half of a
 * sub-block, its odd lane the second half. One product with both scales side by side gives the
 * sub-block's integer sum. Codes are packed in that order (format/q2_K_pairs.ts), and activations
 * come in it (ACT_PAIRS in act.ts).
 *
 * The limit on x64 is operations of the vector unit: about 130 for a sub-block of 16 rows. q4_0 has
 * 146; two sums for each half (gemv_16x1_s16.ts, other builds) take 30 more. The f32 operations are
 * those of gemv_16x1_s16.ts and gemm_8x4.ts, in the same order.
 */
import { ACT_D, ACT_QUANTS, ACT_SUB, ACT_SUM } from './act';
import { add_block_min, add_minima } from './epilogue';
import * as fmt from './format/format';
import { G0, G1, G2, G3, store_sums } from './format/group';

/**
 * y[0..15] = 16 packed rows at w . the column of activations (ACT_PAIRS) at a; n super-blocks.
 */
export function gemv_16x1_q2_K<F>(w: usize, n: i32, a: usize, y: usize): void {
  if (fmt.width<F>() != 2 || !fmt.s16<F>() || !fmt.has_min<F>() || fmt.centre<F>() != 0)
    ERROR('for codes of 2 bits with scales and minima for 16 of them');
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
      let p = a;
      let q = f.codes_at(w, sub);
      let x = v128.load32_splat(p);
      let z = v128.load32_splat(p, 4);
      let v0 = v128.load(q, 0);
      let v1 = v128.load(q, 16);
      let v2 = v128.load(q, 32);
      let v3 = v128.load(q, 48);
      let s0 = dot(x, v0, m);
      let u0 = dot(z, v0, m2);
      let s1 = dot(x, v1, m);
      let u1 = dot(z, v1, m2);
      let s2 = dot(x, v2, m);
      let u2 = dot(z, v2, m2);
      let s3 = dot(x, v3, m);
      let u3 = dot(z, v3, m2);
      // A loop, as in gemv_16x1_s16.ts. The first part of its first round stands before it, without
      // the 8 additions.
      for (const end = a + ACT_QUANTS; ;) {
        x = v128.load32_splat(p, 8);
        z = v128.load32_splat(p, 12);
        v0 = i16x8.shr_u(v0, 4);
        v1 = i16x8.shr_u(v1, 4);
        v2 = i16x8.shr_u(v2, 4);
        v3 = i16x8.shr_u(v3, 4);
        s0 = i16x8.add(s0, dot(x, v0, m));
        u0 = i16x8.add(u0, dot(z, v0, m2));
        s1 = i16x8.add(s1, dot(x, v1, m));
        u1 = i16x8.add(u1, dot(z, v1, m2));
        s2 = i16x8.add(s2, dot(x, v2, m));
        u2 = i16x8.add(u2, dot(z, v2, m2));
        s3 = i16x8.add(s3, dot(x, v3, m));
        u3 = i16x8.add(u3, dot(z, v3, m2));
        p += 16;
        if (p == end) break;
        q += 64;
        x = v128.load32_splat(p);
        z = v128.load32_splat(p, 4);
        v0 = v128.load(q, 0);
        v1 = v128.load(q, 16);
        v2 = v128.load(q, 32);
        v3 = v128.load(q, 48);
        s0 = i16x8.add(s0, dot(x, v0, m));
        u0 = i16x8.add(u0, dot(z, v0, m2));
        s1 = i16x8.add(s1, dot(x, v1, m));
        u1 = i16x8.add(u1, dot(z, v1, m2));
        s2 = i16x8.add(s2, dot(x, v2, m));
        u2 = i16x8.add(u2, dot(z, v2, m2));
        s3 = i16x8.add(s3, dot(x, v3, m));
        u3 = i16x8.add(u3, dot(z, v3, m2));
      }
      const sums = v128.load32_splat(a, ACT_SUM);
      const sc01 = f.pair_scales(w, sub);
      const sc23 = f.pair_scales(w + 16, sub);
      i0 = add_words<F, G0>(i0, s0, u0, sc01);
      i1 = add_words<F, G1>(i1, s1, u1, sc01);
      i2 = add_words<F, G2>(i2, s2, u2, sc23);
      i3 = add_words<F, G3>(i3, s3, u3, sc23);
      n0 = add_minima(n0, f.pair_min<G0>(sc01), sums);
      n1 = add_minima(n1, f.pair_min<G1>(sc01), sums);
      n2 = add_minima(n2, f.pair_min<G2>(sc23), sums);
      n3 = add_minima(n3, f.pair_min<G3>(sc23), sums);
      a += ACT_SUB;
    }
    y0 = add_block_min(y0, i0, f.pair_d<G0>(w), f32x4.convert_i32x4_s(n0), f.pair_dmin<G0>(w), da);
    y1 = add_block_min(y1, i1, f.pair_d<G1>(w), f32x4.convert_i32x4_s(n1), f.pair_dmin<G1>(w), da);
    y2 = add_block_min(y2, i2, f.pair_d<G2>(w), f32x4.convert_i32x4_s(n2), f.pair_dmin<G2>(w), da);
    y3 = add_block_min(y3, i3, f.pair_d<G3>(w), f32x4.convert_i32x4_s(n3), f.pair_dmin<G3>(w), da);
    w += f.bytes();
  }
  store_sums(y, y0, y1, y2, y3);
}

/** A word of activations in every lane times the codes of v under a mask. */
@inline
function dot(a: v128, v: v128, m: v128): v128 {
  return i16x8.relaxed_dot_i8x16_i7x16_s(a, v128.and(v, m));
}

/**
 * Adds a sub-block's sums to those of group G: s of even words, and u of odd words, which is
 * second_shift bits too large.
 */
@inline
function add_words<F, G>(i: v128, s: v128, u: v128, sc: v128): v128 {
  return i32x4.add(i, i32x4.dot_i16x8_s(i16x8.add(s, i16x8.shr_s(u, fmt.second_shift<F>())), changetype<F>(0).pair_scale<G>(sc)));
}
