/**
 * mxfp4x16: 16 rows of mxfp4 side by side, 272 bytes for 16 x 32 weights; weight = 2^(e - 128) *
 * (code - 12).
 *
 *   | e of rows 0..15, u8 (16) |
 *   | quad 0: rows 0..3, 4..7, 8..11, 12..15 (4 x 16) | quads 1..3 (3 x 64) |
 *
 * A nibble is an index into ggml's values, which are doubled: -12..12. Codes are the values + 12,
 * so that they are unsigned.
 */
import { lookup16 } from '../../simd';
import { MXFP4_Facts } from './facts';
import { group_u8, pack_bytes, pack_nibbles } from './group';

/** ggml's kvalues_mxfp4 + 12; then 2^23 and 2^21, four times each. */
const VALUES: usize = memory.data<u32>(
  [
    0x0f0e0d0c, 0x18141210, 0x090a0b0c, 0x00040608, 0x00800000, 0x00800000, 0x00800000, 0x00800000, 0x00200000, 0x00200000, 0x00200000,
    0x00200000,
  ],
  16,
);

/** Table of codes, indexed by nibble. */
@inline
export function e2m1_codes(): v128 {
  return v128.load(VALUES);
}

@unmanaged
export class MXFP4 extends MXFP4_Facts {
  @inline codes_at(w: usize, sub: i32): usize {
    return w + 16;
  }
  @inline mask2(): v128 {
    return e2m1_codes();
  }
  @inline first(v: v128, m: v128, m2: v128): v128 {
    return lookup16(m2, v128.and(v, m));
  }
  @inline second(v: v128, m: v128, m2: v128): v128 {
    return lookup16(m2, v128.and(i16x8.shr_u(v, 4), m));
  }

  /**
   * 2^(e - 128). Its bits are (e - 1) << 23, or (e + 1) << 21 for e < 2, where the number is
   * subnormal. As integers, the larger of the two is right.
   */
  @inline d<G>(w: usize): v128 {
    const e = group_u8<G>(v128.load(w));
    return i32x4.max_s(i32x4.sub(i32x4.shl(e, 23), v128.load(VALUES, 16)), i32x4.add(i32x4.shl(e, 21), v128.load(VALUES, 32)));
  }

  /**
   * Packs one block of each of 16 rows. E8M0 scales reach the end of f32, and ggml's quantiser
   * gives the largest ones to blocks of subnormal numbers, whose codes are all 0 or -0. Unsigned
   * codes have nonzero sums, so such a scale would give Inf - Inf: these blocks get the smallest
   * scale instead.
   */
  pack(src: usize, stride: usize, w: usize): void {
    pack_bytes(src, stride, 1, w);
    for (let r: usize = 0; r < 16; r++)
      if (!v128.any_true(v128.and(v128.load(src + r * stride, 1), i8x16.splat(0x77)))) store<u8>(w + r, 0);
    pack_nibbles(src + 1, stride, w + 16);
  }
}
