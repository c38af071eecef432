/**
 * iq4_xsx16: 16 rows of iq4_xs side by side, 2176 bytes for 16 x 256 weights; weight = d * sc * level(code), the levels of iq4_nl.
 *
 *   | d of rows 0..15, f16 (32) | nibbles of scales 2s (low), 2s + 1 (high): 4 x 16 rows (64) | their top bits (32) | 8 runs: quads 0..3 (4 x 64) |
 *
 * A byte of top bits t has two of scales 4t .. 4t + 3, from bit 0 up; scales are kept with their offset of 32.
 */
import { bits_0x30, low_nibbles, pack_f16, pack_nibbles } from './group';
import { Levels } from './iq4_nl';

/** Bytes of a block of one row: f16 d, top bits of scales u16, nibbles of scales 4, nibbles 128. */
const BYTES: usize = 136;

@unmanaged
export class IQ4_XS extends Levels {
  super_block: bool;

  // @ts-ignore: decorator
  @inline
  bytes(): usize { return 16 * BYTES; }

  // @ts-ignore: decorator
  @inline
  quads(w: usize, sub: i32): usize { return w + 128 + (<usize>sub << 8); }

  // @ts-ignore: decorator
  @inline
  sc(w: usize, i: i32): v128 {
    const n = i16x8.shr_u(v128.load(w + (<usize>(i >> 1) << 4), 32), (i & 1) << 2);
    const top = i16x8.shr_u(v128.load(w + (<usize>(i >> 2) << 4), 96), (i & 3) << 1);
    return i8x16.sub(v128.or(v128.and(n, low_nibbles()), v128.and(i16x8.shl(top, 4), bits_0x30())), i8x16.splat(32));
  }

  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src, stride, w);
    for (let r: usize = 0; r < 16; r++) {
      const row = src + r * stride;
      for (let i: usize = 0; i < 4; i++) store<u8>(w + 32 + (i << 4) + r, load<u8>(row + i, 4));
      store<u8>(w + r, load<u8>(row, 2), 96);
      store<u8>(w + r, load<u8>(row, 3), 112);
    }
    for (let sub = 0; sub < 8; sub++) pack_nibbles(src + 8 + (<usize>sub << 4), stride, this.quads(w, sub));
  }
}
