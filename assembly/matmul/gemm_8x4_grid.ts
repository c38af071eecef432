/**
 * The GEMM's inner loop for codes of grids and levels (format/grid.ts) where a row's sum is two i16 lanes (dot.ts): 8 rows x 4 columns, as gemm_8x4.
 *
 * A run is half a sub-block, which has a scale of its own: eight products for each lane. Codes come + 64, what that gives is in what a run starts at, and i16
 * wraps: only the sums have to fit. They do where a lane's eight |codes| are at most 258 together, 32767 / 127; in iq2_*, whose codes are 8, 25 and 43, a few
 * are more. Whoever unpacks a panel marks those runs (a bit for each, of 8 rows), and they are taken as two: one in 60 of iq2_xxs, one in 6 of iq2_xs and
 * one in 10 of iq2_s, if a grid's entries are equally frequent. With codes as i16, as in gemm_8x4_i16.ts, it was 33 GMAC/s where this has 41 (turbo: 54 and
 * 60; Zen 4, Node 24), with every run as two 35. Not kept: a loop over the parts of a run around the loop over its steps (38).
 */
import { COLS_REST, lane_sums_ahead, splat } from './columns';
import { mac, scaled } from './dot';
import { end_super_block } from './epilogue';
import * as fmt from './format/format';
import { Codes7 } from './format/grid';
import { G0, G1, G2, G3 } from './format/group';
import { CODES, MARKS } from './panel_size';

const CENTRE = memory.data<u8>([64]);

/** As gemm_8x4. A half sub-block in the panel: | 4 steps of 4 k, 32 bytes a step | scales, i16 twice (2 x 16) |. w: where the panel begins. */
export function gemm_8x4_grid(w: usize, a: usize, acc: usize, n: i32): void {
  const zero = i32x4.splat(0);
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
    let scales = w + CODES / 2;
    let left = 16;
    do {
      let first = fmt.offset<Codes7>(lane_sums_ahead<Codes7>(a, left & 1));
      let end = scales;
      if ((marks & 1) != 0) {
        end = w + CODES / 4;
        const centre = v128.load8_splat(CENTRE);
        first = i16x8.neg(mac(mac(zero, v128.load(a), centre), v128.load(a, 16), centre));
      }
      let s00 = splat<G0>(first);
      let s10 = s00;
      let s01 = splat<G1>(first);
      let s11 = s01;
      let s02 = splat<G2>(first);
      let s12 = s02;
      let s03 = splat<G3>(first);
      let s13 = s03;
      for (; w != end; w += 32) {
        const w0 = v128.load(w);
        const w1 = v128.load(w, 16);
        let x = v128.load32_splat(a);
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
      const sc0 = v128.load(scales);
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
      scales = w + CODES / 2;
      if ((left & 1) != 0) a += COLS_REST;
      left--;
    } while (left > 0);
    end_super_block<Codes7>(w, a, acc, i00, i10, i01, i11, i02, i12, i03, i13);
    w += 32;
  }
}
