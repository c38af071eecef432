/**
 * iq3_xxs: 256 elements in 98 bytes, x = d * (scale + 0.5) / 2 * sign * grid value; sub-blocks of
 * 32.
 *
 *   0        2                      66                                               98
 *   | d: f16 | 64 x u8 grid index   | 8 x u32: 4 x 7 sign bits, 4 bits scale         |
 *
 * The eighth sign of each seven follows from parity.
 */
import { f16_to_f32 } from '../../simd';
import { even_signs, grid4, iq3xxs_grid } from './iq_grids';
import { negate_where, store_i8_scaled } from './words';

@inline
const BYTES: usize = 98;

export function dequantize_row_iq3_xxs(x: usize, y: usize, k: i32): void {
  for (const end = y + (<usize>k << 2); y < end; x += BYTES) {
    const d = f16_to_f32(load<u16>(x));
    for (let j: usize = 0; j < 16; j++, y += 64) {
      const bits = load<u32>(x + 4 * (j >> 1), 66);
      const signs = bits >> (14 * <u32>(j & 1));
      const p = x + 4 * j;
      const q = grid4(iq3xxs_grid(), load<u8>(p, 2), load<u8>(p, 3), load<u8>(p, 4), load<u8>(p, 5));
      const db = d * (<f32>0.5 + <f32>(bits >> 28)) * <f32>0.5;
      store_i8_scaled(y, negate_where(q, even_signs(signs) | (even_signs(signs >> 7) << 8)), f32x4.splat(db));
    }
  }
}
