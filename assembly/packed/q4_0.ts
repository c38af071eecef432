/**
 * q4_0x16: 16 rows of q4_0 side by side, 288 bytes for 16 x 32 weights.
 *
 *   | d of rows 0..15, f16 (32) | quad 0: rows 0..3, 4..7, 8..11, 12..15 (4 x 16) | quad 1 (64) | quad 2 (64) | quad 3 (64) |
 *
 * Byte i of a group's quad t is byte 4t + i % 4 of row i / 4: low nibble k = 4t + i % 4, high nibble k + 16, as in q4_0 itself.
 * Codes stay unsigned, weight = d * (code - 8).
 */
import { load_scales, pack_f16, pack_nibbles } from './group';

/** Bytes of a block of one row: f16 d, 16 bytes of nibbles. */
const BYTES: usize = 18;

@unmanaged
export class Q4_0 {
  narrow: bool;

  // @ts-ignore: decorator
  @inline
  bytes(): usize { return 16 * BYTES; }

  // @ts-ignore: decorator
  @inline
  quads(w: usize, sub: i32): usize { return w + 32; }

  // @ts-ignore: decorator
  @inline
  d<G>(w: usize): v128 { return load_scales<G>(w); }

  // @ts-ignore: decorator
  @inline
  offset(pair: v128): v128 { return i16x8.shl(pair, 3); }

  // @ts-ignore: decorator
  @inline
  center(): f32 { return 8; }

  /** One block of 16 rows at `src`, `stride` bytes apart, to w. */
  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src, stride, w);
    pack_nibbles(src + 2, stride, w + 32);
  }
}
