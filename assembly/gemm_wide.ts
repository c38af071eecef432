/**
 * The GEMM's inner loops for 8-bit codes (q8_0, iq4_nl, iq4_xs): 8 rows x 4 columns, as gemm_8x4 in gemm.ts. One scale for 32 weights (an integer one in iq4_xs), no minima.
 *
 *   gemm_8x4_i16      codes and activations as i16, i32 sums: one dot for 8 products, and nothing to correct
 *   gemm_8x4_nibbles  builds with a dot-add instruction: two dots for 16 products
 *
 * On x64 both multiply 8 at a time, but nibbles have twice the sums to bring together: 31 GMAC/s where words have 38 (Zen 4, Node 24). Pipes of
 * the vector unit are the limit, not instructions: two multiply, all four add, and 8 of each take 5 cycles. A step unrolled gives nothing,
 * and pairs of products as (a0 + w1)(a1 + w0), half the multiplications for twice the additions, give less (35): too few registers. So does
 * the GEMV's way, signs of activations moved to the codes: as many operations, 38 on Node 24, and on Node 20 30 of 37.
 */
import { DotI32 } from './dot';
import { column_of, super_block_columns } from './gemm_columns';
import * as fmt from './packed/format';
import { ACC, G0, G1, G2, G3 } from './packed/group';
import { CODES_WIDE } from './packed/wide';
import { QUAD_REST, pair_sums, quad_run, splat } from './quads';

/** A run in the panel: 16 steps of two k in 8 rows; a super-block's eight have their scales in them. The first step starts the sums. */
export function gemm_8x4_i16<F>(w: usize, a: usize, acc: usize, n: i32): void {
  for (; n > 0; n--) {
    let w0 = v128.load(w), w1 = v128.load(w, 16);
    let x = v128.load32_splat(a);
    let s00 = i32x4.dot_i16x8_s(x, w0), s10 = i32x4.dot_i16x8_s(x, w1);
    x = v128.load32_splat(a, 4);
    let s01 = i32x4.dot_i16x8_s(x, w0), s11 = i32x4.dot_i16x8_s(x, w1);
    x = v128.load32_splat(a, 8);
    let s02 = i32x4.dot_i16x8_s(x, w0), s12 = i32x4.dot_i16x8_s(x, w1);
    x = v128.load32_splat(a, 12);
    let s03 = i32x4.dot_i16x8_s(x, w0), s13 = i32x4.dot_i16x8_s(x, w1);
    a += 16;
    let end = w + CODES_WIDE;
    w += 32;
    for (const last = w - 32 + <usize>fmt.subs<F>() * CODES_WIDE; ; end += CODES_WIDE) {
      for (; w != end; w += 32) {
        w0 = v128.load(w), w1 = v128.load(w, 16);
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
      a += QUAD_REST;
      if (w == last) break;
    }
    if (fmt.super_block<F>()) {
      super_block_columns<F>(w, a, acc, s00, s10, s01, s11, s02, s12, s03, s13);
    } else {
      const d0 = v128.load(w), d1 = v128.load(w, 16), p = a - QUAD_REST;
      column_of<F, G0>(acc, v128.load32_splat(p), s00, d0, s10, d1);
      column_of<F, G1>(acc, v128.load32_splat(p, 4), s01, d0, s11, d1);
      column_of<F, G2>(acc, v128.load32_splat(p, 8), s02, d0, s12, d1);
      column_of<F, G3>(acc, v128.load32_splat(p, 12), s03, d0, s13, d1);
    }
    w += 32;
  }
}

/** Two columns and the other two, so that the sums stay in registers. */
// @ts-ignore: decorator
@inline
export function gemm_8x4_nibbles<F>(w: usize, a: usize, acc: usize, n: i32): void {
  two_columns<F>(w, a, acc, n);
  two_columns<F>(w, a + 8, acc + 2 * ACC, n);
}

/** Sums for low and for high nibbles. A step in the panel is 64 bytes: low nibbles of both groups, then high ones. */
function two_columns<F>(w: usize, a: usize, acc: usize, n: i32): void {
  const dot = changetype<DotI32>(0), zero = i32x4.splat(0);
  for (; n > 0; n--) {
    let i00 = zero, i10 = zero, i01 = zero, i11 = zero, runs = fmt.subs<F>();
    do {
      let s00 = zero, s10 = zero, s01 = zero, s11 = zero, u00 = zero, u10 = zero, u01 = zero, u11 = zero;
      for (const end = w + CODES_WIDE; w != end; w += 64) {
        const w0 = v128.load(w), w1 = v128.load(w, 16), h0 = v128.load(w, 32), h1 = v128.load(w, 48);
        let x = v128.load32_splat(a);
        s00 = dot.mac(s00, x, w0);
        s10 = dot.mac(s10, x, w1);
        u00 = dot.mac(u00, x, h0);
        u10 = dot.mac(u10, x, h1);
        x = v128.load32_splat(a, 4);
        s01 = dot.mac(s01, x, w0);
        s11 = dot.mac(s11, x, w1);
        u01 = dot.mac(u01, x, h0);
        u11 = dot.mac(u11, x, h1);
        a += 16;
      }
      // What the 128 added to every code (packed/wide.ts) gave, to be taken off.
      const back = i32x4.shl(pair_sums(a), 7), b0 = splat<G0>(back), b1 = splat<G1>(back);
      const sc0 = fmt.super_block<F>() ? v128.load(w) : zero, sc1 = fmt.super_block<F>() ? v128.load(w, 16) : zero;
      i00 = joined<F>(i00, s00, u00, b0, sc0), i10 = joined<F>(i10, s10, u10, b0, sc1);
      i01 = joined<F>(i01, s01, u01, b1, sc0), i11 = joined<F>(i11, s11, u11, b1, sc1);
      if (fmt.super_block<F>()) w += 32;
      a += QUAD_REST;
    } while (fmt.super_block<F>() && --runs > 0);
    const d0 = v128.load(w), d1 = v128.load(w, 16), da = v128.load(fmt.super_block<F>() ? a - quad_run<F>() - QUAD_REST : a - QUAD_REST);
    column_of<F, G0>(acc, splat<G0>(da), i00, d0, i10, d1);
    column_of<F, G1>(acc, splat<G1>(da), i01, d0, i11, d1);
    w += 32;
  }
}

/** A run's integer sum; in super-blocks times its scale onto the sum so far. */
// @ts-ignore: decorator
@inline
function joined<F>(i: v128, low: v128, high: v128, back: v128, sc: v128): v128 {
  const s = i32x4.add(i32x4.add(low, i32x4.shl(high, 4)), back);
  return fmt.super_block<F>() ? i32x4.add(i, i32x4.mul(s, sc)) : s;
}
