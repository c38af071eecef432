// $let GROUPS = ROWS / 4
/**
 * gemm_$ROWSx$COLS_i16.ts for dotadd builds: codes of 8 bits as two nibbles, two dots for 16
 * products.
 */
import { mac } from './dot';
import { SIGNED_CODES } from './dot_signed';
import { add_block, add_scaled_i32 } from './epilogue';
import * as fmt from './format/format';
import { ACC, G0, G1, splat } from './format/group';
import { COLS_REST, cols_sub, lane_sums_after, scales } from './tile_$ROWSx$COLS';

/** As gemm_$ROWSx$COLS: two columns and then the next two, so that the sums stay in registers. */
@inline
export function gemm_$ROWSx$COLS_nibbles<F>(w: usize, a: usize, acc: usize, n: i32): void {
  if (!fmt.eight_bits<F>() || fmt.s16<F>() || fmt.has_min<F>()) ERROR('for 8-bit codes without minima, with a scale for 32 of them');
  two_columns<F>(w, a + $(8 * pair), acc + $(2 * pair) * ACC, n); // $for pair of 0..COLS/2
}

/**
 * Computes two columns: sums of low nibbles s and of high nibbles u. A step in the panel is 64
 * bytes: low nibbles of both groups, then high ones.
 */
function two_columns<F>(w: usize, a: usize, acc: usize, n: i32): void {
  const zero = i32x4.splat(0);
  for (; n > 0; n--) {
    // $for c of 0..2
    let i$g$c = zero; // $for g of 0..GROUPS
    // $end
    let left = fmt.subs<F>();
    do {
      // $for c of 0..2
      let s$g$c = zero; // $for g of 0..GROUPS
      // $end
      // $for c of 0..2
      let u$g$c = zero; // $for g of 0..GROUPS
      // $end
      for (const end = w + $(ROWS / 8) * SIGNED_CODES; w != end; w += $(32 * GROUPS)) {
        const w$g = v128.load(w, $(16 * g)); // $for g of 0..GROUPS
        const h$g = v128.load(w, $(16 * GROUPS + 16 * g)); // $for g of 0..GROUPS
        let x: v128;
        // $for c of 0..2
        x = v128.load32_splat(a, $(4 * c));
        s$g$c = mac(s$g$c, x, w$g); // $for g of 0..GROUPS
        u$g$c = mac(u$g$c, x, h$g); // $for g of 0..GROUPS
        // $end
        a += $(4 * COLS);
      }
      // Corrects for the 128 added to every code (dot_signed.ts). Lane sums are negative, so this
      // is added.
      const back = i32x4.shl(i32x4.extadd_pairwise_i16x8_s(lane_sums_after(a)), 7);
      const b$c = splat<G$c>(back); // $for c of 0..2
      const sc$g = fmt.super_block<F>() ? v128.load(w, $(16 * g)) : zero; // $for g of 0..GROUPS
      // $for c of 0..2
      i$g$c = add_scaled_i32<F>(i$g$c, joined(s$g$c, u$g$c, b$c), sc$g); // $for g of 0..GROUPS
      // $end
      if (fmt.super_block<F>()) w += $(16 * GROUPS);
      a += COLS_REST;
    } while (fmt.super_block<F>() && --left > 0);
    const d$g = v128.load(w, $(16 * g)); // $for g of 0..GROUPS
    const da = scales(fmt.super_block<F>() ? a - cols_sub<F>() - COLS_REST : a - COLS_REST);
    // $for c of 0..2
    const e$c = splat<G$c>(da);
    const y$g$c = add_block<F>(v128.load(acc, $c * ACC + $(16 * g)), i$g$c, d$g, e$c); // $for g of 0..GROUPS
    v128.store(acc, y$g$c, $c * ACC + $(16 * g)); // $for g of 0..GROUPS
    // $end
    w += $(16 * GROUPS);
  }
}

/** A sub-block's sums: low nibbles + 16 * high nibbles + correction. */
@inline
function joined(low: v128, high: v128, back: v128): v128 {
  return i32x4.add(i32x4.add(low, i32x4.shl(high, 4)), back);
}
