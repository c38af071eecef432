/**
 * What q4_K and q5_K share: eight scales and eight minima of 6 bits, 12 bytes a row (packed: 96 bytes of scales, then 96 of minima, six_bits.ts),
 * and the order of nibbles.
 *
 * Minima lie for i16 products with the activations' sums of two runs: vector 2p + h is of runs 2p, 2p + 1 and of groups 2h, 2h + 1. In an i16
 * the low byte is of the even group, the high one of the odd group, whose minima are multiplied where they are, 256 times too large.
 */
import { low_nibbles } from './group';
import { get_six, put_six, six_at, six_bits } from './six_bits';
import { words_0x003f, words_0x3f00 } from './w16';

// @ts-ignore: decorator
@inline
export function k_scale(p: usize, s: i32): v128 { return six_bits(p, s, true); }

/** Minima of group G in vector v of `k_mins`, each run's in an i16. */
// @ts-ignore: decorator
@inline
export function k_min<G>(v: v128): v128 { return v128.and(v, (offsetof<G>() & 16) != 0 ? words_0x3f00() : words_0x003f()); }

// @ts-ignore: decorator
@inline
export function k_mins(p: usize, i: i32): v128 { return six_bits(p + 96, i, false); }

// @ts-ignore: decorator
@inline
function mins_vector(s: usize, row: usize): usize { return (s >> 1) << 1 | row >> 3; }

// @ts-ignore: decorator
@inline
function mins_byte(s: usize, row: usize): usize { return (row & 3) << 2 | (s & 1) << 1 | (row >> 2 & 1); }

/** Scale, and minimum, of one row's run s. */
export function k_scale_of(p: usize, s: usize, row: usize): u32 { return get_six(p, s, six_at(row)); }

export function k_min_of(p: usize, s: usize, row: usize): u32 { return get_six(p + 96, mins_vector(s, row), mins_byte(s, row)); }

/**
 * The 12 bytes at `src` of 16 rows to p. In a row, bytes 0..3 hold scales 0..3 and bytes 4..7 minima 0..3 in six bits; bytes 8..11 the low
 * nibbles of scales (low) and minima (high) 4..7, whose top bits are bits 6, 7 of bytes 0..3 and 4..7.
 */
export function pack_k_scales(src: usize, stride: usize, p: usize): void {
  for (let s: usize = 0; s < 8; s++) {
    for (let r: usize = 0; r < 16; r++) {
      const row = src + r * stride + (s & 3);
      const a = <u32>load<u8>(row), b = <u32>load<u8>(row, 4), c = <u32>load<u8>(row, 8);
      put_six(p, s, six_at(r), s < 4 ? a & 63 : (c & 15) | a >> 6 << 4);
      put_six(p + 96, mins_vector(s, r), mins_byte(s, r), s < 4 ? b & 63 : c >> 4 | b >> 6 << 4);
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
