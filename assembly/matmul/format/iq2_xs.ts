/**
 * iq2_xsx16: 16 rows of iq2_xs side by side, 1184 bytes for 16 x 256 weights (grid.ts).
 *
 *   pair: | indices (64) | signs, 7 bytes a row: 4 x 14 | a plane: ninth bits of indices (8) |
 *         | scales of halves, a nibble a row: 16 |
 */
import { iq2xs_grid } from '../../type/block/iq_grids';
import { IQ2_XS_Facts } from './facts';
import { PAIRS, open_eights, open_half_scales, open_seven_signs, pack_grid } from './grid';
import { pack_f16 } from './group';
import { pack_levels } from './levels';

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

  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src, stride, w);
    // prettier-ignore
    pack_grid(src + 2, stride, w + PAIRS, PAIR, false, 1, 120, 64, 7, load<u32>(changetype<usize>(entry)), 16, load<u32>(changetype<usize>(scale)));
  }

  /** Packs the same weights as levels (levels.ts). */
  pack_fast(src: usize, stride: usize, w: usize): void {
    pack_f16(src, stride, w);
    // prettier-ignore
    pack_levels(src + 2, stride, w, iq2xs_grid(), false, 4, 7, load<u32>(changetype<usize>(entry)), 16, load<u32>(changetype<usize>(scale)));
  }
}

function entry(row: usize, t: i32): u32 {
  const x = <u32>load<u16>(row + (<usize>t << 1));
  return (x & 511) | ((x >> 9) << 24);
}

function scale(row: usize, half: i32): u32 {
  return (<u32>load<u8>(row + (half >> 1), 64) >> (<u32>(half & 1) << 2)) & 15;
}
