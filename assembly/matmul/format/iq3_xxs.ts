/**
 * iq3_xxsx16: 16 rows of iq3_xxs side by side, 1568 bytes for 16 x 256 weights (grid.ts).
 *
 *   pair: | indices (128) | signs, 7 bytes for 8 steps of a row (4 x 2 x 7) |
 *         | scales of sub-blocks, a nibble a row (8) |
 */
import { iq3xxs_grid } from '../../type/block/iq_grids';
import { IQ3_XXS_Facts } from './facts';
import { PAIRS, open_fours, open_seven_signs, open_sub_scales } from './grid';

/** Bytes of a block of one row: f16 d, 64 indices, eight u32 of signs and scale. */
const BYTES: usize = 98;
const PAIR: usize = 2 * (BYTES - 2);

@unmanaged
export class IQ3_XXS extends IQ3_XXS_Facts {
  /** Opens the pairs of the packed block at w to o. */
  open(w: usize, o: usize): void {
    open_fours(w + PAIRS, o, PAIR, iq3xxs_grid(), 0);
    open_seven_signs(w + PAIRS + 128, o, PAIR);
    open_sub_scales(w + PAIRS + 184, o, PAIR, false);
  }

  @inline sign_bytes(): usize {
    return 7;
  }
  @inline entries(): usize {
    return iq3xxs_grid();
  }
  @inline level_shift(): i32 {
    return 3;
  }

  @inline entry(row: usize, t: i32): u32 {
    const i = <u32>load<u16>(row + (<usize>t << 1));
    return (i & 255) | ((i >> 8) << 12) | ((load<u32>(row + (<usize>(t >> 2) << 2), 64) >> (7 * (t & 3))) << 24);
  }

  @inline scale(row: usize, sub: i32): u32 {
    return load<u32>(row + (<usize>sub << 2), 64) >> 28;
  }
}
