/**
 * q2_Kx16: 16 rows of q2_K side by side, 1344 bytes for 16 x 256 weights; weight = d * sc * code - dmin * mn, sc and mn for 16 weights.
 *
 *   | d of rows 0..15, f16 (32) | dmin (32) | scales (low) and minima (high nibble): 16 x 16 rows (256) | 8 runs of 32 weights (8 x 128) |
 *   run: | quads 0, 1 of both halves (64) | quads 2, 3 (64) |
 *
 * Where a dot leaves pairs apart (halves.ts) the scales of a run are two vectors: bytes of groups 0 and 1, for the first half and for the second,
 * row after row, then those of groups 2 and 3; and in place of quad t of either half there are words 2t and 2t + 1 of both.
 *
 * A byte has, from bit 0 up: the even quad's code of the first half, of the second half, the odd quad's of the first, of the second.
 * Codes of the second half are multiplied where they are, four times too large: one shift less a code, and one more for all their sums.
 */
import { GEMV_16X1_Q2_K, GEMV_16X1_S16 } from '../loops';
import { bits_0x03, load_scales, low_nibbles, pack_bytes, pack_f16, store_pairs } from './group';
import { one_half, two_halves } from './halves';
import { two_bits } from './k_pairs';
import { bits_0x0c, words_0x000f, words_0x00f0, words_0x0f00 } from './w16';
import { HAS_PAIR_DOT } from '../simd';

/** Bytes of a block of one row: scales and minima 16, codes 64, f16 d, f16 dmin. */
const BYTES: usize = 84;

@unmanaged
export class Q2_K {
  super_block: bool;
  w16: bool;

  // @ts-ignore: decorator
  @inline
  width(): i32 { return 2; }

  /** Activations come in the order of gemv_16x1_q2_K. */
  // @ts-ignore: decorator
  @inline
  halves(): bool { return HAS_PAIR_DOT; }

  // @ts-ignore: decorator
  @inline
  column_loop(): i32 { return HAS_PAIR_DOT ? GEMV_16X1_Q2_K : GEMV_16X1_S16; }

  /** The codes of quad t of a half, out of two quads of both. */
  // @ts-ignore: decorator
  @inline
  code<G>(q: usize, half: i32, t: i32): v128 {
    const v = i16x8.shr_u(v128.load(q + (<usize>(t >> 1) << 6), offsetof<G>()), (t & 1) << 2);
    return one_half(v128.and(v, this.mask()), i16x8.shr_u(v128.and(v, this.mask2()), 2), half);
  }

  // @ts-ignore: decorator
  @inline
  bytes(): usize { return 16 * BYTES; }

  // @ts-ignore: decorator
  @inline
  quads(w: usize, sub: i32): usize { return w + 320 + (<usize>sub << 7); }

  // @ts-ignore: decorator
  @inline
  mask(): v128 { return bits_0x03(); }

  // @ts-ignore: decorator
  @inline
  mask2(): v128 { return bits_0x0c(); }

  // @ts-ignore: decorator
  @inline
  up(): i32 { return 2; }

  // @ts-ignore: decorator
  @inline
  d<G>(w: usize): v128 { return load_scales<G>(w); }

  // @ts-ignore: decorator
  @inline
  dmin<G>(w: usize): v128 { return f32x4.neg(load_scales<G>(w + 32)); }

  // @ts-ignore: decorator
  @inline
  sc(w: usize, i: i32): v128 { return v128.and(scales(w, i), low_nibbles()); }

  // @ts-ignore: decorator
  @inline
  mn(w: usize, i: i32): v128 { return v128.and(i16x8.shr_u(scales(w, i), 4), low_nibbles()); }

  // For gemv_q2_K. Of the four nibbles of an i16 three are masked where they are: powers of two, which d and dmin take back exactly.

  // @ts-ignore: decorator
  @inline
  half_d<G>(w: usize): v128 { return (offsetof<G>() & 16) != 0 ? f32x4.mul(load_scales<G>(w), f32x4.splat(1.0 / 256)) : load_scales<G>(w); }

  // @ts-ignore: decorator
  @inline
  half_m<G>(w: usize): v128 { return f32x4.mul(load_scales<G>(w + 32), f32x4.splat((offsetof<G>() & 16) != 0 ? -1 : -1.0 / 16)); }

  /** Scales and minima of groups 0 and 1; at w + 16 those of 2 and 3. */
  // @ts-ignore: decorator
  @inline
  half_scales(w: usize, sub: i32): v128 { return v128.load(w + (<usize>sub << 5), 64); }

  // @ts-ignore: decorator
  @inline
  half_scale<G>(v: v128): v128 { return v128.and(v, (offsetof<G>() & 16) != 0 ? words_0x0f00() : words_0x000f()); }

  // @ts-ignore: decorator
  @inline
  half_min<G>(v: v128): v128 { return (offsetof<G>() & 16) != 0 ? i16x8.shr_u(v, 12) : v128.and(v, words_0x00f0()); }

  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src + 80, stride, w);
    pack_f16(src + 82, stride, w + 32);
    pack_bytes(src, stride, 16, w + 64);
    if (HAS_PAIR_DOT) for (let p = w + 64; p < w + 320; p += 32) side_by_side(p);
    for (let sub = 0; sub < 8; sub++) {
      for (let g: usize = 0; g < 4; g++) {
        const p = src + g * 4 * stride + 16;
        store_pairs(this.quads(w, sub) + (g << 4), halves(p, sub), halves(p + stride, sub), halves(p + stride * 2, sub), halves(p + stride * 3, sub));
      }
    }
  }
}

/** The codes of one row's run, those of the second half two bits higher. */
// @ts-ignore: decorator
@inline
function halves(p: usize, sub: i32): v128 {
  return two_halves(two_bits(p, sub, 0), two_bits(p, sub, 1));
}

/** A run's two vectors of scales and minima, one for either half, to how gemv_q2_K wants them. */
// @ts-ignore: decorator
@inline
function side_by_side(p: usize): void {
  const a = v128.load(p), b = v128.load(p, 16);
  v128.store(p, i8x16.shuffle(a, b, 0, 4, 16, 20, 1, 5, 17, 21, 2, 6, 18, 22, 3, 7, 19, 23));
  v128.store(p, i8x16.shuffle(a, b, 8, 12, 24, 28, 9, 13, 25, 29, 10, 14, 26, 30, 11, 15, 27, 31), 16);
}

/** Scales and minima of half-run i, rows in order. */
// @ts-ignore: decorator
@inline
function scales(w: usize, i: i32): v128 {
  if (!HAS_PAIR_DOT) return v128.load(w + (<usize>i << 4), 64);
  const p = w + (<usize>(i >> 1) << 5), shift = (i & 1) << 4;
  const a = i32x4.shr_u(v128.load(p, 64), shift), b = i32x4.shr_u(v128.load(p, 80), shift);
  return i8x16.shuffle(a, b, 0, 4, 8, 12, 1, 5, 9, 13, 16, 20, 24, 28, 17, 21, 25, 29);
}
