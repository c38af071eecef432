// $let GROUPS = ROWS / 4
/**
 * The GEMM's inner loop for 8-bit codes (q8_0, iq4_nl, iq4_xs; in the simd build also those of
 * grids): $ROWS rows x $COLS columns, as gemm_$ROWSx$COLS.ts. Such formats have one scale for 32
 * weights (an integer in iq4_xs) and no minima. Codes and activations are i16, sums i32: one dot for
 * 8 products, no correction.
 *
 * The limit on x64 is the ports of the vector unit, not instructions: two ports multiply, all four
 * add. Codes as two nibbles (gemm_$ROWSx$COLS_nibbles.ts) multiply 8 at a time as well, and have twice
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
import { COLS_REST, end_super_block } from './tile_$ROWSx$COLS';

/**
 * As gemm_$ROWSx$COLS. A sub-block in the panel is 16 steps of two k in $ROWS rows. In super-blocks
 * the codes are already multiplied by the integer scales. The first step sets the sums, the others
 * add to them.
 */
export function gemm_$ROWSx$COLS_i16<F>(w: usize, a: usize, acc: usize, n: i32): void {
  if (!fmt.eight_bits<F>() || fmt.s16<F>() || fmt.has_min<F>()) ERROR('for 8-bit codes without minima, with a scale for 32 of them');
  const bytes: usize = $(ROWS / 8) * SIGNED_CODES;
  for (; n > 0; n--) {
    let w$g = v128.load(w, $(16 * g)); // $for g of 0..GROUPS
    let x: v128;
    // $for c of 0..COLS
    x = v128.load32_splat(a, $(4 * c));
    let s$g$c = i32x4.dot_i16x8_s(x, w$g); // $for g of 0..GROUPS
    // $end
    a += $(4 * COLS);
    let end = w + bytes;
    w += $(16 * GROUPS);
    for (const last = w - $(16 * GROUPS) + <usize>fmt.subs<F>() * bytes; ; end += bytes) {
      for (; w != end; w += $(16 * GROUPS)) {
        w$g = v128.load(w, $(16 * g)); // $for g of 0..GROUPS
        // $for c of 0..COLS
        x = v128.load32_splat(a, $(4 * c));
        s$g$c = i32x4.add(s$g$c, i32x4.dot_i16x8_s(x, w$g)); // $for g of 0..GROUPS
        // $end
        a += $(4 * COLS);
      }
      a += COLS_REST;
      if (w == last) break;
    }
    if (fmt.super_block<F>()) {
      end_super_block<F>(
        w,
        a,
        acc,
        // $for c of 0..COLS
        s$g$c, // $for g of 0..GROUPS
        // $end
      );
    } else {
      const p = a - COLS_REST;
      const d$g = v128.load(w, $(16 * g)); // $for g of 0..GROUPS
      // $for c of 0..COLS
      const da$c = v128.load32_splat(p, $(4 * c));
      const y$g$c = add_block<F>(v128.load(acc, $c * ACC + $(16 * g)), s$g$c, d$g, da$c); // $for g of 0..GROUPS
      v128.store(acc, y$g$c, $c * ACC + $(16 * g)); // $for g of 0..GROUPS
      // $end
    }
    w += $(16 * GROUPS);
  }
}
