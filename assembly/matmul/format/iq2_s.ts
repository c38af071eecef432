/**
 * iq2_sx16: 16 rows of iq2_s side by side, 1312 bytes for 16 x 256 weights (grid.ts).
 *
 *   pair: | indices (64) | signs, 8 bytes a row: 4 x 16 | two planes: bits 8 and 9 of indices (16) | scales of halves, a nibble a row: 16 |
 */
import { iq2s_grid } from '../../type/block/iq_grids';
import { OPENED, PAIRS, SignedEights, open_half_scales, pack_grid, plane, plane_bits, store_addresses, store_signs } from './grid';
import { pack_f16 } from './group';

/** Bytes of a block of one row: f16 d, 32 indices, 32 signs, 32 x 2 bits of indices, 16 nibbles of scales. */
const BYTES: usize = 82;
const PAIR: usize = 2 * (BYTES - 2);

@unmanaged
export class IQ2_S extends SignedEights {
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
      const a = plane(p + 128);
      const b = plane(p + 136);
      for (let v: usize = 0; v < 4; v++) {
        const high = v128.or(plane_bits(a, <i32>v, 0), plane_bits(b, <i32>v, 1));
        store_addresses(o, v, v128.load(p + (v << 4)), high, iq2s_grid(), 3);
        store_signs(o, v, v128.load(p + (v << 4), 64));
      }
      open_half_scales(o, p + 144);
    }
  }

  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src, stride, w);
    // prettier-ignore
    pack_grid(src + 2, stride, w + PAIRS, PAIR, false, 2, 128, 64, 8, load<u32>(changetype<usize>(entry)), 16, load<u32>(changetype<usize>(scale)));
  }
}

function entry(row: usize, t: i32): u32 {
  const high = (<u32>load<u8>(row + (t >> 2), 64) >> (<u32>(t & 3) << 1)) & 3;
  return <u32>load<u8>(row + t) | (high << 8) | (<u32>load<u8>(row + t, 32) << 24);
}

function scale(row: usize, half: i32): u32 {
  return (<u32>load<u8>(row + (half >> 1), 72) >> (<u32>(half & 1) << 2)) & 15;
}
