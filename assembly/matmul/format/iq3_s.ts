/**
 * iq3_sx16: 16 rows of iq3_s side by side, 1760 bytes for 16 x 256 weights (grid.ts).
 *
 *   pair: | indices (128) | signs, 8 bytes a row: 4 x 16 | a plane: ninth bits of indices (16) |
 *         | scales, a nibble a row: 8 |
 */
import { iq3s_grid } from '../../type/block/iq_grids';
import { IQ3_S_Facts } from './facts';
import { PAIRS, open_fours, open_signs, open_sub_scales, pack_grid } from './grid';
import { pack_f16 } from './group';
import { pack_levels } from './levels';

/** Bytes of a block of one row: f16 d, 64 indices, 64 ninth bits, 32 signs, 8 nibbles of scales. */
const BYTES: usize = 110;
const PAIR: usize = 2 * (BYTES - 2);

@unmanaged
export class IQ3_S extends IQ3_S_Facts {
  /** Opens the pairs of the packed block at w to o. */
  open(w: usize, o: usize): void {
    open_fours(w + PAIRS, o, PAIR, iq3s_grid(), 192);
    open_signs(w + PAIRS + 128, o, PAIR);
    open_sub_scales(w + PAIRS + 208, o, PAIR, false);
  }

  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src, stride, w);
    // prettier-ignore
    pack_grid(src + 2, stride, w + PAIRS, PAIR, true, 1, 192, 128, 8, load<u32>(changetype<usize>(entry)), 8, load<u32>(changetype<usize>(scale)));
  }

  /** Packs the same weights as levels (levels.ts). */
  pack_fast(src: usize, stride: usize, w: usize): void {
    pack_f16(src, stride, w);
    // prettier-ignore
    pack_levels(src + 2, stride, w, iq3s_grid(), true, 1, 8, load<u32>(changetype<usize>(entry)), 8, load<u32>(changetype<usize>(scale)));
  }
}

function entry(row: usize, t: i32): u32 {
  const i = <u32>load<u16>(row + (<usize>t << 1));
  const high = (<u32>load<u8>(row + (t >> 2), 64) >> (<u32>(t & 3) << 1)) & 3;
  return (i & 255) | ((high & 1) << 8) | ((i >> 8) << 12) | ((high >> 1) << 20) | (<u32>load<u8>(row + t, 72) << 24);
}

function scale(row: usize, sub: i32): u32 {
  return (<u32>load<u8>(row + (sub >> 1), 104) >> (<u32>(sub & 1) << 2)) & 15;
}
