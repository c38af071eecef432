/**
 * q4_Kx16: 16 rows of q4_K side by side, 2304 bytes for 16 x 256 weights; weight = d * sc * code - dmin * mn.
 *
 *   | d of rows 0..15, f16 (32) | dmin (32) | scales (96, six_bits.ts) | minima (96) | 8 runs of 32 weights: quads 0..3 (4 x 64) |
 */
import { load_scales, pack_f16, store_quads } from './group';
import { k_min_of, k_mins, k_nibbles, k_scale, k_scale_of, pack_k_scales } from './k_scales';

/** Bytes of a block of one row: f16 d, f16 dmin, scales 12, nibbles 128. */
const BYTES: usize = 144;

@unmanaged
export class Q4_K {
  super_block: bool;
  narrow: bool;

  // @ts-ignore: decorator
  @inline
  bytes(): usize { return 16 * BYTES; }

  // @ts-ignore: decorator
  @inline
  quads(w: usize, sub: i32): usize { return w + 256 + (<usize>sub << 8); }

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

  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src, stride, w);
    pack_f16(src + 2, stride, w + 32);
    pack_k_scales(src + 4, stride, w + 64);
    for (let sub = 0; sub < 8; sub++) {
      for (let g: usize = 0; g < 4; g++) {
        const p = src + g * 4 * stride + 16, q = this.quads(w, sub) + (g << 4);
        store_quads(q, k_nibbles(p, sub), k_nibbles(p + stride, sub), k_nibbles(p + stride * 2, sub), k_nibbles(p + stride * 3, sub), 64);
      }
    }
  }
}
