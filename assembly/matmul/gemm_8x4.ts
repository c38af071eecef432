// Generated from assembly/templates/gemm.ts for ROWS = 8, COLS = 4 by `npm run generate`: edit the template.
/**
 * A product of many columns of activations with packed weights of any format. Prompts spend their
 * time here: start reading here.
 *
 * Sixteen rows x KC weights are unpacked once into panels (L1) of plain 7-bit codes and f32 scales.
 * All columns then run over the panels, 4 at a time. So all columns share the cost of unpacking,
 * and one inner loop, gemm_8x4, serves every format:
 *
 *   for 128 columns, 32 rows | their f32 sums are in L1 and L2
 *     for KC weights         | the activations of 128 columns, in column blocks, are in L2
 *                            | (act.ts lays them out once for all products)
 *       for 16 rows          | panels of 8 rows
 *         for 4 columns      | their quants stay in L1 for all panels
 *           gemm_8x4         | 8 rows x 4 columns
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
import { COLS_REST, end_super_block, lane_sums_ahead, lane_sums_after, quant_sums, scales } from './tile_8x4';
import { splat_ones } from '../simd';

/**
 * Adds 8 rows x 4 columns of products, n blocks of them, to the f32 sums in memory (L1). The
 * tile's integer sums stay in registers. w: a panel (panel.ts); a: a column block (tile_8x4.ts);
 * both are read sequentially. acc: the first column's sum of the panel's first row. Rows are 4 bytes
 * apart, columns ACC bytes.
 */
export function gemm_8x4<F>(w: usize, a: usize, acc: usize, n: i32): void {
  const zero = i32x4.splat(0);
  const ones = splat_ones();
  for (; n > 0; n--) {
    let i00 = zero;
    let i10 = zero;
    let i01 = zero;
    let i11 = zero;
    let i02 = zero;
    let i12 = zero;
    let i03 = zero;
    let i13 = zero;
    // Runs of codes with one scale: sub-blocks, or with s16 their halves (second halves have `left`
    // odd).
    let left = fmt.s16<F>() ? 2 * fmt.subs<F>() : fmt.subs<F>();
    do {
      const first0 = start<F>(lane_sums_ahead<F>(a + 0, left & 1));
      let s00 = splat<G0>(first0);
      let s10 = s00;
      let s01 = splat<G1>(first0);
      let s11 = s01;
      let s02 = splat<G2>(first0);
      let s12 = s02;
      let s03 = splat<G3>(first0);
      let s13 = s03;
      // Not unrolled: only in loops this small does V8 keep the addresses of the splats in
      // registers.
      for (const end = w + 1 * (fmt.s16<F>() ? CODES >> 1 : CODES); w != end; w += 32) {
        const w0 = v128.load(w, 0);
        const w1 = v128.load(w, 16);
        let x: v128;
        x = v128.load32_splat(a, 0);
        s00 = dot.mac(s00, x, w0);
        s10 = dot.mac(s10, x, w1);
        x = v128.load32_splat(a, 4);
        s01 = dot.mac(s01, x, w0);
        s11 = dot.mac(s11, x, w1);
        x = v128.load32_splat(a, 8);
        s02 = dot.mac(s02, x, w0);
        s12 = dot.mac(s12, x, w1);
        x = v128.load32_splat(a, 12);
        s03 = dot.mac(s03, x, w0);
        s13 = dot.mac(s13, x, w1);
        a += 16;
      }
      if (fmt.super_block<F>()) {
        const sc0 = v128.load(w, 0);
        const sc1 = v128.load(w, 16);
        i00 = add_scaled<F>(i00, s00, splat<G0>(first0), sc0);
        i10 = add_scaled<F>(i10, s10, splat<G0>(first0), sc1);
        i01 = add_scaled<F>(i01, s01, splat<G1>(first0), sc0);
        i11 = add_scaled<F>(i11, s11, splat<G1>(first0), sc1);
        i02 = add_scaled<F>(i02, s02, splat<G2>(first0), sc0);
        i12 = add_scaled<F>(i12, s12, splat<G2>(first0), sc1);
        i03 = add_scaled<F>(i03, s03, splat<G3>(first0), sc0);
        i13 = add_scaled<F>(i13, s13, splat<G3>(first0), sc1);
        w += 32;
      } else {
        i00 = dot.row_sums(s00, ones);
        i10 = dot.row_sums(s10, ones);
        i01 = dot.row_sums(s01, ones);
        i11 = dot.row_sums(s11, ones);
        i02 = dot.row_sums(s02, ones);
        i12 = dot.row_sums(s12, ones);
        i03 = dot.row_sums(s03, ones);
        i13 = dot.row_sums(s13, ones);
      }
      if (!fmt.s16<F>() || (left & 1) != 0) a += COLS_REST;
    } while (fmt.super_block<F>() && --left > 0);
    if (fmt.super_block<F>()) {
      w += 1 * minima_bytes<F>();
      end_super_block<F>(w, a, acc, i00, i10, i01, i11, i02, i12, i03, i13);
      w += 1 * factor_bytes<F>();
      continue;
    }
    const rest = a - COLS_REST;
    const d0 = v128.load(w, 0);
    const d1 = v128.load(w, 16);
    const da0 = scales(rest + 0);
    const back0 = fmt.biased<F>() ? bias<F>(lane_sums_after(rest + 0)) : zero;
    i00 = unbiased<F>(i00, splat<G0>(back0));
    i10 = unbiased<F>(i10, splat<G0>(back0));
    i01 = unbiased<F>(i01, splat<G1>(back0));
    i11 = unbiased<F>(i11, splat<G1>(back0));
    i02 = unbiased<F>(i02, splat<G2>(back0));
    i12 = unbiased<F>(i12, splat<G2>(back0));
    i03 = unbiased<F>(i03, splat<G3>(back0));
    i13 = unbiased<F>(i13, splat<G3>(back0));
    const m0 = fmt.has_min<F>() ? v128.load(w, 32) : zero;
    const m1 = fmt.has_min<F>() ? v128.load(w, 48) : zero;
    const sum0 = quant_sums<F>(rest + 0);
    const n0 = splat<G0>(sum0);
    const n1 = splat<G1>(sum0);
    const n2 = splat<G2>(sum0);
    const n3 = splat<G3>(sum0);
    const e0 = splat<G0>(da0);
    const y00 = end_panel_block<F>(v128.load(acc, 0 * ACC + 0), i00, d0, n0, m0, e0);
    const y10 = end_panel_block<F>(v128.load(acc, 0 * ACC + 16), i10, d1, n0, m1, e0);
    v128.store(acc, y00, 0 * ACC + 0);
    v128.store(acc, y10, 0 * ACC + 16);
    const e1 = splat<G1>(da0);
    const y01 = end_panel_block<F>(v128.load(acc, 1 * ACC + 0), i01, d0, n1, m0, e1);
    const y11 = end_panel_block<F>(v128.load(acc, 1 * ACC + 16), i11, d1, n1, m1, e1);
    v128.store(acc, y01, 1 * ACC + 0);
    v128.store(acc, y11, 1 * ACC + 16);
    const e2 = splat<G2>(da0);
    const y02 = end_panel_block<F>(v128.load(acc, 2 * ACC + 0), i02, d0, n2, m0, e2);
    const y12 = end_panel_block<F>(v128.load(acc, 2 * ACC + 16), i12, d1, n2, m1, e2);
    v128.store(acc, y02, 2 * ACC + 0);
    v128.store(acc, y12, 2 * ACC + 16);
    const e3 = splat<G3>(da0);
    const y03 = end_panel_block<F>(v128.load(acc, 3 * ACC + 0), i03, d0, n3, m0, e3);
    const y13 = end_panel_block<F>(v128.load(acc, 3 * ACC + 16), i13, d1, n3, m1, e3);
    v128.store(acc, y03, 3 * ACC + 0);
    v128.store(acc, y13, 3 * ACC + 16);
    w += 1 * factor_bytes<F>();
  }
}
