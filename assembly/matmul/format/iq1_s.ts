/**
 * iq1_sx16: 16 rows of iq1_s side by side, 800 bytes for 16 x 256 weights (grid.ts).
 *
 *   pair: | indices (64) | three planes: bits 8, 9 and 10 of indices (24) | scales of 3 bits and, as the fourth, plus an eighth, a nibble a row: 8 |
 */
import { held } from '../../simd';
import { iq1s_grid } from '../../type/block/iq_grids';
import { Eights, OPENED, PAIRS, pack_grid, plane, plane_bits, store_addresses, store_deltas, store_sub_scales, sub_nibbles } from './grid';
import { pack_f16 } from './group';

/** Bytes of a block of one row: f16 d, 32 indices, eight u16 of four times 3 bits of indices and of scale and eighth. */
const BYTES: usize = 50;
const PAIR: usize = 2 * (BYTES - 2);

@unmanaged
export class IQ1_S extends Eights {
  @inline bytes(): usize {
    return 16 * BYTES;
  }
  @inline factor(): f32 {
    return 0.125;
  }

  /** Opens the pairs of the packed block at w to o. */
  open(w: usize, o: usize): void {
    const one = held(1);
    const end = w + PAIRS + 8 * PAIR;
    for (let p = w + PAIRS; p != end; p += PAIR, o += OPENED) {
      const a = plane(p + 64);
      const b = plane(p + 72);
      const c = plane(p + 80);
      const nibbles = sub_nibbles(p + 88);
      const plus = v128.and(i16x8.shr_u(nibbles, 3), one);
      for (let v: usize = 0; v < 4; v++) {
        const high = v128.or(v128.or(plane_bits(a, <i32>v, 0), plane_bits(b, <i32>v, 1)), plane_bits(c, <i32>v, 2));
        store_addresses(o, v, v128.load(p + (v << 4)), high, iq1s_grid(), 3);
      }
      // Sub-block s has two bytes, of either row: eight times for its four steps.
      const once = i16x8.shuffle(plus, plus, 0, 0, 1, 1, 2, 2, 3, 3);
      const later = i16x8.shuffle(plus, plus, 4, 4, 5, 5, 6, 6, 7, 7);
      for (let sub: usize = 0; sub < 4; sub++) {
        const lane = i8x16.add(i32x4.splat(0x03020100), i8x16.splat(<i8>(sub << 2)));
        store_deltas(o, sub, i8x16.swizzle(once, lane));
        store_deltas(o, sub + 4, i8x16.swizzle(later, lane));
      }
      store_sub_scales(o, v128.and(nibbles, held(7)));
    }
  }

  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src, stride, w);
    // prettier-ignore
    pack_grid(src + 2, stride, w + PAIRS, PAIR, false, 3, 64, 0, 0, load<u32>(changetype<usize>(entry)), 8, load<u32>(changetype<usize>(scale)));
  }
}

function entry(row: usize, t: i32): u32 {
  const high = (<u32>load<u16>(row + (<usize>(t >> 2) << 1), 32) >> (3 * (t & 3))) & 7;
  return <u32>load<u8>(row + t) | (high << 8);
}

/** The top bit of a plain scale says minus. */
function scale(row: usize, sub: i32): u32 {
  return (<u32>load<u16>(row + (<usize>sub << 1), 32) >> 12) ^ 8;
}
