/**
 * q3_Kx16: 16 rows of q3_K side by side, 1760 bytes for 16 x 256 weights; weight = d * sc * (code -
 * 4), with sc for 16 weights.
 *
 *   | d of rows 0..15, f16 (32) | scales, a: 8 x 16 rows (128) | scales, c: 4 x 16 rows (64) |
 *   | 8 sub-blocks (8 x 192) |
 *   sub-block: | quads 0 of both halves (64) | quads 1 (64) | quads 2 (64) |
 *              | quads 3: in the free bits of all of them (s16.ts) |
 *
 * Six bits are a code of the first half and, three bits higher, one of the second half. The latter
 * is multiplied without a shift, eight times too large.
 *
 * Byte a of sub-block s has scale 2s in its low six bits and the top bits of scale 2s + 1 above
 * them. The low nibble of scale 2s + 1 is in byte c of s % 4: in its low nibble for s < 4, else in
 * its high one. Scales keep their offset of 32, as in q3_K.
 */
import { splat_u6 } from '../../simd';
import { bytes_0x07, bytes_0x30, bytes_0x38, bytes_0x3f, low_nibbles } from './constants';
import { Q3_K_Facts } from './facts';
import { pack_codes, pack_f16 } from './group';
import { store_six_bit_quads } from './s16';
import { two_bits } from './two_bits';

@unmanaged
export class Q3_K extends Q3_K_Facts {
  @inline codes_at(w: usize, sub: i32): usize {
    return w + 224 + <usize>sub * 192;
  }
  @inline mask(): v128 {
    return bytes_0x07();
  }
  @inline mask2(): v128 {
    return bytes_0x38();
  }

  @inline sc(w: usize, i: i32): v128 {
    const a = v128.load(w + (<usize>(i >> 1) << 4), 32);
    if ((i & 1) == 0) return i8x16.sub(v128.and(a, bytes_0x3f()), splat_u6(32));
    let c = v128.load(w + (<usize>((i >> 1) & 3) << 4), 160);
    if (i >= 8) c = i16x8.shr_u(c, 4);
    return i8x16.sub(v128.or(v128.and(c, low_nibbles()), v128.and(i16x8.shr_u(a, 2), bytes_0x30())), splat_u6(32));
  }

  /** The codes of one row's sub-block, both halves in a byte. */
  @inline row_codes(row: usize, sub: i32): v128 {
    return v128.or(codes_of_half(row, sub, 0), i16x8.shl(codes_of_half(row, sub, 1), 3));
  }
  @inline store_codes(q: usize, r0: v128, r1: v128, r2: v128, r3: v128): void {
    store_six_bit_quads(q, r0, r1, r2, r3);
  }

  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src + 108, stride, w);
    for (let r: usize = 0; r < 16; r++) pack_scales(src + r * stride + 96, w + 32 + r);
    pack_codes<Q3_K>(src, stride, w);
  }
}

/** Codes of one half of a row's sub-block. Bit `sub` of byte k is the third bit of weight k. */
@inline
function codes_of_half(row: usize, sub: i32, half: usize): v128 {
  return v128.or(two_bits(row + 32, sub, half), i16x8.shl(v128.and(i16x8.shr_u(v128.load(row + (half << 4)), sub), i8x16.splat(1)), 2));
}

/**
 * Packs one row's 12 bytes of scales at src to its byte of 12 vectors, the first at p. Scales i < 8
 * have their low nibbles in the low nibbles of bytes 0..7, scales 8 + i in the high ones. The top
 * bits of scale i are bits 2 * (i / 4) .. of byte 8 + i % 4.
 */
function pack_scales(src: usize, p: usize): void {
  for (let s: usize = 0; s < 8; s++) {
    const a = scale(src, s << 1);
    const b = scale(src, (s << 1) | 1);
    const q = p + 128 + ((s & 3) << 4);
    store<u8>(p + (s << 4), a | ((b >> 4) << 6));
    store<u8>(q, s < 4 ? b & 15 : load<u8>(q) | (b << 4));
  }
}

/** Scale i of the 16 in the 12 plain bytes at src. */
function scale(src: usize, i: usize): u32 {
  const low = (<u32>load<u8>(src + (i & 7)) >> (i & 8 ? 4 : 0)) & 15;
  return low | (((<u32>load<u8>(src + 8 + (i & 3)) >> (<u32>(i >> 2) << 1)) & 3) << 4);
}
