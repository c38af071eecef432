/**
 * q4_0x16: 16 rows of q4_0 side by side, 288 bytes for 16 x 32 weights; weight = d * (code - 8).
 *
 *   | d of rows 0..15, f16 (32) |
 *   | quad 0: rows 0..3, 4..7, 8..11, 12..15 (4 x 16) | quads 1..3 (3 x 64) |
 *
 * Byte i of a group's quad t is byte 4t + i % 4 of row i / 4 (some builds have another order:
 * dot.ts). As in q4_0 itself, the low nibble is k = 4t + i % 4, the high one k + 16.
 */
import { Q4_0_Facts } from './facts';
import { pack_f16, pack_nibbles } from './group';

@unmanaged
export class Q4_0 extends Q4_0_Facts {
  @inline codes_at(w: usize, sub: i32): usize {
    return w + 32;
  }

  /** Packs one block of each of 16 rows, `stride` bytes apart at `src`, to w. */
  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src, stride, w);
    pack_nibbles(src + 2, stride, w + 32);
  }
}
