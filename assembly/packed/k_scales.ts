/** What q4_K and q5_K share: eight scales and eight minima of 6 bits, 12 bytes a row (packed: six_bits.ts, scales, then minima), and the order of nibbles. */
import { low_nibbles } from './group';
import { put_six, six_bits } from './six_bits';

// @ts-ignore: decorator
@inline
export function k_scale(p: usize, s: i32): v128 { return six_bits(p, s); }

// @ts-ignore: decorator
@inline
export function k_min(p: usize, s: i32): v128 { return six_bits(p + 96, s); }

/**
 * The 12 bytes at `src` of 16 rows to p. In a row, bytes 0..3 hold scales 0..3 and bytes 4..7 minima 0..3 in six bits; bytes 8..11 the low
 * nibbles of scales (low) and minima (high) 4..7, whose top bits are bits 6, 7 of bytes 0..3 and 4..7.
 */
export function pack_k_scales(src: usize, stride: usize, p: usize): void {
  for (let r: usize = 0; r < 16; r++) {
    for (let s: usize = 0; s < 8; s++) {
      const row = src + r * stride + (s & 3);
      const a = <u32>load<u8>(row), b = <u32>load<u8>(row, 4), c = <u32>load<u8>(row, 8);
      put_six(p, s, r, s < 4 ? a & 63 : (c & 15) | a >> 6 << 4);
      put_six(p + 96, s, r, s < 4 ? b & 63 : c >> 4 | b >> 6 << 4);
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
