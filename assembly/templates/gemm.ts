// $let GROUPS = ROWS / 4
// $let VECTORS = Math.ceil(COLS / 4)
// $let COLUMNS = Array.from({ length: COLS }, (_, c) => [c, c >> 2, c & 3])
/**
 * A product of many columns of activations with packed weights of any format. Prompts spend their
 * time here: start reading here.
 *
 * Sixteen rows x KC weights are unpacked once into panels (L1) of plain 7-bit codes and f32 scales.
 * All columns then run over the panels, $COLS at a time. So all columns share the cost of unpacking,
 * and one inner loop, gemm_$ROWSx$COLS, serves every format:
 *
 *   for 128 columns, 32 rows | their f32 sums are in L1 and L2
 *     for KC weights         | the activations of 128 columns, in column blocks, are in L2
 *                            | (act.ts lays them out once for all products)
 *       for 16 rows          | panels of $ROWS rows
 *         for $COLS columns      | their quants stay in L1 for all panels
 *           gemm_$ROWSx$COLS         | $ROWS rows x $COLS columns
 *
 * On x64 the loop is bound by instruction issue (six operations a cycle). A tile of 8 x 4 takes 25
 * operations for 128 products, 16 of which multiply and add. One pointer for all columns, instead
 * of one for each, saves three.
 */
import * as dot from './dot';
import { add_scaled, bias, end_panel_block, start, unbiased } from './epilogue';
import * as fmt from './format/format';
import { ACC, G0, G1, G2, G3, splat } from './format/group';
import { CODES, factor_bytes, minima_bytes } from './panel_size';
import { COLS_REST, end_super_block, lane_sums_ahead, lane_sums_after, quant_sums, scales } from './tile_$ROWSx$COLS';
import { splat_ones } from '../simd';

/**
 * Adds $ROWS rows x $COLS columns of products, n blocks of them, to the f32 sums in memory (L1). The
 * tile's integer sums stay in registers. w: a panel (panel.ts); a: a column block (tile_$ROWSx$COLS.ts);
 * both are read sequentially. acc: the first column's sum of the panel's first row. Rows are 4 bytes
 * apart, columns ACC bytes.
 */
export function gemm_$ROWSx$COLS<F>(w: usize, a: usize, acc: usize, n: i32): void {
  const zero = i32x4.splat(0);
  const ones = splat_ones();
  for (; n > 0; n--) {
    // $for c of 0..COLS
    let i$g$c = zero; // $for g of 0..GROUPS
    // $end
    // Runs of codes with one scale: sub-blocks, or with s16 their halves (second halves have `left`
    // odd).
    let left = fmt.s16<F>() ? 2 * fmt.subs<F>() : fmt.subs<F>();
    do {
      const first$v = start<F>(lane_sums_ahead<F>(a + $(16 * v), left & 1)); // $for v of 0..VECTORS
      // $for c, v, lane of COLUMNS
      let s0$c = splat<G$lane>(first$v);
      let s$g$c = s0$c; // $for g of 1..GROUPS
      // $end
      // Not unrolled: only in loops this small does V8 keep the addresses of the splats in
      // registers.
      for (const end = w + $(ROWS / 8) * (fmt.s16<F>() ? CODES >> 1 : CODES); w != end; w += $(16 * GROUPS)) {
        const w$g = v128.load(w, $(16 * g)); // $for g of 0..GROUPS
        let x: v128;
        // $for c of 0..COLS
        x = v128.load32_splat(a, $(4 * c));
        s$g$c = dot.mac(s$g$c, x, w$g); // $for g of 0..GROUPS
        // $end
        a += $(4 * COLS);
      }
      if (fmt.super_block<F>()) {
        const sc$g = v128.load(w, $(16 * g)); // $for g of 0..GROUPS
        // $for c, v, lane of COLUMNS
        i$g$c = add_scaled<F>(i$g$c, s$g$c, splat<G$lane>(first$v), sc$g); // $for g of 0..GROUPS
        // $end
        w += $(16 * GROUPS);
      } else {
        // $for c of 0..COLS
        i$g$c = dot.row_sums(s$g$c, ones); // $for g of 0..GROUPS
        // $end
      }
      if (!fmt.s16<F>() || (left & 1) != 0) a += COLS_REST;
    } while (fmt.super_block<F>() && --left > 0);
    if (fmt.super_block<F>()) {
      w += $(ROWS / 8) * minima_bytes<F>();
      end_super_block<F>(
        w,
        a,
        acc,
        // $for c of 0..COLS
        i$g$c, // $for g of 0..GROUPS
        // $end
      );
      w += $(ROWS / 8) * factor_bytes<F>();
      continue;
    }
    const rest = a - COLS_REST;
    const d$g = v128.load(w, $(16 * g)); // $for g of 0..GROUPS
    // $for v of 0..VECTORS
    const da$v = scales(rest + $(16 * v));
    const back$v = fmt.biased<F>() ? bias<F>(lane_sums_after(rest + $(16 * v))) : zero;
    // $end
    // $for c, v, lane of COLUMNS
    i$g$c = unbiased<F>(i$g$c, splat<G$lane>(back$v)); // $for g of 0..GROUPS
    // $end
    const m$g = fmt.has_min<F>() ? v128.load(w, $(16 * GROUPS + 16 * g)) : zero; // $for g of 0..GROUPS
    const sum$v = quant_sums<F>(rest + $(16 * v)); // $for v of 0..VECTORS
    const n$c = splat<G$lane>(sum$v); // $for c, v, lane of COLUMNS
    // $for c, v, lane of COLUMNS
    const e$c = splat<G$lane>(da$v);
    const y$g$c = end_panel_block<F>(v128.load(acc, $c * ACC + $(16 * g)), i$g$c, d$g, n$c, m$g, e$c); // $for g of 0..GROUPS
    v128.store(acc, y$g$c, $c * ACC + $(16 * g)); // $for g of 0..GROUPS
    // $end
    w += $(ROWS / 8) * factor_bytes<F>();
  }
}
