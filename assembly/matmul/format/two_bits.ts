/**
 * Two-bit fields of plain q2_K, q3_K and q6_K, 64 bytes a row at p. Sub-block `sub` (0..7) has bits
 * 2 * (sub % 4) and up of bytes 32 * (sub / 4) .. + 31. Returns the 16 fields of one half, a byte
 * each.
 */
@inline
export function two_bits(p: usize, sub: i32, half: usize): v128 {
  return v128.and(i16x8.shr_u(v128.load(p + (<usize>(sub >> 2) << 5) + (half << 4)), (sub & 3) << 1), i8x16.splat(3));
}
