/**
 * iq1_levels, iq2_levels, iq3_xxs_levels and iq3_s_levels: the unpacked forms (`fast` in
 * src/type-traits.ts) of weights whose codes are entries of a grid (grid.ts). A grid has few
 * values: with signs, 6 in iq1_* and iq2_*, 16 in iq3_*. A code of 4 bits selects one (a level), so
 * products read no grid. A block takes 2208 bytes for 16 x 256 weights.
 *
 *   weight = d * factor * (2 * scale + 1) * level(code)        level(15 - code) = -level(code)
 *
 *   | d of rows 0..15, f16 (32) | scales of 8 times 2 halves, two nibbles a row (8 x 16) |
 *   | 8 sub-blocks: quads 0..3 (4 x 64), as in q4_0.ts |
 *
 * No file and no plain row has these formats: pack_levels makes them from rows of the grid formats.
 */
import { held } from '../../simd';
import { even_signs, grid2, grid4 } from '../../type/block/iq_grids';
import { spread_bits } from '../../type/block/words';
import { IQ1_LEVELS_Facts, IQ2_LEVELS_Facts, IQ3_S_LEVELS_Facts, IQ3_XXS_LEVELS_Facts } from './facts';
import { store_quads } from './group';
import { scale_byte } from './six_bits';

/** Offsets of scales and codes in a packed block. */
const SCALES: usize = 32;
export const CODES_AT: usize = 160;

/**
 * 16 levels for each, indexed by code: iq1_* (in eighths), iq2_*, iq3_xxs (half of the grid's
 * values), iq3_s.
 */
const LEVELS = memory.data<i8>(
  [
    -9, -1, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -7, 1, 9, 8, 25, 43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -43, -25, -8, 2, 6, 10, 14, 18, 22, 26, 31,
    -31, -26, -22, -18, -14, -10, -6, -2, 1, 3, 5, 7, 9, 11, 13, 15, -15, -13, -11, -9, -7, -5, -3, -1,
  ],
  16,
);

@unmanaged
export class IQ1_LEVELS extends IQ1_LEVELS_Facts {
  @inline levels(): usize {
    return LEVELS;
  }
}

@unmanaged
export class IQ2_LEVELS extends IQ2_LEVELS_Facts {
  @inline levels(): usize {
    return LEVELS + 16;
  }
}

@unmanaged
export class IQ3_XXS_LEVELS extends IQ3_XXS_LEVELS_Facts {
  @inline levels(): usize {
    return LEVELS + 32;
  }
}

@unmanaged
export class IQ3_S_LEVELS extends IQ3_S_LEVELS_Facts {
  @inline levels(): usize {
    return LEVELS + 48;
  }
}

/** Bytes of a packed block, the same for all four. */
@inline
export function levels_bytes(): usize {
  return changetype<IQ1_LEVELS>(0).bytes();
}

/**
 * Scales of a sub-block's half as 2 * scale + 1, one unsigned byte a row, in the order of
 * six_bits.ts.
 */
@inline
export function level_scales(w: usize, sub: usize, half: i32): v128 {
  const v = v128.load(w + (sub << 4), SCALES);
  return v128.or(v128.and(half != 0 ? i16x8.shr_u(v, 3) : i16x8.shl(v, 1), held(30)), held(1));
}

/**
 * Packs the codes and scales of one block of each of 16 plain rows.
 *
 * entry_at, lanes, scales and scale_at: as for pack_grid (grid.ts). Formats without signs have 255
 * in the top byte of entry_at's result if the delta is 7, else 0. shift: bits by which a value of
 * the grid is shifted right to give the index of its level.
 */
export function pack_levels(
  src: usize,
  stride: usize,
  w: usize,
  grid: usize,
  fours: bool,
  shift: i32,
  lanes: i32,
  entry_at: u32,
  scales: i32,
  scale_at: u32,
): void {
  for (let r: usize = 0; r < 16; r++) {
    for (let half = 0; half < 16; half++) {
      const p = w + SCALES + (<usize>(half >> 1) << 4) + scale_byte(r);
      const scale = call_indirect<u32>(scale_at, src + r * stride, scales == 16 ? half : half >> 1) & (lanes == 0 ? 7 : 15);
      store<u8>(p, half & 1 ? load<u8>(p) | (scale << 4) : scale);
    }
  }
  for (let sub = 0; sub < 8; sub++) {
    for (let g: usize = 0; g < 4; g++) {
      const p = src + 4 * g * stride;
      const r0 = row_codes(p, sub, grid, fours, shift, lanes, entry_at);
      const r1 = row_codes(p + stride, sub, grid, fours, shift, lanes, entry_at);
      const r2 = row_codes(p + stride * 2, sub, grid, fours, shift, lanes, entry_at);
      const r3 = row_codes(p + stride * 3, sub, grid, fours, shift, lanes, entry_at);
      store_quads(w + CODES_AT + (<usize>sub << 8) + (g << 4), r0, r1, r2, r3, 64);
    }
  }
}

/**
 * The codes of a row's sub-block: the first half's in the low nibbles, the second half's in the
 * high ones.
 */
function row_codes(row: usize, sub: i32, grid: usize, fours: bool, shift: i32, lanes: i32, entry_at: u32): v128 {
  const first = half_codes(row, 4 * sub, grid, fours, shift, lanes, entry_at);
  return v128.or(first, i16x8.shl(half_codes(row, 4 * sub + 2, grid, fours, shift, lanes, entry_at), 4));
}

/** The codes of steps t and t + 1 of a row. */
function half_codes(row: usize, t: i32, grid: usize, fours: bool, shift: i32, lanes: i32, entry_at: u32): v128 {
  const a = call_indirect<u32>(entry_at, row, t);
  const b = call_indirect<u32>(entry_at, row, t + 1);
  const values = fours ? grid4(grid, a & 0xfff, (a >> 12) & 0xfff, b & 0xfff, (b >> 12) & 0xfff) : grid2(grid, a & 0x7ff, b & 0x7ff);
  const codes = i8x16.shr_u(values, shift);
  const x = a >> 24;
  const z = b >> 24;
  const bits = spread_bits(lanes == 7 ? even_signs(x) | (even_signs(z) << 8) : x | (z << 8));
  return lanes != 0 ? v128.xor(codes, v128.and(bits, held(15))) : i8x16.add(codes, v128.and(bits, held(13)));
}
