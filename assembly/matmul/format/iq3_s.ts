/**
 * iq3_sx16: 16 rows of iq3_s side by side, 1760 bytes for 16 x 256 weights (grid.ts).
 *
 *   pair: | indices (128) | signs, 8 bytes a row: 4 x 16 | a plane: their ninth bits (16) | scales, a nibble a row: 8 |
 */
import { held } from '../../simd';
import { iq3s_grid } from '../../type/block/iq_grids';
import { OPENED, PAIRS, SignedFours, pack_grid, store_addresses, store_signs, store_sub_scales, sub_nibbles } from './grid';
import { pack_f16 } from './group';

/** Bytes of a block of one row: f16 d, 64 indices, 64 ninth bits, 32 signs, 8 nibbles of scales. */
const BYTES: usize = 110;
const PAIR: usize = 2 * (BYTES - 2);

@unmanaged
export class IQ3_S extends SignedFours {
  @inline bytes(): usize {
    return 16 * BYTES;
  }
  @inline factor(): f32 {
    return 1;
  }

  /** Opens the pairs of the packed block at w to o. */
  open(w: usize, o: usize): void {
    const one = held(1);
    const end = w + PAIRS + 8 * PAIR;
    for (let p = w + PAIRS; p != end; p += PAIR, o += OPENED) {
      const ninth = v128.load(p, 192);
      for (let v: usize = 0; v < 8; v++)
        store_addresses(o, v, v128.load(p + (v << 4)), v128.and(i16x8.shr_u(ninth, <i32>v), one), iq3s_grid(), 2);
      for (let v: usize = 0; v < 4; v++) store_signs(o, v, v128.load(p + (v << 4), 128));
      store_sub_scales(o, sub_nibbles(p + 208));
    }
  }

  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src, stride, w);
    // prettier-ignore
    pack_grid(src + 2, stride, w + PAIRS, PAIR, true, 1, 192, 128, 8, load<u32>(changetype<usize>(entry)), 8, load<u32>(changetype<usize>(scale)));
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
