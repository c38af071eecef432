/**
 * q5_1x16: 16 rows of q5_1 side by side, 384 bytes for 16 x 32 weights; weight = d * code + m.
 *
 *   | d of rows 0..15, f16 (32) | m (32) | fifth bits of the four groups (64) | low nibbles of quads 0..3 (4 x 64) |
 *
 * A byte of fifth bits serves one k % 4 of one row: bit t for the low part of quad t, bit 4 + t for its high part.
 * i16 has room for sums of code - 16 only; 16 * (sum of the activations) is added in i32 (`biased`).
 */
import { bits_0x10, load_scales, pack_bits, pack_f16, pack_nibbles } from './group';

/** Bytes of a block of one row: f16 d, f16 m, 32 fifth bits, 16 bytes of nibbles. */
const BYTES: usize = 24;

@unmanaged
export class Q5_1 {
  biased: bool;

  // @ts-ignore: decorator
  @inline
  bytes(): usize { return 16 * BYTES; }

  // @ts-ignore: decorator
  @inline
  quads(w: usize, sub: i32): usize { return w + 128; }

  // @ts-ignore: decorator
  @inline
  high(w: usize, sub: i32): usize { return w + 64; }

  // @ts-ignore: decorator
  @inline
  mask2(): v128 { return bits_0x10(); }

  // @ts-ignore: decorator
  @inline
  bits<G>(h: usize, t: i32): v128 { return i16x8.shr_u(v128.load(h, offsetof<G>()), t); }

  // @ts-ignore: decorator
  @inline
  lo(v: v128, h: v128, m: v128, m2: v128): v128 { return v128.or(v128.and(v, m), v128.and(i16x8.shl(h, 4), m2)); }

  // @ts-ignore: decorator
  @inline
  hi(v: v128, h: v128, m: v128, m2: v128): v128 { return v128.or(v128.and(i16x8.shr_u(v, 4), m), v128.and(h, m2)); }

  // @ts-ignore: decorator
  @inline
  d<G>(w: usize): v128 { return load_scales<G>(w); }

  // @ts-ignore: decorator
  @inline
  dmin<G>(w: usize): v128 { return load_scales<G>(w + 32); }

  // @ts-ignore: decorator
  @inline
  offset(pair: v128): v128 { return i16x8.shl(pair, 4); }

  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src, stride, w);
    pack_f16(src + 2, stride, w + 32);
    pack_bits(src + 4, stride, w + 64);
    pack_nibbles(src + 8, stride, w + 128);
  }
}
