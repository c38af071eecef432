// $let GROUPS = 4
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
  let y$g = y0; // $for g of 1..GROUPS
  for (; n > 0; n--) {
    const da = v128.load32_splat(a, ACT_D);
    const zero = i32x4.splat(0);
    let i$g = zero; // $for g of 0..GROUPS
    let n$g = zero; // $for g of 0..GROUPS
    for (let sub = 0; sub < 8; sub++) {
      let p = a;
      let q = f.codes_at(w, sub);
      let x = v128.load32_splat(p);
      let z = v128.load32_splat(p, 4);
      let v$g = v128.load(q, $(16 * g)); // $for g of 0..GROUPS
      // $for g of 0..GROUPS
      let s$g = dot(x, v$g, m);
      let u$g = dot(z, v$g, m2);
      // $end
      // A loop, as in gemv_16x1_s16.ts. The first part of its first round stands before it, without
      // the 8 additions.
      for (const end = a + ACT_QUANTS; ;) {
        x = v128.load32_splat(p, 8);
        z = v128.load32_splat(p, 12);
        v$g = i16x8.shr_u(v$g, 4); // $for g of 0..GROUPS
        // $for g of 0..GROUPS
        s$g = i16x8.add(s$g, dot(x, v$g, m));
        u$g = i16x8.add(u$g, dot(z, v$g, m2));
        // $end
        p += 16;
        if (p == end) break;
        q += 64;
        x = v128.load32_splat(p);
        z = v128.load32_splat(p, 4);
        v$g = v128.load(q, $(16 * g)); // $for g of 0..GROUPS
        // $for g of 0..GROUPS
        s$g = i16x8.add(s$g, dot(x, v$g, m));
        u$g = i16x8.add(u$g, dot(z, v$g, m2));
        // $end
      }
      const sums = v128.load32_splat(a, ACT_SUM);
      const sc01 = f.pair_scales(w, sub);
      const sc23 = f.pair_scales(w + 16, sub);
      i$g = add_words<F, G$g>(i$g, s$g, u$g, $sc); // $for g, sc of [[0, 'sc01'], [1, 'sc01'], [2, 'sc23'], [3, 'sc23']]
      n$g = add_minima(n$g, f.pair_min<G$g>($sc), sums); // $for g, sc of [[0, 'sc01'], [1, 'sc01'], [2, 'sc23'], [3, 'sc23']]
      a += ACT_SUB;
    }
    y$g = add_block_min(y$g, i$g, f.pair_d<G$g>(w), f32x4.convert_i32x4_s(n$g), f.pair_dmin<G$g>(w), da); // $for g of 0..GROUPS
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
