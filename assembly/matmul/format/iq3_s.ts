/**
 * iq3_sx16: 16 rows of iq3_s side by side, 1760 bytes for 16 x 256 weights (grid.ts).
 *
 *   pair: | indices (128) | signs, 8 bytes for 8 steps of a row (4 x 2 x 8) |
 *         | a plane: ninth bits of indices (16) | scales of sub-blocks, a nibble a row (8) |
 */
import { iq3s_grid } from '../../type/block/iq_grids';
import { IQ3_S_Facts } from './facts';
import { PAIRS, open_fours, open_signs, open_sub_scales } from './grid';

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

  @inline planes(): usize {
    return 1;
  }
  @inline high(): usize {
    return 192;
  }
  @inline entries(): usize {
    return iq3s_grid();
  }
  @inline level_shift(): i32 {
    return 1;
  }

  @inline entry(row: usize, t: i32): u32 {
    const i = <u32>load<u16>(row + (<usize>t << 1));
    const high = (<u32>load<u8>(row + (t >> 2), 64) >> (<u32>(t & 3) << 1)) & 3;
    return (i & 255) | ((high & 1) << 8) | ((i >> 8) << 12) | ((high >> 1) << 20) | (<u32>load<u8>(row + t, 72) << 24);
  }

  @inline scale(row: usize, sub: i32): u32 {
    return (<u32>load<u8>(row + (sub >> 1), 104) >> (<u32>(sub & 1) << 2)) & 15;
  }
}
