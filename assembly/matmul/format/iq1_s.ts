/**
 * iq1_sx16: 16 rows of iq1_s side by side, 800 bytes for 16 x 256 weights (grid.ts).
 *
 *   pair: | indices (64) | three planes: bits 8, 9 and 10 of indices (24) |
 *         | 8 bytes, a nibble a row: scale (3 bits) and delta bit (1: plus an eighth) |
 */
import { iq1s_grid } from '../../type/block/iq_grids';
import { IQ1_S_Facts } from './facts';
import { PAIRS, open_eights, open_sub_scales } from './grid';

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

  @inline planes(): usize {
    return 3;
  }
  @inline high(): usize {
    return 64;
  }
  @inline entries(): usize {
    return iq1s_grid();
  }
  @inline level_shift(): i32 {
    return 3;
  }

  /** The top byte is 255 for a delta of plus an eighth, else 0 (levels.ts). */
  @inline entry(row: usize, t: i32): u32 {
    const qh = <u32>load<u16>(row + (<usize>(t >> 2) << 1), 32);
    return <u32>load<u8>(row + t) | (((qh >> (3 * (t & 3))) & 7) << 8) | (((qh >> 15) - 1) << 24);
  }

  /** The top bit of a plain scale is 1 for minus an eighth; packed, it is the opposite. */
  @inline scale(row: usize, sub: i32): u32 {
    return (<u32>load<u16>(row + (<usize>sub << 1), 32) >> 12) ^ 8;
  }
}
