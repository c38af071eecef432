// Generated from assembly/templates/gemm_grid.ts for ROWS = 8, COLS = 4 by `npm run generate`: edit the template.
/**
 * The GEMM's inner loop for codes of grids and levels (format/grid.ts) in builds where a row's sum
 * is two i16 lanes (dot.ts): 8 rows x 4 columns, as gemm_8x4.
 *
 * A run is half a sub-block, which has its own scale: eight products in each lane. Codes are stored
 * + 64, and the start value of a run takes that off again. i16 may wrap on the way; only the sum
 * has to fit. It fits if the eight |codes| of a lane add up to at most 258 (32767 / 127). In iq2_*,
 * whose codes are 8, 25 and 43, some runs exceed that. unpack_grid marks these runs (a bit for
 * each, of 8 rows), and this loop computes each of them as two. If a grid's entries are equally
 * frequent, one in 60 runs of iq2_xxs is marked, one in 6 of iq2_xs and one in 10 of iq2_s.
 *
 * Not kept, all slower: codes as i16 (gemm_8x4_i16.ts), every run as two, a loop over the parts of
 * a run around the loop over its steps.
 */
import { mac, scaled } from './dot';
import * as fmt from './format/format';
import { Codes7 } from './format/grid';
import { G0, G1, G2, G3, splat } from './format/group';
import { CODES, MARKS } from './panel_size';
import { COLS_REST, end_super_block, lane_sums_ahead } from './tile_8x4';

const CENTRE = memory.data<u8>([64]);

/**
 * As gemm_8x4. w: the panel. A half sub-block in the panel is:
 *
 *   | 4 steps of 4 k, 4 bytes of each row a step | scales, i16 twice |
 */
export function gemm_8x4_grid(w: usize, a: usize, acc: usize, n: i32): void {
  const zero = i32x4.splat(0);
  const bytes: usize = (1 * CODES) / 2;
  let marks = load<u32>(w + MARKS());
  for (; n > 0; n--) {
    let i00 = zero;
    let i10 = zero;
    let i01 = zero;
    let i11 = zero;
    let i02 = zero;
    let i12 = zero;
    let i03 = zero;
    let i13 = zero;
    let scales = w + bytes;
    let left = 16;
    do {
      let first0 = fmt.offset<Codes7>(lane_sums_ahead<Codes7>(a + 0, left & 1));
      let end = scales;
      if ((marks & 1) != 0) {
        end = w + bytes / 2;
        const centre = v128.load8_splat(CENTRE);
        first0 = i16x8.neg(mac(mac(zero, v128.load(a, 0), centre), v128.load(a, 16), centre));
      }
      let s00 = splat<G0>(first0);
      let s10 = s00;
      let s01 = splat<G1>(first0);
      let s11 = s01;
      let s02 = splat<G2>(first0);
      let s12 = s02;
      let s03 = splat<G3>(first0);
      let s13 = s03;
      for (; w != end; w += 32) {
        const w0 = v128.load(w, 0);
        const w1 = v128.load(w, 16);
        let x: v128;
        x = v128.load32_splat(a, 0);
        s00 = mac(s00, x, w0);
        s10 = mac(s10, x, w1);
        x = v128.load32_splat(a, 4);
        s01 = mac(s01, x, w0);
        s11 = mac(s11, x, w1);
        x = v128.load32_splat(a, 8);
        s02 = mac(s02, x, w0);
        s12 = mac(s12, x, w1);
        x = v128.load32_splat(a, 12);
        s03 = mac(s03, x, w0);
        s13 = mac(s13, x, w1);
        a += 16;
      }
      const sc0 = v128.load(scales, 0);
      const sc1 = v128.load(scales, 16);
      i00 = i32x4.add(i00, scaled(s00, sc0));
      i10 = i32x4.add(i10, scaled(s10, sc1));
      i01 = i32x4.add(i01, scaled(s01, sc0));
      i11 = i32x4.add(i11, scaled(s11, sc1));
      i02 = i32x4.add(i02, scaled(s02, sc0));
      i12 = i32x4.add(i12, scaled(s12, sc1));
      i03 = i32x4.add(i03, scaled(s03, sc0));
      i13 = i32x4.add(i13, scaled(s13, sc1));
      if (w != scales) continue;
      marks >>= 1;
      w += 32;
      scales = w + bytes;
      if ((left & 1) != 0) a += COLS_REST;
      left--;
    } while (left > 0);
    end_super_block<Codes7>(w, a, acc, i00, i10, i01, i11, i02, i12, i03, i13);
    w += 32;
  }
}
