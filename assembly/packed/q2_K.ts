/**
 * q2_Kx16: 16 rows of q2_K side by side, 1344 bytes for 16 x 256 weights; weight = d * sc * code - dmin * mn, sc and mn for 16 weights.
 *
 *   | d of rows 0..15, f16 (32) | dmin (32) | scales (low) and minima (high nibble): 16 x 16 rows (256) | 8 runs of 32 weights (8 x 128) |
 *   run: | quads 0, 1 of both halves (64) | quads 2, 3 (64) |
 *
 * A byte has, from bit 0 up: the even quad's code of the first half, of the second half, the odd quad's of the first, of the second.
 * Codes of the second half are multiplied where they are, four times too large: one shift less a code, and one more for all their sums.
 */
import { bits_0x03, load_scales, low_nibbles, pack_bytes, pack_f16, store_pairs } from './group';
import { two_bits } from './k_pairs';
import { bits_0x0c } from './w16';

/** Bytes of a block of one row: scales and minima 16, codes 64, f16 d, f16 dmin. */
const BYTES: usize = 84;

@unmanaged
export class Q2_K {
  super_block: bool;
  w16: bool;
  two_bits: bool;

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
  sc(w: usize, i: i32): v128 { return v128.and(v128.load(w + (<usize>i << 4), 64), low_nibbles()); }

  // @ts-ignore: decorator
  @inline
  mn(w: usize, i: i32): v128 { return v128.and(i16x8.shr_u(v128.load(w + (<usize>i << 4), 64), 4), low_nibbles()); }

  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src + 80, stride, w);
    pack_f16(src + 82, stride, w + 32);
    pack_bytes(src, stride, 16, w + 64);
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
  return v128.or(two_bits(p, sub, 0), i16x8.shl(two_bits(p, sub, 1), 2));
}
