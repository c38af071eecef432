/**
 * q6_Kx16: 16 rows of q6_K side by side, 3360 bytes for 16 x 256 weights; weight = d * sc * (code -
 * 32), with sc for 16 weights.
 *
 *   | d of rows 0..15, f16 (32) | scales: 16 halves x 16 rows, i8 (256) |
 *   | 8 sub-blocks of two halves (16 x 192) |
 *   half: | quads 0, 1 and 2 (3 x 64) | quad 3: in the free bits of all of them (s16.ts) |
 */
import { bytes_0x3f } from './constants';
import { Q6_K_Facts } from './facts';
import { pack_bytes, pack_f16 } from './group';
import { store_six_bit_quads } from './s16';
import { two_bits } from './two_bits';

@unmanaged
export class Q6_K extends Q6_K_Facts {
  @inline codes_at(w: usize, sub: i32): usize {
    return w + 288 + <usize>sub * 384;
  }
  @inline mask(): v128 {
    return bytes_0x3f();
  }
  @inline mask2(): v128 {
    return bytes_0x3f();
  }
  @inline sc(w: usize, i: i32): v128 {
    return v128.load(this.scales_at(w, i));
  }

  /**
   * Address of the scales of half i (0..15), a signed byte a row. The next half's are 16 bytes
   * further.
   */
  @inline scales_at(w: usize, i: i32): usize {
    return w + 32 + (<usize>i << 4);
  }

  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src + 208, stride, w);
    pack_bytes(src + 192, stride, 16, w + 32);
    for (let sub = 0; sub < 8; sub++) {
      for (let i: usize = 0; i < 8; i++) {
        const p = src + (i >> 1) * 4 * stride;
        const h = i & 1;
        store_six_bit_quads(
          this.codes_at(w, sub) + h * 192 + ((i >> 1) << 4),
          codes(p, sub, h),
          codes(p + stride, sub, h),
          codes(p + stride * 2, sub, h),
          codes(p + stride * 3, sub, h),
        );
      }
    }
  }
}

/**
 * 16 codes of one half of a row's sub-block. In ql, sub-block s has the nibbles of bytes 64 * (s /
 * 4) + 32 * (s % 2) and up: the low ones if s % 4 < 2, else the high ones.
 */
@inline
function codes(row: usize, sub: i32, half: usize): v128 {
  const p = row + (<usize>(sub >> 2) << 6) + (<usize>(sub & 1) << 5) + (half << 4);
  return v128.or(v128.and(i16x8.shr_u(v128.load(p), (sub & 2) << 1), i8x16.splat(15)), i16x8.shl(two_bits(row + 128, sub, half), 4));
}
