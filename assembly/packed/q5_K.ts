/**
 * q5_Kx16: 16 rows of q5_K side by side, 2816 bytes for 16 x 256 weights; weight = d * sc * code - dmin * mn.
 *
 *   | d of rows 0..15, f16 (32) | dmin (32) | scales (96, six_bits.ts) | minima (96) | 8 runs of 32 weights (8 x 320) |
 *   run: | fifth bits of the four groups (64) | low nibbles of quads 0..3 (4 x 64) |
 *
 * A byte of fifth bits serves one k % 4 of one row: bit t for the low part of quad t, bit 4 + t for its high part.
 * i16 has room for sums of code - 16 only; 16 * (sum of the activations) is added in i32 (`biased`).
 */
import { bits_0x10, load_scales, pack_f16, store_bits, store_quads } from './group';
import { k_min_of, k_mins, k_nibbles, k_scale, k_scale_of, pack_k_scales } from './k_scales';

/** Bytes of a block of one row: f16 d, f16 dmin, scales 12, fifth bits 32, nibbles 128. */
const BYTES: usize = 176;
const RUN: usize = 320;

@unmanaged
export class Q5_K {
  super_block: bool;
  narrow: bool;
  biased: bool;

  // @ts-ignore: decorator
  @inline
  bytes(): usize { return 16 * BYTES; }

  // @ts-ignore: decorator
  @inline
  quads(w: usize, sub: i32): usize { return w + 320 + <usize>sub * RUN; }

  // @ts-ignore: decorator
  @inline
  high(w: usize, sub: i32): usize { return w + 256 + <usize>sub * RUN; }

  // @ts-ignore: decorator
  @inline
  mask2(): v128 { return bits_0x10(); }

  // @ts-ignore: decorator
  @inline
  bits<G>(h: usize, t: i32): v128 { return i16x8.shr_u(v128.load(h, offsetof<G>()), t); }

  // @ts-ignore: decorator
  @inline
  lo(v: v128, h: v128, m: v128, m2: v128): v128 { return v128.or(v128.and(v, m), v128.and(i16x8.shl(h, 4), m2)); }

  // @ts-ignore: decorator
  @inline
  hi(v: v128, h: v128, m: v128, m2: v128): v128 { return v128.or(v128.and(i16x8.shr_u(v, 4), m), v128.and(h, m2)); }

  // @ts-ignore: decorator
  @inline
  sc(w: usize, i: i32): v128 { return k_scale(w + 64, i); }

  // @ts-ignore: decorator
  @inline
  mn(w: usize, i: i32): v128 { return k_mins(w + 64, i); }

  // @ts-ignore: decorator
  @inline
  scale_of(w: usize, i: i32, row: usize): u32 { return k_scale_of(w + 64, i, row); }

  // @ts-ignore: decorator
  @inline
  min_of(w: usize, i: i32, row: usize): u32 { return k_min_of(w + 64, i, row); }

  // @ts-ignore: decorator
  @inline
  d<G>(w: usize): v128 { return load_scales<G>(w); }

  // @ts-ignore: decorator
  @inline
  dmin<G>(w: usize): v128 { return f32x4.neg(load_scales<G>(w + 32)); }

  // @ts-ignore: decorator
  @inline
  offset(pair: v128): v128 { return i16x8.shl(pair, 4); }

  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src, stride, w);
    pack_f16(src + 2, stride, w + 32);
    pack_k_scales(src + 4, stride, w + 64);
    for (let sub = 0; sub < 8; sub++) {
      for (let g: usize = 0; g < 4; g++) {
        const p = src + g * 4 * stride + 48, q = this.quads(w, sub) + (g << 4);
        store_quads(q, k_nibbles(p, sub), k_nibbles(p + stride, sub), k_nibbles(p + stride * 2, sub), k_nibbles(p + stride * 3, sub), 64);
        // Bit `sub` of byte k is the fifth bit of weight k of the run.
        const h = p - 32;
        store_bits(this.high(w, sub) + (g << 4), h, stride, sub);
      }
    }
  }
}
