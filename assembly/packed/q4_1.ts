/**
 * q4_1x16: 16 rows of q4_1 side by side, 320 bytes for 16 x 32 weights; weight = d * code + m.
 *
 *   | d of rows 0..15, f16 (32) | m (32) | quad 0: rows 0..3, 4..7, 8..11, 12..15 (4 x 16) | quad 1 (64) | quad 2 (64) | quad 3 (64) |
 */
import { load_scales, pack_f16, pack_nibbles } from './group';

/** Bytes of a block of one row: f16 d, f16 m, 16 bytes of nibbles. */
const BYTES: usize = 20;

@unmanaged
export class Q4_1 {
  // @ts-ignore: decorator
  @inline
  bytes(): usize { return 16 * BYTES; }

  // @ts-ignore: decorator
  @inline
  quads(w: usize, sub: i32): usize { return w + 64; }

  // @ts-ignore: decorator
  @inline
  d<G>(w: usize): v128 { return load_scales<G>(w); }

  // @ts-ignore: decorator
  @inline
  dmin<G>(w: usize): v128 { return load_scales<G>(w + 32); }

  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src, stride, w);
    pack_f16(src + 2, stride, w + 32);
    pack_nibbles(src + 4, stride, w + 64);
  }
}
