/**
 * iq1_m: 256 elements in 56 bytes, x = d * (2 * scale + 1) * (grid value +- 1/8); sub-blocks of 16.
 *
 *   0                                 32                        48                            56
 *   | 32 x u8: grid index, low 8 bits | qh: 32 x 4 bits:        | 4 x u16: 4 x 3 bits scale,  |
 *                                       3 index, 1 minus 1/8      4 bits of d (f16)
 */
import { f16_to_f32 } from '../../simd';
import { grid2, iq1s_grid } from './iq_grids';
import { store_i8_scaled } from './words';

@inline
const BYTES: usize = 56;

export function dequantize_row_iq1_m(x: usize, y: usize, k: i32): void {
  for (const end = y + (<usize>k << 2); y < end; x += BYTES) {
    const top = (load<u64>(x, 48) >> 12) & 0x000f000f000f000f; // one nibble of d in each u16
    const d = f16_to_f32(<u32>(top | (top >> 12) | (top >> 24) | (top >> 36)) & 0xffff);
    for (let j: usize = 0; j < 16; j++, y += 64) {
      const qh = <u32>load<u8>(x + j, 32);
      const a = <u32>load<u8>(x + 2 * j) | ((qh & 0x07) << 8);
      const b = <u32>load<u8>(x + 2 * j, 1) | ((qh & 0x70) << 4);
      // Includes the 8 of the grid.
      // prettier-ignore
      const eighth = i8x16.shuffle(
        i8x16.splat(qh & 0x08 ? -9 : -7), i8x16.splat(qh & 0x80 ? -9 : -7),
        0, 0, 0, 0, 0, 0, 0, 0, 16, 16, 16, 16, 16, 16, 16, 16,
      );
      const scale = (<u32>load<u16>(x + 2 * (j >> 2), 48) >> (3 * <u32>(j & 3))) & 7;
      const dl = d * <f32>((scale << 1) | 1);
      store_i8_scaled(y, i8x16.add(grid2(iq1s_grid(), a, b), eighth), f32x4.splat(dl * <f32>0.125));
    }
  }
}
