// $let GROUPS = ROWS / 4
// $let VECTORS = Math.ceil(COLS / 4)
// $let COLUMNS = Array.from({ length: COLS }, (_, c) => [c, c >> 2, c & 3])
/**
 * gemm_$ROWSx$COLS.ts for codes of 1 and 2 bits without integer scales (format/few_bits.ts): $ROWS
 * rows x $COLS columns and the same inner loop, but one f32 update for 64 weights, whose sums fit i16.
 * One function serves all of these formats, since their panels are the same (panel_bits.ts).
 */
import { ACT_SUB } from './act';
import * as dot from './dot';
import { add_block } from './epilogue';
import { ACC, G0, G1, G2, G3, splat } from './format/group';
import { Q2_0 } from './format/q2_0';
import { CODES } from './panel_size';
import { COLS_REST, lane_sums_after, scales } from './tile_$ROWSx$COLS';
import { splat_ones } from '../simd';

/** Bytes of a sub-block of the activations. */
const SUB: usize = $COLS * ACT_SUB;

/** As gemm_$ROWSx$COLS, for `runs` runs of 64 weights. */
export function gemm_$ROWSx$COLS_bits(w: usize, a: usize, acc: usize, runs: i32): void {
  const ones = splat_ones();
  const bytes: usize = $(ROWS / 8) * CODES;
  for (; runs > 0; runs--) {
    // Scales and lane sums, which follow the quants of either sub-block.
    const rest = a + SUB - COLS_REST;
    const first$v = dot.start_at(i16x8.add(lane_sums_after(rest + $(16 * v)), lane_sums_after(rest + $(16 * v) + SUB))); // $for v of 0..VECTORS
    // $for c, v, lane of COLUMNS
    let s0$c = splat<G$lane>(first$v);
    let s$g$c = s0$c; // $for g of 1..GROUPS
    // $end
    for (const last = w + 2 * bytes; w != last; a += COLS_REST) {
      for (const end = w + bytes; w != end; w += $(16 * GROUPS)) {
        const w$g = v128.load(w, $(16 * g)); // $for g of 0..GROUPS
        let x: v128;
        // $for c of 0..COLS
        x = v128.load32_splat(a, $(4 * c));
        s$g$c = dot.mac(s$g$c, x, w$g); // $for g of 0..GROUPS
        // $end
        a += $(4 * COLS);
      }
    }
    const d$g = v128.load(w, $(16 * g)); // $for g of 0..GROUPS
    const da$v = scales(rest + $(16 * v)); // $for v of 0..VECTORS
    // $for c, v, lane of COLUMNS
    const e$c = splat<G$lane>(da$v);
    const i$g$c = dot.row_sums(s$g$c, ones); // $for g of 0..GROUPS
    const y$g$c = add_block<Q2_0>(v128.load(acc, $c * ACC + $(16 * g)), i$g$c, d$g, e$c); // $for g of 0..GROUPS
    v128.store(acc, y$g$c, $c * ACC + $(16 * g)); // $for g of 0..GROUPS
    // $end
    w += $(16 * GROUPS);
  }
}
