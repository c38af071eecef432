/**
 * iq1_s: 256 elements in 50 bytes, x = d * (2 * scale + 1) * (grid value +- 1/8); sub-blocks of 32.
 *
 *   0        2                                 34                                           50
 *   | d: f16 | 32 x u8: grid index, low 8 bits | 8 x u16: 4 x 3 bits index, 3 bits scale,   |
 *                                                top bit: minus an eighth
 */
import { f16_to_f32 } from '../../simd';
import { grid2, iq1s_grid } from './iq_grids';
import { store_i8_scaled } from './words';

@inline
const BYTES: usize = 50;

export function dequantize_row_iq1_s(x: usize, y: usize, k: i32): void {
  for (const end = y + (<usize>k << 2); y < end; x += BYTES) {
    const d = f16_to_f32(load<u16>(x));
    for (let j: usize = 0; j < 16; j++, y += 64) {
      const qh = <u32>load<u16>(x + (j & 14), 34);
      const high = qh >> (6 * <u32>(j & 1));
      const a = <u32>load<u8>(x + 2 * j, 2) | ((high & 7) << 8);
      const b = <u32>load<u8>(x + 2 * j, 3) | ((high & 56) << 5);
      const eighth = i8x16.splat(qh & 0x8000 ? -9 : -7); // includes the 8 of the grid
      const dl = d * <f32>(((qh >> 11) & 14) | 1);
      store_i8_scaled(y, i8x16.add(grid2(iq1s_grid(), a, b), eighth), f32x4.splat(dl * <f32>0.125));
    }
  }
}
