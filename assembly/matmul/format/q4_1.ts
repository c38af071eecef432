/**
 * q4_1x16: 16 rows of q4_1 side by side, 320 bytes for 16 x 32 weights; weight = d * code + m.
 *
 *   | d of rows 0..15, f16 (32) | m (32) | quads 0..3 (4 x 64), as in q4_0x16 |
 */
import { Q4_1_Facts } from './facts';
import { pack_f16, pack_nibbles } from './group';

@unmanaged
export class Q4_1 extends Q4_1_Facts {
  @inline codes_at(w: usize, sub: i32): usize {
    return w + 64;
  }

  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src, stride, w);
    pack_f16(src + 2, stride, w + 32);
    pack_nibbles(src + 4, stride, w + 64);
  }
}
