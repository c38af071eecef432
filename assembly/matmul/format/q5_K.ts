/**
 * q5_Kx16: 16 rows of q5_K side by side, 2816 bytes for 16 x 256 weights; weight = d * sc * code -
 * dmin * mn.
 *
 *   | d of rows 0..15, f16 (32) | dmin (32) | scales (96, six_bits.ts) | minima (96) |
 *   | 8 sub-blocks (8 x 320) |
 *   sub-block: | rests of the four groups (64, five_bits.ts) | quads 0..3 (4 x 64) |
 */
import { Q5_K_Facts } from './facts';
import { join_codes, store_fifth_bits } from './five_bits';
import { pack_k_nibbles, pack_k_scales } from './k_scales';

/** Bytes of a packed sub-block. */
const SUB: usize = 320;

@unmanaged
export class Q5_K extends Q5_K_Facts {
  @inline codes_at(w: usize, sub: i32): usize {
    return w + 320 + <usize>sub * SUB;
  }
  @inline rests_at(w: usize, sub: i32): usize {
    return w + 256 + <usize>sub * SUB;
  }

  pack(src: usize, stride: usize, w: usize): void {
    pack_k_scales(src, stride, w);
    pack_k_nibbles(src + 48, stride, this.codes_at(w, 0), SUB);
    for (let sub = 0; sub < 8; sub++) {
      // Bit `sub` of byte k is the fifth bit of weight k of the sub-block.
      const h = this.rests_at(w, sub);
      for (let g: usize = 0; g < 4; g++) store_fifth_bits(h + (g << 4), src + g * 4 * stride + 16, stride, sub);
      join_codes(h);
    }
  }
}
