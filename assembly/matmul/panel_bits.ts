/**
 * Panels of codes of 1 and 2 bits without integer scales (format/few_bits.ts).
 *
 *   64 weights of 8 rows in a panel:  | two sub-blocks: codes as in panel.ts | d (2 x 16) |
 */
import { store_quad } from './dot';
import * as fmt from './format/format';
import { G0, G1, G2, G3, load_scales } from './format/group';
import { PANEL } from './panel_room';
import { CODES } from './panel_size';

/** Copies the scales of 16 rows at w to two panels. */
@inline
export function store_scales(panel: usize, w: usize): void {
  v128.store(panel, load_scales<G0>(w));
  v128.store(panel, load_scales<G1>(w), 16);
  v128.store(panel + PANEL(), load_scales<G2>(w));
  v128.store(panel + PANEL(), load_scales<G3>(w), 16);
}

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
      store_scales(panel, w);
      panel += 32;
    }
    w = q;
  }
}
