/**
 * iq1_mx16: 16 rows of iq1_m side by side, 896 bytes for 16 x 256 weights (grid.ts).
 *
 *   pair: | indices (64) | four planes: bits 8, 9 and 10 of indices, delta bits (32) |
 *         | scales of halves: low two bits (8), top bits (4) |
 *
 * Byte i of the low bits holds halves i and 8 + i of the first row, then of the second. Bit b of
 * byte j of the top bits belongs to half 4 * (b % 4) + j of row b / 4. A delta bit is 1 for plus an
 * eighth.
 */
import { splat_u6 } from '../../simd';
import { iq1s_grid } from '../../type/block/iq_grids';
import { IQ1_M_Facts } from './facts';
import { OPENED, PAIRS, open_eights, store_deltas, store_half_scales } from './grid';

/**
 * Bytes of a block of one row: 32 indices, 32 nibbles (index bits and delta bit), four u16 (four
 * scales of 3 bits, a nibble of d).
 */
const BYTES: usize = 56;
const PAIR: usize = 2 * (BYTES - 2);

/** Bits 0, 1, 2 and 3, four bytes each. */
const TOP = memory.data<u32>([0x01010101, 0x02020202, 0x04040404, 0x08080808], 16);

@unmanaged
export class IQ1_M extends IQ1_M_Facts {
  /** Opens the pairs of the packed block at w to o. */
  open(w: usize, o: usize): void {
    const one = splat_u6(1);
    const three = splat_u6(3);
    const four = splat_u6(4);
    const bits = v128.load(TOP);
    open_eights(w + PAIRS, o, PAIR, iq1s_grid(), 3, 64);
    const end = w + PAIRS + 8 * PAIR;
    for (let p = w + PAIRS; p != end; p += PAIR, o += OPENED) {
      const plus = v128.load64_zero(p, 88);
      for (let sub: usize = 0; sub < 8; sub++) store_deltas(o, sub, v128.and(i16x8.shr_u(plus, <i32>sub), one));
      const q = v128.load64_splat(p, 96);
      const low = i64x2.shuffle(q, i16x8.shr_u(q, 2), 0, 3);
      const top = v128.load32_splat(p, 104);
      store_half_scales(
        o,
        v128.or(v128.and(low, three), v128.and(i8x16.eq(v128.and(top, bits), bits), four)),
        v128.or(v128.and(i16x8.shr_u(low, 4), three), v128.and(i8x16.eq(v128.and(i16x8.shr_u(top, 4), bits), bits), four)),
      );
    }
  }

  @inline plain(): usize {
    return 0;
  }
  @inline planes(): usize {
    return 4;
  }
  @inline high(): usize {
    return 64;
  }
  @inline scales(): i32 {
    return 16;
  }
  @inline entries(): usize {
    return iq1s_grid();
  }
  @inline level_shift(): i32 {
    return 3;
  }

  /**
   * The top bit of a plain nibble is 1 for minus an eighth: then the top byte is 0, else 255
   * (levels.ts).
   */
  @inline entry(row: usize, t: i32): u32 {
    const high = (<u32>load<u8>(row + (t >> 1), 32) >> (<u32>(t & 1) << 2)) & 15;
    return <u32>load<u8>(row + t) | ((high ^ 8) << 8) | (((high >> 3) - 1) << 24);
  }

  @inline scale(row: usize, half: i32): u32 {
    return <u32>(load<u64>(row, 48) >> ((half >> 2) * 16 + (half & 3) * 3)) & 7;
  }

  /** Packs the scales of halves. */
  pack_scales(src: usize, stride: usize, w: usize): void {
    for (let r: usize = 0; r < 16; r++) {
      const p = w + PAIRS + (r >> 1) * PAIR + 96;
      const row = <u32>(r & 1) << 2;
      for (let half: u32 = 0; half < 16; half++) {
        const s = this.scale(src + r * stride, half);
        const low = p + (half & 7);
        store<u8>(low, load<u8>(low) | ((s & 3) << (row + ((half >> 3) << 1))));
        const top = p + 8 + (half & 3);
        store<u8>(top, load<u8>(top) | ((s >> 2) << (row + (half >> 2))));
      }
    }
  }

  /** Packs d of 16 rows. A plain block has it in the top nibbles of four u16. */
  pack_d(src: usize, stride: usize, w: usize): void {
    for (let r: usize = 0; r < 16; r++) {
      const d = (load<u64>(src + r * stride, 48) >> 12) & 0x000f000f000f000f;
      store<u16>(w + (r << 1), <u16>(d | (d >> 12) | (d >> 24) | (d >> 36)));
    }
  }
}
