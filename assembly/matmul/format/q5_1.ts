/**
 * q5_1x16: 16 rows of q5_1 side by side, 384 bytes for 16 x 32 weights; weight = d * code + m.
 *
 *   | d of rows 0..15, f16 (32) | m (32) | rests of the four groups (64, five_bits.ts) |
 *   | quads 0..3 (4 x 64) |
 */
import { Q5_1_Facts } from './facts';
import { pack_fifth_bits } from './five_bits';
import { pack_f16, pack_nibbles } from './group';

@unmanaged
export class Q5_1 extends Q5_1_Facts {
  @inline codes_at(w: usize, sub: i32): usize {
    return w + 128;
  }
  @inline rests_at(w: usize, sub: i32): usize {
    return w + 64;
  }

  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src, stride, w);
    pack_f16(src + 2, stride, w + 32);
    pack_nibbles(src + 8, stride, w + 128);
    pack_fifth_bits(src + 4, stride, w + 64);
  }
}
