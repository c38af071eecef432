/**
 * iq2_sx16: 16 rows of iq2_s side by side, 1312 bytes for 16 x 256 weights (grid.ts).
 *
 *   pair: | indices (64) | signs, 8 bytes for 8 steps of a row (4 x 2 x 8) |
 *         | two planes: bits 8 and 9 of indices (16) | scales of halves, a nibble a row (16) |
 */
import { iq2s_grid } from '../../type/block/iq_grids';
import { IQ2_S_Facts } from './facts';
import { PAIRS, open_eights, open_half_scales, open_signs } from './grid';

/**
 * Bytes of a block of one row: f16 d, 32 indices, 32 signs, 32 x 2 bits of indices, 16 nibbles of
 * scales.
 */
const BYTES: usize = 82;
const PAIR: usize = 2 * (BYTES - 2);

@unmanaged
export class IQ2_S extends IQ2_S_Facts {
  /** Opens the pairs of the packed block at w to o. */
  open(w: usize, o: usize): void {
    open_eights(w + PAIRS, o, PAIR, iq2s_grid(), 2, 128);
    open_signs(w + PAIRS + 64, o, PAIR);
    open_half_scales(w + PAIRS + 144, o, PAIR);
  }

  @inline planes(): usize {
    return 2;
  }
  @inline high(): usize {
    return 128;
  }
  @inline scales(): i32 {
    return 16;
  }
  @inline entries(): usize {
    return iq2s_grid();
  }
  @inline level_shift(): i32 {
    return 4;
  }

  @inline entry(row: usize, t: i32): u32 {
    const high = (<u32>load<u8>(row + (t >> 2), 64) >> (<u32>(t & 3) << 1)) & 3;
    return <u32>load<u8>(row + t) | (high << 8) | (<u32>load<u8>(row + t, 32) << 24);
  }

  @inline scale(row: usize, half: i32): u32 {
    return (<u32>load<u8>(row + (half >> 1), 72) >> (<u32>(half & 1) << 2)) & 15;
  }
}
