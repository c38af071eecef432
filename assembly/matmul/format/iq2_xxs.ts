/**
 * iq2_xxsx16: 16 rows of iq2_xxs side by side, 1056 bytes for 16 x 256 weights (grid.ts).
 *
 *   pair: | indices (64) | signs, 7 bytes a row: 4 x 14 | scales, a nibble a row: 8 |
 */
import { iq2xxs_grid } from '../../type/block/iq_grids';
import { OPENED, PAIRS, SignedEights, pack_grid, seven_signs, store_addresses, store_signs, store_sub_scales, sub_nibbles } from './grid';
import { pack_f16 } from './group';

/** Bytes of a block of one row: f16 d, eight of 4 indices and u32 of signs and scale. */
const BYTES: usize = 66;
const PAIR: usize = 2 * (BYTES - 2);

@unmanaged
export class IQ2_XXS extends SignedEights {
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
      for (let v: usize = 0; v < 4; v++) {
        store_addresses(o, v, v128.load(p + (v << 4)), i32x4.splat(0), iq2xxs_grid(), 3);
        store_signs(o, v, seven_signs(p + 64 + v * 14));
      }
      store_sub_scales(o, sub_nibbles(p + 120));
    }
  }

  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src, stride, w);
    // prettier-ignore
    pack_grid(src + 2, stride, w + PAIRS, PAIR, false, 0, 0, 64, 7, load<u32>(changetype<usize>(entry)), 8, load<u32>(changetype<usize>(scale)));
  }
}

function entry(row: usize, t: i32): u32 {
  const p = row + (<usize>(t >> 2) << 3);
  return <u32>load<u8>(p + (t & 3)) | ((load<u32>(p, 4) >> (7 * (t & 3))) << 24);
}

function scale(row: usize, sub: i32): u32 {
  return load<u32>(row + (<usize>sub << 3), 4) >> 28;
}
