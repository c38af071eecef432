/**
 * q8_0x16: 16 rows of q8_0 side by side, 544 bytes for 16 x 32 weights.
 *
 *   | d of rows 0..15, f16 (32) | quad 0: k 0..3 of the four groups (64), k 16..19 (64) | quad 1 (128) | quad 2 (128) | quad 3 (128) |
 *
 * Codes are the weights (+ 128 in some builds: wide.ts).
 */
import { load_scales, pack_f16, store_quads } from './group';
import { flipped } from './wide';

/** Bytes of a block of one row: f16 d, 32 i8. */
const BYTES: usize = 34;

/** 16 weights of four rows to a group's quads at q. */
function pack_half(p: usize, stride: usize, q: usize): void {
  store_quads(q, flipped(v128.load(p)), flipped(v128.load(p + stride)), flipped(v128.load(p + stride * 2)), flipped(v128.load(p + stride * 3)), 128);
}

@unmanaged
export class Q8_0 {
  // @ts-ignore: decorator
  @inline
  bytes(): usize { return 16 * BYTES; }

  wide: bool;

  // @ts-ignore: decorator
  @inline
  quads(w: usize, sub: i32): usize { return w + 32; }

  // @ts-ignore: decorator
  @inline
  quad_bytes(): usize { return 128; }

  // @ts-ignore: decorator
  @inline
  load_hi<G>(q: usize): v128 { return v128.load(q, offsetof<G>() + 64); }

  // @ts-ignore: decorator
  @inline
  lo(v: v128, h: v128, m: v128, m2: v128): v128 { return v; }

  // @ts-ignore: decorator
  @inline
  hi(v: v128, h: v128, m: v128, m2: v128): v128 { return v; }

  // @ts-ignore: decorator
  @inline
  d<G>(w: usize): v128 { return load_scales<G>(w); }

  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src, stride, w);
    for (let g: usize = 0; g < 4; g++) {
      const p = src + g * 4 * stride + 2, q = w + 32 + (g << 4);
      pack_half(p, stride, q);
      pack_half(p + 16, stride, q + 64);
    }
  }
}
