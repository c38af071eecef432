/**
 * iq2_xsx16: 16 rows of iq2_xs side by side, 1184 bytes for 16 x 256 weights (grid.ts).
 *
 *   pair: | indices (64) | signs, 7 bytes for 8 steps of a row (4 x 2 x 7) |
 *         | a plane: ninth bits of indices (8) | scales of halves, a nibble a row (16) |
 */
import { iq2xs_grid } from '../../type/block/iq_grids';
import { IQ2_XS_Facts } from './facts';
import { PAIRS, open_eights, open_half_scales, open_seven_signs } from './grid';

/** Bytes of a block of one row: f16 d, 32 u16 (index and signs), 16 nibbles of scales. */
const BYTES: usize = 74;
const PAIR: usize = 2 * (BYTES - 2);

@unmanaged
export class IQ2_XS extends IQ2_XS_Facts {
  /** Opens the pairs of the packed block at w to o. */
  open(w: usize, o: usize): void {
    open_eights(w + PAIRS, o, PAIR, iq2xs_grid(), 1, 120);
    open_seven_signs(w + PAIRS + 64, o, PAIR);
    open_half_scales(w + PAIRS + 128, o, PAIR);
  }

  @inline planes(): usize {
    return 1;
  }
  @inline high(): usize {
    return 120;
  }
  @inline sign_bytes(): usize {
    return 7;
  }
  @inline scales(): i32 {
    return 16;
  }
  @inline entries(): usize {
    return iq2xs_grid();
  }
  @inline level_shift(): i32 {
    return 4;
  }

  @inline entry(row: usize, t: i32): u32 {
    const x = <u32>load<u16>(row + (<usize>t << 1));
    return (x & 511) | ((x >> 9) << 24);
  }

  @inline scale(row: usize, half: i32): u32 {
    return (<u32>load<u8>(row + (half >> 1), 64) >> (<u32>(half & 1) << 2)) & 15;
  }
}
