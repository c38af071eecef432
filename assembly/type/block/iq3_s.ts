/**
 * iq3_s: 256 elements in 110 bytes, x = d * (2 * scale + 1) * sign * grid value; sub-blocks of 32.
 *
 *   0        2                    66                   74                 106                110
 *   | d: f16 | 64 x u8: grid      | qh: 64 x 1 bit:    | 32 x 8 sign bits | 8 scales of 4    |
 *              index, low 8 bits    ninth bits                               bits
 */
import { f16_to_f32 } from '../../simd';
import { grid4, iq3s_grid } from './iq_grids';
import { negate_where, store_i8_scaled } from './words';

@inline
const BYTES: usize = 110;

export function dequantize_row_iq3_s(x: usize, y: usize, k: i32): void {
  for (const end = y + (<usize>k << 2); y < end; x += BYTES) {
    const d = f16_to_f32(load<u16>(x));
    for (let j: usize = 0; j < 16; j++, y += 64) {
      const high = <u32>load<u8>(x + (j >> 1), 66) >> (4 * <u32>(j & 1));
      const p = x + 4 * j;
      const a = <u32>load<u8>(p, 2) | ((high & 1) << 8);
      const b = <u32>load<u8>(p, 3) | ((high & 2) << 7);
      const c = <u32>load<u8>(p, 4) | ((high & 4) << 6);
      const e = <u32>load<u8>(p, 5) | ((high & 8) << 5);
      const scale = (<u32>load<u8>(x + (j >> 2), 106) >> (2 * <u32>(j & 2))) & 15;
      const q = grid4(iq3s_grid(), a, b, c, e);
      store_i8_scaled(y, negate_where(q, load<u16>(x + 2 * j, 74)), f32x4.splat(d * <f32>((scale << 1) | 1)));
    }
  }
}
