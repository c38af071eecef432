/**
 * q5_0x16: 16 rows of q5_0 side by side, 352 bytes for 16 x 32 weights; weight = d * (code - 16).
 *
 *   | d of rows 0..15, f16 (32) | rests of the four groups (64, five_bits.ts) |
 *   | quads 0..3 (4 x 64) |
 */
import { Q5_0_Facts } from './facts';
import { pack_fifth_bits } from './five_bits';
import { pack_f16, pack_nibbles } from './group';

@unmanaged
export class Q5_0 extends Q5_0_Facts {
  @inline codes_at(w: usize, sub: i32): usize {
    return w + 96;
  }
  @inline rests_at(w: usize, sub: i32): usize {
    return w + 32;
  }

  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src, stride, w);
    pack_nibbles(src + 6, stride, w + 96);
    pack_fifth_bits(src + 2, stride, w + 32);
  }
}
