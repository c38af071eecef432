/**
 * iq2_xs: 256 elements in 74 bytes, x = d * (scale + 0.5) / 4 * sign * grid value; sub-blocks of
 * 16.
 *
 *   0        2                                                66                      74
 *   | d: f16 | 32 x u16: 9 bits grid index, 7 sign bits       | 16 scales of 4 bits   |
 *              (the eighth sign follows from parity)
 */
import { f16_to_f32 } from '../../simd';
import { even_signs, grid2, iq2xs_grid } from './iq_grids';
import { negate_where, store_i8_scaled } from './words';

@inline
const BYTES: usize = 74;

export function dequantize_row_iq2_xs(x: usize, y: usize, k: i32): void {
  for (const end = y + (<usize>k << 2); y < end; x += BYTES) {
    const d = f16_to_f32(load<u16>(x));
    for (let j: usize = 0; j < 16; j++, y += 64) {
      const a = <u32>load<u16>(x + 4 * j, 2);
      const b = <u32>load<u16>(x + 4 * j, 4);
      const scale = (<u32>load<u8>(x + (j >> 1), 66) >> (4 * <u32>(j & 1))) & 15;
      const q = grid2(iq2xs_grid(), a & 511, b & 511);
      store_i8_scaled(
        y,
        negate_where(q, even_signs(a >> 9) | (even_signs(b >> 9) << 8)),
        f32x4.splat(d * (<f32>0.5 + <f32>scale) * <f32>0.25),
      );
    }
  }
}
