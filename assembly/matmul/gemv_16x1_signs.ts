// Generated from assembly/templates/gemv_signs.ts by `npm run generate`: edit the template.
/**
 * gemv_16x1.ts for 8-bit codes (q8_0, iq4_nl, iq4_xs) in builds with relaxed SIMD: one column of
 * activations times 16 packed rows.
 *
 * The relaxed dot multiplies signed bytes by unsigned 7-bit bytes. Here the weights are the signed
 * operand and |activation| is the unsigned one. The sign of an activation, the same for all rows,
 * moves to the weights: for a negative activation, a * w = |a| * ~w + |a|. One xor makes ~w, and
 * the sums start at the sum of those |a|. Activations come in this form (ACT_SIGNS in act.ts), in
 * the order in which the loop reads them.
 *
 * 16 codes of q8_0 take four operations (x64: vpxor, vpmaddubsw, vpmaddwd, vpaddd), two with a
 * dot-add. Two nibbles with their own sums would take seven. The f32 operations are those of
 * gemm_8x4_i16.ts, in the same order. Not kept: activations prepared as whole vectors instead of
 * words to splat (no faster); separate loops for the codes of the two halves (slower).
 */
import { SIGNS_AT, SIGNS_D, SIGNS_START, SIGNS_SUB } from './act';
import { mac_signed } from './dot_signed';
import { add_block, add_scaled_i32 } from './epilogue';
import * as fmt from './format/format';
import { G0, G1, G2, G3, store_sums } from './format/group';
import { splat_ones } from '../simd';

/** y[0..15] = 16 packed rows at w . the column of activations (ACT_SIGNS) at a; n blocks. */
export function gemv_16x1_signs<F>(w: usize, n: i32, a: usize, y: usize): void {
  if (!fmt.eight_bits<F>() || fmt.s16<F>() || fmt.has_min<F>() || fmt.centre<F>() != 0)
    ERROR('for 8-bit codes without minima, with a scale for 32 of them');
  const f = changetype<F>(0);
  const m = fmt.mask<F>();
  const m2 = fmt.mask2<F>();
  const ones = splat_ones();
  const none = i32x4.splat(0);
  let y0 = f32x4.splat(0);
  let y1 = y0;
  let y2 = y0;
  let y3 = y0;
  for (; n > 0; n--) {
    const da = v128.load32_splat(a, SIGNS_D);
    let sub = 0;
    let i0 = none;
    let i1 = none;
    let i2 = none;
    let i3 = none;
    do {
      let s0 = v128.load32_splat(a, SIGNS_START);
      let s1 = s0;
      let s2 = s0;
      let s3 = s0;
      let p = a;
      let q = f.codes_at(w, sub);
      for (const end = a + SIGNS_AT; p != end; p += 8) {
        const t = <i32>(p - a) >> 3;
        let x = v128.load32_splat(p);
        let s = v128.load32_splat(p, SIGNS_AT);
        let v0 = fmt.load_first<F, G0>(q, t);
        let v1 = fmt.load_first<F, G1>(q, t);
        let v2 = fmt.load_first<F, G2>(q, t);
        let v3 = fmt.load_first<F, G3>(q, t);
        s0 = mac_signed(s0, x, v128.xor(fmt.first<F>(v0, m, m2), s), ones);
        s1 = mac_signed(s1, x, v128.xor(fmt.first<F>(v1, m, m2), s), ones);
        s2 = mac_signed(s2, x, v128.xor(fmt.first<F>(v2, m, m2), s), ones);
        s3 = mac_signed(s3, x, v128.xor(fmt.first<F>(v3, m, m2), s), ones);
        x = v128.load32_splat(p, 4);
        s = v128.load32_splat(p, SIGNS_AT + 4);
        v0 = fmt.load_second<F, G0>(q, t, v0);
        v1 = fmt.load_second<F, G1>(q, t, v1);
        v2 = fmt.load_second<F, G2>(q, t, v2);
        v3 = fmt.load_second<F, G3>(q, t, v3);
        s0 = mac_signed(s0, x, v128.xor(fmt.second<F>(v0, none, m, m2), s), ones);
        s1 = mac_signed(s1, x, v128.xor(fmt.second<F>(v1, none, m, m2), s), ones);
        s2 = mac_signed(s2, x, v128.xor(fmt.second<F>(v2, none, m, m2), s), ones);
        s3 = mac_signed(s3, x, v128.xor(fmt.second<F>(v3, none, m, m2), s), ones);
        q += fmt.quad_bytes<F>();
      }
      const sc = fmt.sc<F>(w, sub);
      i0 = add_scaled_i32<F>(i0, s0, fmt.scale<F, G0>(sc));
      i1 = add_scaled_i32<F>(i1, s1, fmt.scale<F, G1>(sc));
      i2 = add_scaled_i32<F>(i2, s2, fmt.scale<F, G2>(sc));
      i3 = add_scaled_i32<F>(i3, s3, fmt.scale<F, G3>(sc));
      a += SIGNS_SUB;
    } while (fmt.super_block<F>() && ++sub < fmt.subs<F>());
    y0 = add_block<F>(y0, i0, fmt.d<F, G0>(w), da);
    y1 = add_block<F>(y1, i1, fmt.d<F, G1>(w), da);
    y2 = add_block<F>(y2, i2, fmt.d<F, G2>(w), da);
    y3 = add_block<F>(y3, i3, fmt.d<F, G3>(w), da);
    w += f.bytes();
  }
  store_sums(y, y0, y1, y2, y3);
}
