/**
 * gemm_8x4.ts for codes of 1 and 2 bits without integer scales (format/few_bits.ts): 8 rows x 4
 * columns and the same inner loop, but one f32 step for 64 weights, whose sums fit i16. One
 * function serves all of these formats, since their panels are the same.
 *
 *   64 weights of 8 rows in a panel:  | two sub-blocks: codes as in panel.ts | d (2 x 16) |
 */
import { COLS_SUB } from './act';
import { COLS_REST, lane_sums_behind, scales, splat } from './columns';
import * as dot from './dot';
import { store_quad } from './dot';
import { end_column } from './epilogue';
import * as fmt from './format/format';
import { G0, G1, G2, G3, load_scales } from './format/group';
import { Q2_0 } from './format/q2_0';
import { PANEL } from './panel_room';
import { CODES } from './panel_size';
import { held_ones } from '../simd';

/**
 * Unpacks n blocks of 16 packed rows at w to two panels of 8 rows. A block has `pairs` times two
 * sub-blocks.
 */
export function unpack_bits<F>(w: usize, n: i32, pairs: i32, panel: usize): void {
  const f = changetype<F>(0);
  for (; n > 0; n--) {
    let q = f.codes_at(w, 0);
    for (let i = pairs << 1; i > 0; i--) {
      for (let g: usize = 0; g < 4; g++) {
        const p = panel + (g & 1) * 16 + (g >> 1) * PANEL();
        const v = q + (g << 4);
        for (let t = 0; t < 4; t++) {
          store_quad(p, t, fmt.half_codes<F, G0>(v, 0, t));
          store_quad(p, t + 4, fmt.half_codes<F, G0>(v, 1, t));
        }
      }
      q = f.codes_at(q, 1) - f.codes_at(0, 0);
      panel += CODES;
      if ((i & 1) == 0) continue;
      v128.store(panel, load_scales<G0>(w));
      v128.store(panel, load_scales<G1>(w), 16);
      v128.store(panel + PANEL(), load_scales<G2>(w));
      v128.store(panel + PANEL(), load_scales<G3>(w), 16);
      panel += 32;
    }
    w = q;
  }
}

/** As gemm_8x4, for `runs` runs of 64 weights. */
export function gemm_8x4_bits(w: usize, a: usize, acc: usize, runs: i32): void {
  const ones = held_ones();
  for (; runs > 0; runs--) {
    // Scales and lane sums, which follow the quants of either sub-block.
    const rest = a + COLS_SUB - COLS_REST;
    const first = dot.start_at(i16x8.add(lane_sums_behind(rest), lane_sums_behind(rest + COLS_SUB)));
    let s00 = splat<G0>(first);
    let s10 = s00;
    let s01 = splat<G1>(first);
    let s11 = s01;
    let s02 = splat<G2>(first);
    let s12 = s02;
    let s03 = splat<G3>(first);
    let s13 = s03;
    for (const last = w + 2 * CODES; w != last; a += COLS_REST) {
      for (const end = w + CODES; w != end; w += 32) {
        const w0 = v128.load(w);
        const w1 = v128.load(w, 16);
        let x = v128.load32_splat(a);
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
    const d0 = v128.load(w);
    const d1 = v128.load(w, 16);
    const da = scales(rest);
    end_column<Q2_0, G0>(acc, splat<G0>(da), dot.row_sums(s00, ones), d0, dot.row_sums(s10, ones), d1);
    end_column<Q2_0, G1>(acc, splat<G1>(da), dot.row_sums(s01, ones), d0, dot.row_sums(s11, ones), d1);
    end_column<Q2_0, G2>(acc, splat<G2>(da), dot.row_sums(s02, ones), d0, dot.row_sums(s12, ones), d1);
    end_column<Q2_0, G3>(acc, splat<G3>(da), dot.row_sums(s03, ones), d0, dot.row_sums(s13, ones), d1);
    w += 32;
  }
}
