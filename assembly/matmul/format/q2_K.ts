/**
 * q2_Kx16: 16 rows of q2_K side by side, 1344 bytes for 16 x 256 weights; weight = d * sc * code -
 * dmin * mn, with sc and mn for 16 weights.
 *
 *   | d of rows 0..15, f16 (32) | dmin (32) |
 *   | scales (low) and minima (high nibble): 16 halves x 16 rows (256) | 8 sub-blocks (8 x 128) |
 *   sub-block: | quads 0, 1 of both halves (64) | quads 2, 3 (64) |
 *
 * From bit 0 up, a byte has the even quad's code of the first half, then of the second half, then
 * the odd quad's of the first and of the second. Codes of the second half are multiplied without a
 * shift, four times too large: that saves a shift for each code and costs one for their sum.
 *
 * Builds with gemv_16x1_q2_K.ts have scales and codes in pair order (q2_K_pairs.ts): words 2t and
 * 2t + 1 of both halves take the place of quad t of either half.
 */
import { bytes_0x03, bytes_0x0c, low_nibbles, words_0x000f, words_0x00f0, words_0x0f00 } from './constants';
import { Q2_K_Facts } from './facts';
import { load_scales, pack_bytes, pack_codes, pack_f16, store_quads_as_nibbles } from './group';
import { join_halves, order_scales, scales_of_half, take_half } from './q2_K_pairs';
import { two_bits } from './two_bits';

@unmanaged
export class Q2_K extends Q2_K_Facts {
  @inline codes_at(w: usize, sub: i32): usize {
    return w + 320 + (<usize>sub << 7);
  }
  @inline mask(): v128 {
    return bytes_0x03();
  }
  @inline mask2(): v128 {
    return bytes_0x0c();
  }
  @inline sc(w: usize, i: i32): v128 {
    return v128.and(scales_of_half(w + 64, i), low_nibbles());
  }
  @inline mn(w: usize, i: i32): v128 {
    return v128.and(i16x8.shr_u(scales_of_half(w + 64, i), 4), low_nibbles());
  }

  @inline half_codes<G>(q: usize, half: i32, t: i32): v128 {
    const v = i16x8.shr_u(v128.load(q + (<usize>(t >> 1) << 6), offsetof<G>()), (t & 1) << 2);
    return take_half(v128.and(v, this.mask()), i16x8.shr_u(v128.and(v, this.mask2()), 2), half);
  }

  // For gemv_16x1_q2_K. An i16 has four nibbles: scale and minimum of an even group, then of an odd
  // group. Three of them are masked without a shift, too large by powers of two, which pair_d and
  // pair_dmin undo exactly.

  @inline pair_d<G>(w: usize): v128 {
    return (offsetof<G>() & 16) != 0 ? f32x4.mul(load_scales<G>(w), f32x4.splat(1.0 / 256)) : load_scales<G>(w);
  }
  @inline pair_dmin<G>(w: usize): v128 {
    return f32x4.mul(load_scales<G>(w + 32), f32x4.splat((offsetof<G>() & 16) != 0 ? -1 : -1.0 / 16));
  }

  /** Scales and minima of sub-block `sub` for groups 0 and 1; at w + 16 for groups 2 and 3. */
  @inline pair_scales(w: usize, sub: i32): v128 {
    return v128.load(w + (<usize>sub << 5), 64);
  }
  @inline pair_scale<G>(v: v128): v128 {
    return v128.and(v, (offsetof<G>() & 16) != 0 ? words_0x0f00() : words_0x000f());
  }
  @inline pair_min<G>(v: v128): v128 {
    return (offsetof<G>() & 16) != 0 ? i16x8.shr_u(v, 12) : v128.and(v, words_0x00f0());
  }

  /** The codes of one row's sub-block, both halves in a byte. */
  @inline row_codes(row: usize, sub: i32): v128 {
    return join_halves(two_bits(row + 16, sub, 0), two_bits(row + 16, sub, 1));
  }
  @inline store_codes(q: usize, r0: v128, r1: v128, r2: v128, r3: v128): void {
    store_quads_as_nibbles(q, r0, r1, r2, r3);
  }

  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src + 80, stride, w);
    pack_f16(src + 82, stride, w + 32);
    pack_bytes(src, stride, 16, w + 64);
    order_scales(w + 64);
    pack_codes<Q2_K>(src, stride, w);
  }
}
