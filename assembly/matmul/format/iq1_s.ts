/**
 * iq1_sx16: 16 rows of iq1_s side by side, 800 bytes for 16 x 256 weights (grid.ts).
 *
 *   pair: | indices (64) | three planes: bits 8, 9 and 10 of indices (24) |
 *         | 8 bytes, a nibble a row: scale (3 bits) and delta bit (1: plus an eighth) |
 */
import { iq1s_grid } from '../../type/block/iq_grids';
import { IQ1_S_Facts } from './facts';
import { PAIRS, open_eights, open_sub_scales, pack_grid } from './grid';
import { pack_f16 } from './group';
import { pack_levels } from './levels';

/**
 * Bytes of a block of one row: f16 d, 32 indices, eight u16 (four times 3 bits of indices, scale,
 * delta bit).
 */
const BYTES: usize = 50;
const PAIR: usize = 2 * (BYTES - 2);

@unmanaged
export class IQ1_S extends IQ1_S_Facts {
  /** Opens the pairs of the packed block at w to o. */
  open(w: usize, o: usize): void {
    open_eights(w + PAIRS, o, PAIR, iq1s_grid(), 3, 64);
    open_sub_scales(w + PAIRS + 88, o, PAIR, true);
  }

  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src, stride, w);
    // prettier-ignore
    pack_grid(src + 2, stride, w + PAIRS, PAIR, false, 3, 64, 0, 0, load<u32>(changetype<usize>(entry)), 8, load<u32>(changetype<usize>(scale)));
  }

  /** Packs the same weights as levels (levels.ts). */
  pack_fast(src: usize, stride: usize, w: usize): void {
    pack_f16(src, stride, w);
    // prettier-ignore
    pack_levels(src + 2, stride, w, iq1s_grid(), false, 3, 0, load<u32>(changetype<usize>(entry)), 8, load<u32>(changetype<usize>(scale)));
  }
}

/** The top byte is 255 for a delta of plus an eighth, else 0 (levels.ts). */
function entry(row: usize, t: i32): u32 {
  const qh = <u32>load<u16>(row + (<usize>(t >> 2) << 1), 32);
  return <u32>load<u8>(row + t) | (((qh >> (3 * (t & 3))) & 7) << 8) | (((qh >> 15) - 1) << 24);
}

/** The top bit of a plain scale is 1 for minus an eighth; packed, it is the opposite. */
function scale(row: usize, sub: i32): u32 {
  return (<u32>load<u16>(row + (<usize>sub << 1), 32) >> 12) ^ 8;
}
