/**
 * mxfp4x16: 16 rows of mxfp4 side by side, 272 bytes for 16 x 32 weights; weight = 2^(e - 128) * value(code).
 *
 *   | e of rows 0..15, u8 (16) | quad 0: rows 0..3, 4..7, 8..11, 12..15 (4 x 16) | quad 1 (64) | quad 2 (64) | quad 3 (64) |
 *
 * Values are doubled, -12..12, and here 12 more, so that codes stay unsigned.
 */
import { lookup16 } from '../simd';
import { group_u8, pack_bytes, pack_nibbles } from './group';

/** Bytes of a block of one row: e, 16 bytes of nibbles. */
const BYTES: usize = 17;

/** ggml's kvalues_mxfp4 + 12. */
const VALUES: usize = memory.data<u8>([12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0], 16);

@unmanaged
export class MXFP4 {
  // @ts-ignore: decorator
  @inline
  heads(): i32 { return 0; }

  // @ts-ignore: decorator
  @inline
  bytes(): usize { return 16 * BYTES; }

  // @ts-ignore: decorator
  @inline
  quads(w: usize, sub: i32): usize { return w + 16; }

  // @ts-ignore: decorator
  @inline
  mask2(): v128 { return v128.load(VALUES); }

  // @ts-ignore: decorator
  @inline
  lo(v: v128, h: v128, m: v128, m2: v128): v128 { return lookup16(m2, v128.and(v, m)); }

  // @ts-ignore: decorator
  @inline
  hi(v: v128, h: v128, m: v128, m2: v128): v128 { return lookup16(m2, v128.and(i16x8.shr_u(v, 4), m)); }

  // @ts-ignore: decorator
  @inline
  offset(pair: v128): v128 { return i16x8.add(i16x8.shl(pair, 3), i16x8.shl(pair, 2)); }

  // @ts-ignore: decorator
  @inline
  center(): f32 { return 12; }

  /** e - 1 is the exponent of 2^(e - 128); for e < 2 the number is subnormal: 2^21 << e as bits. */
  // @ts-ignore: decorator
  @inline
  d<G>(w: usize): v128 {
    const e = group_u8<G>(v128.load(w)), one = i32x4.splat(1);
    const normal = i32x4.shl(i32x4.sub(e, one), 23), subnormal = i32x4.add(i32x4.splat(0x00200000), i32x4.shl(e, 21));
    return v128.bitselect(normal, subnormal, i32x4.gt_s(e, one));
  }

  pack(src: usize, stride: usize, w: usize): void {
    pack_bytes(src, stride, 1, w);
    pack_nibbles(src + 1, stride, w + 16);
  }
}
