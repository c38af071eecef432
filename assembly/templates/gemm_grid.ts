// $let GROUPS = ROWS / 4
// $let VECTORS = Math.ceil(COLS / 4)
// $let COLUMNS = Array.from({ length: COLS }, (_, c) => [c, c >> 2, c & 3])
/**
 * The GEMM's inner loop for codes of grids and levels (format/grid.ts) in builds where a row's sum
 * is two i16 lanes (dot.ts): $ROWS rows x $COLS columns, as gemm_$ROWSx$COLS.
 *
 * A run is half a sub-block, which has its own scale: eight products in each lane. Codes are stored
 * + 64, and the start value of a run takes that off again. i16 may wrap on the way; only the sum
 * has to fit. It fits if the eight |codes| of a lane add up to at most 258 (32767 / 127). In iq2_*,
 * whose codes are 8, 25 and 43, some runs exceed that. unpack_grid marks these runs (a bit for
 * each, of 8 rows), and this loop computes each of them as two. If a grid's entries are equally
 * frequent, one in 60 runs of iq2_xxs is marked, one in 6 of iq2_xs and one in 10 of iq2_s.
 *
 * Not kept, all slower: codes as i16 (gemm_$ROWSx$COLS_i16.ts), every run as two, a loop over the parts of
 * a run around the loop over its steps.
 */
import { mac, scaled } from './dot';
import * as fmt from './format/format';
import { Codes7 } from './format/grid';
import { G0, G1, G2, G3, splat } from './format/group';
import { CODES, MARKS } from './panel_size';
import { COLS_REST, end_super_block, lane_sums_ahead } from './tile_$ROWSx$COLS';

const CENTRE = memory.data<u8>([64]);

/**
 * As gemm_$ROWSx$COLS. w: the panel. A half sub-block in the panel is:
 *
 *   | 4 steps of 4 k, 4 bytes of each row a step | scales, i16 twice |
 */
export function gemm_$ROWSx$COLS_grid(w: usize, a: usize, acc: usize, n: i32): void {
  const zero = i32x4.splat(0);
  const bytes: usize = ($(ROWS / 8) * CODES) / 2;
  let marks = load<u32>(w + MARKS());
  for (; n > 0; n--) {
    // $for c of 0..COLS
    let i$g$c = zero; // $for g of 0..GROUPS
    // $end
    let scales = w + bytes;
    let left = 16;
    do {
      let first$v = fmt.offset<Codes7>(lane_sums_ahead<Codes7>(a + $(16 * v), left & 1)); // $for v of 0..VECTORS
      let end = scales;
      if ((marks & 1) != 0) {
        end = w + bytes / 2;
        const centre = v128.load8_splat(CENTRE);
        first$v = i16x8.neg(mac(mac(zero, v128.load(a, $(16 * v)), centre), v128.load(a, $(4 * COLS + 16 * v)), centre)); // $for v of 0..VECTORS
      }
      // $for c, v, lane of COLUMNS
      let s0$c = splat<G$lane>(first$v);
      let s$g$c = s0$c; // $for g of 1..GROUPS
      // $end
      for (; w != end; w += $(16 * GROUPS)) {
        const w$g = v128.load(w, $(16 * g)); // $for g of 0..GROUPS
        let x: v128;
        // $for c of 0..COLS
        x = v128.load32_splat(a, $(4 * c));
        s$g$c = mac(s$g$c, x, w$g); // $for g of 0..GROUPS
        // $end
        a += $(4 * COLS);
      }
      const sc$g = v128.load(scales, $(16 * g)); // $for g of 0..GROUPS
      // $for c of 0..COLS
      i$g$c = i32x4.add(i$g$c, scaled(s$g$c, sc$g)); // $for g of 0..GROUPS
      // $end
      if (w != scales) continue;
      marks >>= 1;
      w += $(16 * GROUPS);
      scales = w + bytes;
      if ((left & 1) != 0) a += COLS_REST;
      left--;
    } while (left > 0);
    end_super_block<Codes7>(
      w,
      a,
      acc,
      // $for c of 0..COLS
      i$g$c, // $for g of 0..GROUPS
      // $end
    );
    w += $(16 * GROUPS);
  }
}
