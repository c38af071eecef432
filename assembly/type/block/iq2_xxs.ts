/**
 * iq2_xxs: 256 elements in 66 bytes, x = d * (scale + 0.5) / 4 * sign * grid value; sub-blocks of
 * 32.
 *
 *   0        2                                                                       66
 *   | d: f16 | 8 x { 4 x u8 grid index, u32: 4 x 7 sign bits, 4 bits scale }         |
 *
 * The eighth sign of each seven follows from parity.
 */
import { f16_to_f32 } from '../../simd';
import { even_signs, grid2, iq2xxs_grid } from './iq_grids';
import { negate_where, store_i8_scaled } from './words';

@inline
const BYTES: usize = 66;

export function dequantize_row_iq2_xxs(x: usize, y: usize, k: i32): void {
  for (const end = y + (<usize>k << 2); y < end; x += BYTES) {
    const d = f16_to_f32(load<u16>(x));
    for (let p = x + 2, p_end = x + BYTES; p < p_end; p += 8, y += 128) {
      let bits = load<u32>(p, 4);
      const db = f32x4.splat(d * (<f32>0.5 + <f32>(bits >> 28)) * <f32>0.25);
      for (let l: usize = 0; l < 4; l += 2, bits >>= 14) {
        const q = grid2(iq2xxs_grid(), load<u8>(p + l), load<u8>(p + l, 1));
        store_i8_scaled(y + 32 * l, negate_where(q, even_signs(bits) | (even_signs(bits >> 7) << 8)), db);
      }
    }
  }
}
