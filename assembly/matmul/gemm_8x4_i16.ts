/**
 * The GEMM's inner loops for 8-bit codes (q8_0, iq4_nl, iq4_xs; in the simd build also those of
 * grids): 8 rows x 4 columns, as gemm_8x4 in gemm_8x4.ts. Such formats have one scale for 32
 * weights (an integer in iq4_xs) and no minima.
 *
 *   gemm_8x4_i16      codes and activations as i16, i32 sums: one dot for 8 products, no correction
 *   gemm_8x4_nibbles  dotadd builds: two dots for 16 products
 *
 * On x64 both multiply 8 at a time, but nibbles have twice the sums to combine, so i16 is faster
 * there. The limit is the ports of the vector unit, not instructions: two ports multiply, all four
 * add.
 *
 * Not kept: a step unrolled, or half the panel (no faster). Pairs of products as (a0 + w1)(a1 +
 * w0), which halves the multiplications and doubles the additions (slower: too few registers). The
 * GEMV's method of moving the activations' signs to the codes (no fewer operations).
 */
import { COLS_REST, cols_sub, lane_sums_behind, scales, splat } from './columns';
import { mac } from './dot';
import { SIGNED_CODES } from './dot_signed';
import { add_scaled_i32, end_column, end_super_block } from './epilogue';
import * as fmt from './format/format';
import { ACC, G0, G1, G2, G3 } from './format/group';

/**
 * As gemm_8x4. A sub-block in the panel is 16 steps of two k in 8 rows. In super-blocks the codes
 * are already multiplied by the integer scales. The first step sets the sums, the others add to
 * them.
 */
export function gemm_8x4_i16<F>(w: usize, a: usize, acc: usize, n: i32): void {
  if (!fmt.eight_bits<F>() || fmt.s16<F>() || fmt.has_min<F>()) ERROR('for 8-bit codes without minima, with a scale for 32 of them');
  for (; n > 0; n--) {
    let w0 = v128.load(w);
    let w1 = v128.load(w, 16);
    let x = v128.load32_splat(a);
    let s00 = i32x4.dot_i16x8_s(x, w0);
    let s10 = i32x4.dot_i16x8_s(x, w1);
    x = v128.load32_splat(a, 4);
    let s01 = i32x4.dot_i16x8_s(x, w0);
    let s11 = i32x4.dot_i16x8_s(x, w1);
    x = v128.load32_splat(a, 8);
    let s02 = i32x4.dot_i16x8_s(x, w0);
    let s12 = i32x4.dot_i16x8_s(x, w1);
    x = v128.load32_splat(a, 12);
    let s03 = i32x4.dot_i16x8_s(x, w0);
    let s13 = i32x4.dot_i16x8_s(x, w1);
    a += 16;
    let end = w + SIGNED_CODES;
    w += 32;
    for (const last = w - 32 + <usize>fmt.subs<F>() * SIGNED_CODES; ; end += SIGNED_CODES) {
      for (; w != end; w += 32) {
        w0 = v128.load(w);
        w1 = v128.load(w, 16);
        x = v128.load32_splat(a);
        s00 = i32x4.add(s00, i32x4.dot_i16x8_s(x, w0));
        s10 = i32x4.add(s10, i32x4.dot_i16x8_s(x, w1));
        x = v128.load32_splat(a, 4);
        s01 = i32x4.add(s01, i32x4.dot_i16x8_s(x, w0));
        s11 = i32x4.add(s11, i32x4.dot_i16x8_s(x, w1));
        x = v128.load32_splat(a, 8);
        s02 = i32x4.add(s02, i32x4.dot_i16x8_s(x, w0));
        s12 = i32x4.add(s12, i32x4.dot_i16x8_s(x, w1));
        x = v128.load32_splat(a, 12);
        s03 = i32x4.add(s03, i32x4.dot_i16x8_s(x, w0));
        s13 = i32x4.add(s13, i32x4.dot_i16x8_s(x, w1));
        a += 16;
      }
      a += COLS_REST;
      if (w == last) break;
    }
    if (fmt.super_block<F>()) {
      end_super_block<F>(w, a, acc, s00, s10, s01, s11, s02, s12, s03, s13);
    } else {
      const d0 = v128.load(w);
      const d1 = v128.load(w, 16);
      const p = a - COLS_REST;
      end_column<F, G0>(acc, v128.load32_splat(p), s00, d0, s10, d1);
      end_column<F, G1>(acc, v128.load32_splat(p, 4), s01, d0, s11, d1);
      end_column<F, G2>(acc, v128.load32_splat(p, 8), s02, d0, s12, d1);
      end_column<F, G3>(acc, v128.load32_splat(p, 12), s03, d0, s13, d1);
    }
    w += 32;
  }
}

/** As gemm_8x4: two columns and then the other two, so that the sums stay in registers. */
@inline
export function gemm_8x4_nibbles<F>(w: usize, a: usize, acc: usize, n: i32): void {
  if (!fmt.eight_bits<F>() || fmt.s16<F>() || fmt.has_min<F>()) ERROR('for 8-bit codes without minima, with a scale for 32 of them');
  two_columns<F>(w, a, acc, n);
  two_columns<F>(w, a + 8, acc + 2 * ACC, n);
}

/**
 * Computes two columns: sums of low nibbles s and of high nibbles u. A step in the panel is 64
 * bytes: low nibbles of both groups, then high ones.
 */
function two_columns<F>(w: usize, a: usize, acc: usize, n: i32): void {
  const zero = i32x4.splat(0);
  for (; n > 0; n--) {
    let i00 = zero;
    let i10 = zero;
    let i01 = zero;
    let i11 = zero;
    let left = fmt.subs<F>();
    do {
      let s00 = zero;
      let s10 = zero;
      let s01 = zero;
      let s11 = zero;
      let u00 = zero;
      let u10 = zero;
      let u01 = zero;
      let u11 = zero;
      for (const end = w + SIGNED_CODES; w != end; w += 64) {
        const w0 = v128.load(w);
        const w1 = v128.load(w, 16);
        const h0 = v128.load(w, 32);
        const h1 = v128.load(w, 48);
        let x = v128.load32_splat(a);
        s00 = mac(s00, x, w0);
        s10 = mac(s10, x, w1);
        u00 = mac(u00, x, h0);
        u10 = mac(u10, x, h1);
        x = v128.load32_splat(a, 4);
        s01 = mac(s01, x, w0);
        s11 = mac(s11, x, w1);
        u01 = mac(u01, x, h0);
        u11 = mac(u11, x, h1);
        a += 16;
      }
      // Corrects for the 128 added to every code (dot_signed.ts). Lane sums are negative, so this
      // is added.
      const back = i32x4.shl(i32x4.extadd_pairwise_i16x8_s(lane_sums_behind(a)), 7);
      const b0 = splat<G0>(back);
      const b1 = splat<G1>(back);
      const sc0 = fmt.super_block<F>() ? v128.load(w) : zero;
      const sc1 = fmt.super_block<F>() ? v128.load(w, 16) : zero;
      i00 = add_scaled_i32<F>(i00, joined(s00, u00, b0), sc0);
      i10 = add_scaled_i32<F>(i10, joined(s10, u10, b0), sc1);
      i01 = add_scaled_i32<F>(i01, joined(s01, u01, b1), sc0);
      i11 = add_scaled_i32<F>(i11, joined(s11, u11, b1), sc1);
      if (fmt.super_block<F>()) w += 32;
      a += COLS_REST;
    } while (fmt.super_block<F>() && --left > 0);
    const d0 = v128.load(w);
    const d1 = v128.load(w, 16);
    const da = scales(fmt.super_block<F>() ? a - cols_sub<F>() - COLS_REST : a - COLS_REST);
    end_column<F, G0>(acc, splat<G0>(da), i00, d0, i10, d1);
    end_column<F, G1>(acc, splat<G1>(da), i01, d0, i11, d1);
    w += 32;
  }
}

/** A sub-block's sums: low nibbles + 16 * high nibbles + correction. */
@inline
function joined(low: v128, high: v128, back: v128): v128 {
  return i32x4.add(i32x4.add(low, i32x4.shl(high, 4)), back);
}
