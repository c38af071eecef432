/**
 * Packing of grid formats as levels (format/levels.ts). Such a format has these methods, besides
 * those of pack_grid.ts:
 *
 *   entries()     | address of the grid
 *   level_shift() | bits by which a value of the grid is shifted right to give its level's index
 *
 * Formats without signs have 255 in the top byte of entry() if the delta is 7, else 0.
 */
import { splat_u6 } from '../simd';
import { even_signs, grid2, grid4 } from '../type/block/iq_grids';
import { spread_bits } from '../type/block/words';
import * as fmt from './format/format';
import { store_quads } from './format/group';
import { CODES_AT, SCALES_AT } from './format/levels';
import { scale_byte } from './format/six_bits';
import { grid_entry, grid_scale } from './grid_rows';
import { pack_d, plain, scale_count, sign_bytes } from './pack_grid';

/** Packs one block of each of 16 plain rows. */
@inline
export function pack_levels<F>(type: u32, src: usize, stride: usize, w: usize): void {
  pack_d<F>(src, stride, w);
  pack_rows(
    type,
    src + plain<F>(),
    stride,
    w,
    changetype<F>(0).entries(),
    fmt.fours<F>(),
    changetype<F>(0).level_shift(),
    sign_bytes<F>(),
    scale_count<F>(),
  );
}

/** Packs codes and scales. lanes: sign_bytes of the format. */
function pack_rows(type: u32, src: usize, stride: usize, w: usize, grid: usize, fours: bool, shift: i32, lanes: usize, scales: i32): void {
  for (let r: usize = 0; r < 16; r++) {
    for (let half = 0; half < 16; half++) {
      const p = w + SCALES_AT + (<usize>(half >> 1) << 4) + scale_byte(r);
      const scale = grid_scale(type, src + r * stride, scales == 16 ? half : half >> 1) & (lanes == 0 ? 7 : 15);
      store<u8>(p, half & 1 ? load<u8>(p) | (scale << 4) : scale);
    }
  }
  for (let sub = 0; sub < 8; sub++) {
    for (let g: usize = 0; g < 4; g++) {
      const p = src + 4 * g * stride;
      const r0 = row_codes(type, p, sub, grid, fours, shift, lanes);
      const r1 = row_codes(type, p + stride, sub, grid, fours, shift, lanes);
      const r2 = row_codes(type, p + stride * 2, sub, grid, fours, shift, lanes);
      const r3 = row_codes(type, p + stride * 3, sub, grid, fours, shift, lanes);
      store_quads(w + CODES_AT + (<usize>sub << 8) + (g << 4), r0, r1, r2, r3, 64);
    }
  }
}

/**
 * The codes of a row's sub-block: the first half's in the low nibbles, the second half's in the
 * high ones.
 */
function row_codes(type: u32, row: usize, sub: i32, grid: usize, fours: bool, shift: i32, lanes: usize): v128 {
  const first = half_codes(type, row, 4 * sub, grid, fours, shift, lanes);
  return v128.or(first, i16x8.shl(half_codes(type, row, 4 * sub + 2, grid, fours, shift, lanes), 4));
}

/** The codes of steps t and t + 1 of a row. */
function half_codes(type: u32, row: usize, t: i32, grid: usize, fours: bool, shift: i32, lanes: usize): v128 {
  const a = grid_entry(type, row, t);
  const b = grid_entry(type, row, t + 1);
  const values = fours ? grid4(grid, a & 0xfff, (a >> 12) & 0xfff, b & 0xfff, (b >> 12) & 0xfff) : grid2(grid, a & 0x7ff, b & 0x7ff);
  const codes = i8x16.shr_u(values, shift);
  const x = a >> 24;
  const z = b >> 24;
  const bits = spread_bits(lanes == 7 ? even_signs(x) | (even_signs(z) << 8) : x | (z << 8));
  return lanes != 0 ? v128.xor(codes, v128.and(bits, splat_u6(15))) : i8x16.add(codes, v128.and(bits, splat_u6(13)));
}
