/** Panels of codes of base 3 (format/tq1_0.ts), in the layout of panel_bits.ts. */
import { store_quad } from './dot';
import { bound1, bound2, first_trits, last_quads_at, last_trits, next_trits, runs_at } from './format/tq1_0';
import { store_scales } from './panel_bits';
import { PANEL } from './panel_room';
import { CODES } from './panel_size';

/** Unpacks n blocks of 16 packed rows at w to two panels of 8 rows. */
export function unpack_trits(w: usize, n: i32, panel: usize): void {
  const b1 = bound1();
  const b2 = bound2();
  for (; n > 0; n--) {
    let q = runs_at(w);
    const last = last_quads_at(w);
    for (let run = 0; run < 4; run++, q += 192) {
      for (let g: usize = 0; g < 4; g++) {
        const p = panel + (g & 1) * 16 + (g >> 1) * PANEL();
        for (let v: usize = 0; v < 3; v++) {
          let x = v128.load(q + (v << 6) + (g << 4));
          for (let i: usize = 0; i < 5; i++) {
            store_quad(p, 5 * v + i, first_trits(x, b1, b2));
            x = next_trits(x);
          }
        }
        store_quad(p, 15, last_trits(v128.load(last + (g << 4)), run));
      }
      panel += 2 * CODES;
      store_scales(panel, w);
      panel += 32;
    }
    w = q;
  }
}
