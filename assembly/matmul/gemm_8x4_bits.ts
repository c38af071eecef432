// Generated from assembly/templates/gemm_bits.ts for ROWS = 8, COLS = 4 by `npm run generate`: edit the template.
/**
 * gemm_8x4.ts for codes of 1 and 2 bits without integer scales (format/few_bits.ts): 8
 * rows x 4 columns and the same inner loop, but one f32 update for 64 weights, whose sums fit i16.
 * One function serves all of these formats, since their panels are the same (panel_bits.ts).
 */
import { ACT_SUB } from './act';
import * as dot from './dot';
import { add_block } from './epilogue';
import { ACC, G0, G1, G2, G3, splat } from './format/group';
import { Q2_0 } from './format/q2_0';
import { CODES } from './panel_size';
import { COLS_REST, lane_sums_after, scales } from './tile_8x4';
import { splat_ones } from '../simd';

/** Bytes of a sub-block of the activations. */
const SUB: usize = 4 * ACT_SUB;

/** As gemm_8x4, for `runs` runs of 64 weights. */
export function gemm_8x4_bits(w: usize, a: usize, acc: usize, runs: i32): void {
  const ones = splat_ones();
  const bytes: usize = 1 * CODES;
  for (; runs > 0; runs--) {
    // Scales and lane sums, which follow the quants of either sub-block.
    const rest = a + SUB - COLS_REST;
    const first0 = dot.start_at(i16x8.add(lane_sums_after(rest + 0), lane_sums_after(rest + 0 + SUB)));
    let s00 = splat<G0>(first0);
    let s10 = s00;
    let s01 = splat<G1>(first0);
    let s11 = s01;
    let s02 = splat<G2>(first0);
    let s12 = s02;
    let s03 = splat<G3>(first0);
    let s13 = s03;
    for (const last = w + 2 * bytes; w != last; a += COLS_REST) {
      for (const end = w + bytes; w != end; w += 32) {
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
    }
    const d0 = v128.load(w, 0);
    const d1 = v128.load(w, 16);
    const da0 = scales(rest + 0);
    const e0 = splat<G0>(da0);
    const i00 = dot.row_sums(s00, ones);
    const i10 = dot.row_sums(s10, ones);
    const y00 = add_block<Q2_0>(v128.load(acc, 0 * ACC + 0), i00, d0, e0);
    const y10 = add_block<Q2_0>(v128.load(acc, 0 * ACC + 16), i10, d1, e0);
    v128.store(acc, y00, 0 * ACC + 0);
    v128.store(acc, y10, 0 * ACC + 16);
    const e1 = splat<G1>(da0);
    const i01 = dot.row_sums(s01, ones);
    const i11 = dot.row_sums(s11, ones);
    const y01 = add_block<Q2_0>(v128.load(acc, 1 * ACC + 0), i01, d0, e1);
    const y11 = add_block<Q2_0>(v128.load(acc, 1 * ACC + 16), i11, d1, e1);
    v128.store(acc, y01, 1 * ACC + 0);
    v128.store(acc, y11, 1 * ACC + 16);
    const e2 = splat<G2>(da0);
    const i02 = dot.row_sums(s02, ones);
    const i12 = dot.row_sums(s12, ones);
    const y02 = add_block<Q2_0>(v128.load(acc, 2 * ACC + 0), i02, d0, e2);
    const y12 = add_block<Q2_0>(v128.load(acc, 2 * ACC + 16), i12, d1, e2);
    v128.store(acc, y02, 2 * ACC + 0);
    v128.store(acc, y12, 2 * ACC + 16);
    const e3 = splat<G3>(da0);
    const i03 = dot.row_sums(s03, ones);
    const i13 = dot.row_sums(s13, ones);
    const y03 = add_block<Q2_0>(v128.load(acc, 3 * ACC + 0), i03, d0, e3);
    const y13 = add_block<Q2_0>(v128.load(acc, 3 * ACC + 16), i13, d1, e3);
    v128.store(acc, y03, 3 * ACC + 0);
    v128.store(acc, y13, 3 * ACC + 16);
    w += 32;
  }
}
