/**
 * iq2_s: 256 elements in 82 bytes, x = d * (scale + 0.5) / 4 * sign * grid value; sub-blocks of 16.
 *
 *   0        2                     34                 66                  74               82
 *   | d: f16 | 32 x u8: grid       | 32 x 8 sign bits | qh: 32 x 2 bits:  | 16 scales of   |
 *              index, low 8 bits                        index, high bits    4 bits
 */
import { f16_to_f32 } from '../../simd';
import { grid2, iq2s_grid } from './iq_grids';
import { negate_where, store_i8_scaled } from './words';

@inline
const BYTES: usize = 82;

export function dequantize_row_iq2_s(x: usize, y: usize, k: i32): void {
  for (const end = y + (<usize>k << 2); y < end; x += BYTES) {
    const d = f16_to_f32(load<u16>(x));
    for (let j: usize = 0; j < 16; j++, y += 64) {
      const high = <u32>load<u8>(x + (j >> 1), 66) >> (4 * <u32>(j & 1));
      const a = <u32>load<u8>(x + 2 * j, 2) | ((high & 3) << 8);
      const b = <u32>load<u8>(x + 2 * j, 3) | ((high & 12) << 6);
      const scale = (<u32>load<u8>(x + (j >> 1), 74) >> (4 * <u32>(j & 1))) & 15;
      const q = grid2(iq2s_grid(), a, b);
      store_i8_scaled(y, negate_where(q, load<u16>(x + 2 * j, 34)), f32x4.splat(d * (<f32>0.5 + <f32>scale) * <f32>0.25));
    }
  }
}
