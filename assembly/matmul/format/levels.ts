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
 * No file and no plain row has these formats: pack_levels.ts makes them from rows of the grid formats.
 */
import { splat_u6 } from '../../simd';
import { IQ1_LEVELS_Facts, IQ2_LEVELS_Facts, IQ3_S_LEVELS_Facts, IQ3_XXS_LEVELS_Facts } from './facts';

/** Offsets of scales and codes in a packed block. */
export const SCALES_AT: usize = 32;
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
 * Scales of a sub-block's half as 2 * scale + 1, one unsigned byte a row: byte 4r + g belongs to
 * row r of group g (six_bits.ts).
 */
@inline
export function level_scales(w: usize, sub: usize, half: i32): v128 {
  const v = v128.load(w + (sub << 4), SCALES_AT);
  return v128.or(v128.and(half != 0 ? i16x8.shr_u(v, 3) : i16x8.shl(v, 1), splat_u6(30)), splat_u6(1));
}
