/**
 * iq4_xsx16: 16 rows of iq4_xs side by side, 2176 bytes for 16 x 256 weights; weight = d * sc *
 * level(nibble), with the levels of iq4_nl.
 *
 *   | d of rows 0..15, f16 (32) | signed scales (96, six_bits.ts) |
 *   | 8 sub-blocks: quads 0..3 (4 x 64) |
 *
 * Scales are packed without the offset of 32 that iq4_xs has.
 */
import { IQ4_XS_Facts } from './facts';
import { pack_f16, pack_nibbles } from './group';
import { put_six, scale_byte, six_bits } from './six_bits';

@unmanaged
export class IQ4_XS extends IQ4_XS_Facts {
  @inline codes_at(w: usize, sub: i32): usize {
    return w + 128 + (<usize>sub << 8);
  }
  @inline sc(w: usize, i: i32): v128 {
    return six_bits(w + 32, i, false);
  }

  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src, stride, w);
    for (let r: usize = 0; r < 16; r++) {
      const row = src + r * stride;
      const top = <u32>load<u16>(row, 2);
      for (let i: usize = 0; i < 8; i++) {
        const low = (<u32>load<u8>(row + (i >> 1), 4) >> (<u32>(i & 1) << 2)) & 15;
        put_six(w + 32, i, scale_byte(r), (low | (((top >> (<u32>i << 1)) & 3) << 4)) ^ 32);
      }
    }
    for (let sub = 0; sub < 8; sub++) pack_nibbles(src + 8 + (<usize>sub << 4), stride, this.codes_at(w, sub));
  }
}
