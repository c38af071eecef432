// $let GROUPS = 4
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
  let y$g = y0; // $for g of 1..GROUPS
  for (; n > 0; n--) {
    const da = v128.load32_splat(a, SIGNS_D);
    let sub = 0;
    let i$g = none; // $for g of 0..GROUPS
    do {
      let s0 = v128.load32_splat(a, SIGNS_START);
      let s$g = s0; // $for g of 1..GROUPS
      let p = a;
      let q = f.codes_at(w, sub);
      for (const end = a + SIGNS_AT; p != end; p += 8) {
        const t = <i32>(p - a) >> 3;
        let x = v128.load32_splat(p);
        let s = v128.load32_splat(p, SIGNS_AT);
        let v$g = fmt.load_first<F, G$g>(q, t); // $for g of 0..GROUPS
        s$g = mac_signed(s$g, x, v128.xor(fmt.first<F>(v$g, m, m2), s), ones); // $for g of 0..GROUPS
        x = v128.load32_splat(p, 4);
        s = v128.load32_splat(p, SIGNS_AT + 4);
        v$g = fmt.load_second<F, G$g>(q, t, v$g); // $for g of 0..GROUPS
        s$g = mac_signed(s$g, x, v128.xor(fmt.second<F>(v$g, none, m, m2), s), ones); // $for g of 0..GROUPS
        q += fmt.quad_bytes<F>();
      }
      const sc = fmt.sc<F>(w, sub);
      i$g = add_scaled_i32<F>(i$g, s$g, fmt.scale<F, G$g>(sc)); // $for g of 0..GROUPS
      a += SIGNS_SUB;
    } while (fmt.super_block<F>() && ++sub < fmt.subs<F>());
    y$g = add_block<F>(y$g, i$g, fmt.d<F, G$g>(w), da); // $for g of 0..GROUPS
    w += f.bytes();
  }
  store_sums(y, y0, y1, y2, y3);
}
