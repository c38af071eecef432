/**
 * iq2_xxsx16: 16 rows of iq2_xxs side by side, 1056 bytes for 16 x 256 weights (grid.ts).
 *
 *   pair: | indices (64) | signs, 7 bytes for 8 steps of a row (4 x 2 x 7) |
 *         | scales of sub-blocks, a nibble a row (8) |
 */
import { iq2xxs_grid } from '../../type/block/iq_grids';
import { IQ2_XXS_Facts } from './facts';
import { PAIRS, open_eights, open_seven_signs, open_sub_scales } from './grid';

/** Bytes of a block of one row: f16 d, eight times 4 indices and an u32 of signs and scale. */
const BYTES: usize = 66;
const PAIR: usize = 2 * (BYTES - 2);

@unmanaged
export class IQ2_XXS extends IQ2_XXS_Facts {
  /** Opens the pairs of the packed block at w to o. */
  open(w: usize, o: usize): void {
    open_eights(w + PAIRS, o, PAIR, iq2xxs_grid(), 0, 0);
    open_seven_signs(w + PAIRS + 64, o, PAIR);
    open_sub_scales(w + PAIRS + 120, o, PAIR, false);
  }

  @inline sign_bytes(): usize {
    return 7;
  }
  @inline entries(): usize {
    return iq2xxs_grid();
  }
  @inline level_shift(): i32 {
    return 4;
  }

  @inline entry(row: usize, t: i32): u32 {
    const p = row + (<usize>(t >> 2) << 3);
    return <u32>load<u8>(p + (t & 3)) | ((load<u32>(p, 4) >> (7 * (t & 3))) << 24);
  }

  @inline scale(row: usize, sub: i32): u32 {
    return load<u32>(row + (<usize>sub << 3), 4) >> 28;
  }
}
