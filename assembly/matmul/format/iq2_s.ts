/**
 * iq2_sx16: 16 rows of iq2_s side by side, 1312 bytes for 16 x 256 weights (grid.ts).
 *
 *   pair: | indices (64) | signs, 8 bytes a row: 4 x 16 |
 *         | two planes: bits 8 and 9 of indices (16) | scales of halves, a nibble a row: 16 |
 */
import { iq2s_grid } from '../../type/block/iq_grids';
import { IQ2_S_Facts } from './facts';
import { PAIRS, open_eights, open_half_scales, open_signs, pack_grid } from './grid';
import { pack_f16 } from './group';
import { pack_levels } from './levels';

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

  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src, stride, w);
    // prettier-ignore
    pack_grid(src + 2, stride, w + PAIRS, PAIR, false, 2, 128, 64, 8, load<u32>(changetype<usize>(entry)), 16, load<u32>(changetype<usize>(scale)));
  }

  /** Packs the same weights as levels (levels.ts). */
  pack_fast(src: usize, stride: usize, w: usize): void {
    pack_f16(src, stride, w);
    // prettier-ignore
    pack_levels(src + 2, stride, w, iq2s_grid(), false, 4, 8, load<u32>(changetype<usize>(entry)), 16, load<u32>(changetype<usize>(scale)));
  }
}

function entry(row: usize, t: i32): u32 {
  const high = (<u32>load<u8>(row + (t >> 2), 64) >> (<u32>(t & 3) << 1)) & 3;
  return <u32>load<u8>(row + t) | (high << 8) | (<u32>load<u8>(row + t, 32) << 24);
}

function scale(row: usize, half: i32): u32 {
  return (<u32>load<u8>(row + (half >> 1), 72) >> (<u32>(half & 1) << 2)) & 15;
}
