// Generated from assembly/templates/gemm_i16.ts for ROWS = 8, COLS = 4 by `npm run generate`: edit the template.
/**
 * The GEMM's inner loop for 8-bit codes (q8_0, iq4_nl, iq4_xs; in the simd build also those of
 * grids): 8 rows x 4 columns, as gemm_8x4.ts. Such formats have one scale for 32
 * weights (an integer in iq4_xs) and no minima. Codes and activations are i16, sums i32: one dot for
 * 8 products, no correction.
 *
 * The limit on x64 is the ports of the vector unit, not instructions: two ports multiply, all four
 * add. Codes as two nibbles (gemm_8x4_nibbles.ts) multiply 8 at a time as well, and have twice
 * the sums to combine.
 *
 * Not kept: a step unrolled, or half the panel (no faster). Pairs of products as (a0 + w1)(a1 +
 * w0), which halves the multiplications and doubles the additions (slower: too few registers). The
 * GEMV's method of moving the activations' signs to the codes (no fewer operations).
 */
import { SIGNED_CODES } from './dot_signed';
import { add_block } from './epilogue';
import * as fmt from './format/format';
import { ACC } from './format/group';
import { COLS_REST, end_super_block } from './tile_8x4';

/**
 * As gemm_8x4. A sub-block in the panel is 16 steps of two k in 8 rows. In super-blocks
 * the codes are already multiplied by the integer scales. The first step sets the sums, the others
 * add to them.
 */
export function gemm_8x4_i16<F>(w: usize, a: usize, acc: usize, n: i32): void {
  if (!fmt.eight_bits<F>() || fmt.s16<F>() || fmt.has_min<F>()) ERROR('for 8-bit codes without minima, with a scale for 32 of them');
  const bytes: usize = 1 * SIGNED_CODES;
  for (; n > 0; n--) {
    let w0 = v128.load(w, 0);
    let w1 = v128.load(w, 16);
    let x: v128;
    x = v128.load32_splat(a, 0);
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
    let end = w + bytes;
    w += 32;
    for (const last = w - 32 + <usize>fmt.subs<F>() * bytes; ; end += bytes) {
      for (; w != end; w += 32) {
        w0 = v128.load(w, 0);
        w1 = v128.load(w, 16);
        x = v128.load32_splat(a, 0);
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
      const p = a - COLS_REST;
      const d0 = v128.load(w, 0);
      const d1 = v128.load(w, 16);
      const da0 = v128.load32_splat(p, 0);
      const y00 = add_block<F>(v128.load(acc, 0 * ACC + 0), s00, d0, da0);
      const y10 = add_block<F>(v128.load(acc, 0 * ACC + 16), s10, d1, da0);
      v128.store(acc, y00, 0 * ACC + 0);
      v128.store(acc, y10, 0 * ACC + 16);
      const da1 = v128.load32_splat(p, 4);
      const y01 = add_block<F>(v128.load(acc, 1 * ACC + 0), s01, d0, da1);
      const y11 = add_block<F>(v128.load(acc, 1 * ACC + 16), s11, d1, da1);
      v128.store(acc, y01, 1 * ACC + 0);
      v128.store(acc, y11, 1 * ACC + 16);
      const da2 = v128.load32_splat(p, 8);
      const y02 = add_block<F>(v128.load(acc, 2 * ACC + 0), s02, d0, da2);
      const y12 = add_block<F>(v128.load(acc, 2 * ACC + 16), s12, d1, da2);
      v128.store(acc, y02, 2 * ACC + 0);
      v128.store(acc, y12, 2 * ACC + 16);
      const da3 = v128.load32_splat(p, 12);
      const y03 = add_block<F>(v128.load(acc, 3 * ACC + 0), s03, d0, da3);
      const y13 = add_block<F>(v128.load(acc, 3 * ACC + 16), s13, d1, da3);
      v128.store(acc, y03, 3 * ACC + 0);
      v128.store(acc, y13, 3 * ACC + 16);
    }
    w += 32;
  }
}
