/**
 * q4_Kx16: 16 rows of q4_K side by side, 2304 bytes for 16 x 256 weights; weight = d * sc * code -
 * dmin * mn.
 *
 *   | d of rows 0..15, f16 (32) | dmin (32) | scales (96, six_bits.ts) | minima (96) |
 *   | 8 sub-blocks: quads 0..3 (4 x 64) |
 */
import { Q4_K_Facts } from './facts';
import { pack_k_nibbles, pack_k_scales } from './k_scales';

@unmanaged
export class Q4_K extends Q4_K_Facts {
  @inline codes_at(w: usize, sub: i32): usize {
    return w + 256 + (<usize>sub << 8);
  }

  pack(src: usize, stride: usize, w: usize): void {
    pack_k_scales(src, stride, w);
    pack_k_nibbles(src + 16, stride, this.codes_at(w, 0), 256);
  }
}
