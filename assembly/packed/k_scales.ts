/**
 * The 6-bit scales and minima of q4_K and q5_K, 12 bytes a row: eight scales, eight minima. Packed, 192 bytes for 16 rows:
 *
 *   | nibbles of scale s (low) and minimum s (high), s = 0..7 (8 x 16 rows) | top bits (4 x 16 rows) |
 *
 * A byte of top bits t has two of scale 2t, of minimum 2t, of scale 2t + 1 and of minimum 2t + 1, from bit 0 up.
 */
import { bits_0x30, low_nibbles } from './group';

// @ts-ignore: decorator
@inline
export function k_scale(p: usize, s: i32): v128 {
  const n = v128.load(p + (<usize>s << 4)), top = i16x8.shr_u(v128.load(p + (<usize>(s >> 1) << 4), 128), (s & 1) << 2);
  return v128.or(v128.and(n, low_nibbles()), v128.and(i16x8.shl(top, 4), bits_0x30()));
}

// @ts-ignore: decorator
@inline
export function k_min(p: usize, s: i32): v128 {
  const n = v128.load(p + (<usize>s << 4)), top = i16x8.shr_u(v128.load(p + (<usize>(s >> 1) << 4), 128), (s & 1) << 2);
  return v128.or(v128.and(i16x8.shr_u(n, 4), low_nibbles()), v128.and(i16x8.shl(top, 2), bits_0x30()));
}

/**
 * The 12 bytes at `src` of 16 rows to p. In a row, bytes 0..3 hold scales 0..3 and bytes 4..7 minima 0..3 in six bits; bytes 8..11 the low
 * nibbles of scales (low) and minima (high) 4..7, whose top bits are bits 6, 7 of bytes 0..3 and 4..7.
 */
export function pack_k_scales(src: usize, stride: usize, p: usize): void {
  for (let r: usize = 0; r < 16; r++) {
    const row = src + r * stride;
    for (let s: usize = 0; s < 4; s++) {
      const a = <u32>load<u8>(row + s), b = <u32>load<u8>(row + s, 4), c = <u32>load<u8>(row + s, 8);
      store<u8>(p + (s << 4) + r, (a & 15) | b << 4);
      store<u8>(p + (s << 4) + r, c, 64);
      const low = (a >> 4 & 3) | (b >> 4 & 3) << 2, high = a >> 6 | b >> 6 << 2, shift = (s & 1) << 2;
      const q = p + 128 + (s >> 1 << 4) + r;
      store<u8>(q, shift ? load<u8>(q) | low << 4 : low);
      store<u8>(q, shift ? load<u8>(q, 32) | high << 4 : high, 32);
    }
  }
}

/** Run s of 8 has the low (s even) or high nibbles of bytes 32 (s / 2) .. + 31; here k 0..15 become low, k 16..31 high ones. */
// @ts-ignore: decorator
@inline
export function k_nibbles(qs: usize, sub: i32): v128 {
  const p = qs + (<usize>(sub >> 1) << 5), shift = (sub & 1) << 2, m = low_nibbles();
  return v128.or(v128.and(i16x8.shr_u(v128.load(p), shift), m), i16x8.shl(v128.and(i16x8.shr_u(v128.load(p, 16), shift), m), 4));
}
