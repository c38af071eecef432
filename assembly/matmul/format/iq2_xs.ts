/**
 * iq2_xsx16: 16 rows of iq2_xs side by side, 1184 bytes for 16 x 256 weights (grid.ts).
 *
 *   pair: | indices (64) | signs, 7 bytes a row: 4 x 14 | a plane: their ninth bits (8) | scales of halves, a nibble a row: 16 |
 */
import { iq2xs_grid } from '../../type/block/iq_grids';
import {
  OPENED,
  PAIRS,
  SignedEights,
  open_half_scales,
  pack_grid,
  plane,
  plane_bits,
  seven_signs,
  store_addresses,
  store_signs,
} from './grid';
import { pack_f16 } from './group';

/** Bytes of a block of one row: f16 d, 32 u16 of index and signs, 16 nibbles of scales. */
const BYTES: usize = 74;
const PAIR: usize = 2 * (BYTES - 2);

@unmanaged
export class IQ2_XS extends SignedEights {
  @inline bytes(): usize {
    return 16 * BYTES;
  }
  @inline factor(): f32 {
    return 0.125;
  }

  /** Opens the pairs of the packed block at w to o. */
  open(w: usize, o: usize): void {
    const end = w + PAIRS + 8 * PAIR;
    for (let p = w + PAIRS; p != end; p += PAIR, o += OPENED) {
      const ninth = plane(p + 120);
      for (let v: usize = 0; v < 4; v++) {
        store_addresses(o, v, v128.load(p + (v << 4)), plane_bits(ninth, <i32>v, 0), iq2xs_grid(), 3);
        store_signs(o, v, seven_signs(p + 64 + v * 14));
      }
      open_half_scales(o, p + 128);
    }
  }

  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src, stride, w);
    // prettier-ignore
    pack_grid(src + 2, stride, w + PAIRS, PAIR, false, 1, 120, 64, 7, load<u32>(changetype<usize>(entry)), 16, load<u32>(changetype<usize>(scale)));
  }
}

function entry(row: usize, t: i32): u32 {
  const x = <u32>load<u16>(row + (<usize>t << 1));
  return (x & 511) | ((x >> 9) << 24);
}

function scale(row: usize, half: i32): u32 {
  return (<u32>load<u8>(row + (half >> 1), 64) >> (<u32>(half & 1) << 2)) & 15;
}
