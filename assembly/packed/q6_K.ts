/**
 * q6_Kx16: 16 rows of q6_K side by side, 3360 bytes for 16 x 256 weights.
 *
 *   | d of rows 0..15, f16 (32) | scales: 16 x 16 rows i8 (256) | 8 runs of 32 weights (8 x 384) |
 *   run: | high bits of quads 0, 1 (64) | of quads 2, 3 (64) | low nibbles of quads 0..3 (4 x 64) |
 *
 * A scale serves 16 weights: quads 0, 1 are k 0..15, quads 2, 3 k 16..31; a quad's low part is k = 16 (t / 2) + 4 (t % 2).., its high part
 * 8 further on. A byte of high bits has two for the low part, two for the high part, then the same of the next quad.
 */
import { bits_0x30, load_scales, pack_bytes, pack_f16, store_pairs, store_quads } from './group';
import { fold, k_pairs } from './k_pairs';

/** Bytes of a block of one row: ql 128, qh 64, 16 scales i8, f16 d. */
const BYTES: usize = 210;
const RUNS: usize = 32 + 256;
const RUN: usize = 384;

@unmanaged
export class Q6_K {
  // @ts-ignore: decorator
  @inline
  bytes(): usize { return 16 * BYTES; }

  super_block: bool;

  w16: bool;

  // @ts-ignore: decorator
  @inline
  quads(w: usize, sub: i32): usize { return w + RUNS + 128 + <usize>sub * RUN; }

  // @ts-ignore: decorator
  @inline
  high(w: usize, sub: i32): usize { return w + RUNS + <usize>sub * RUN; }

  // @ts-ignore: decorator
  @inline
  bits<G>(h: usize, half: i32, t: i32): v128 { return i16x8.shr_u(v128.load(h + (<usize>half << 6), offsetof<G>()), t << 2); }

  // @ts-ignore: decorator
  @inline
  mask2(): v128 { return bits_0x30(); }

  // @ts-ignore: decorator
  @inline
  lo(v: v128, h: v128, m: v128, m2: v128): v128 { return v128.or(v128.and(v, m), v128.and(i16x8.shl(h, 4), m2)); }

  // @ts-ignore: decorator
  @inline
  hi(v: v128, h: v128, m: v128, m2: v128): v128 { return v128.or(v128.and(i16x8.shr_u(v, 4), m), v128.and(i16x8.shl(h, 2), m2)); }

  // @ts-ignore: decorator
  @inline
  d<G>(w: usize): v128 { return load_scales<G>(w); }

  // @ts-ignore: decorator
  @inline
  sc(w: usize, i: i32): v128 { return v128.load(w + 32 + (<usize>i << 4)); }

  // @ts-ignore: decorator
  @inline
  offset(pair: v128): v128 { return i16x8.shl(pair, 5); }

  // @ts-ignore: decorator
  @inline
  center(): f32 { return 32; }

  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src + 208, stride, w);
    pack_bytes(src + 192, stride, 16, w + 32);
    for (let sub = 0; sub < 8; sub++) {
      for (let g: usize = 0; g < 4; g++) {
        const p = src + g * 4 * stride;
        store_quads(this.quads(w, sub) + (g << 4), nibbles(p, sub), nibbles(p + stride, sub), nibbles(p + stride * 2, sub), nibbles(p + stride * 3, sub), 64);
        const h = p + 128;
        store_pairs(this.high(w, sub) + (g << 4), k_pairs(h, sub), k_pairs(h + stride, sub), k_pairs(h + stride * 2, sub), k_pairs(h + stride * 3, sub));
      }
    }
  }
}

// Run s of 8 has its nibbles in ql 64 (s / 4) + 32 (s % 2).., the low ones where s % 4 < 2, and its bits 2 (s % 4).. of qh 32 (s / 4)...
function nibbles(row: usize, sub: i32): v128 {
  const p = row + (<usize>(sub >> 2) << 6) + (<usize>(sub & 1) << 5), shift = (sub & 2) << 1, m = i8x16.splat(15);
  return fold(v128.and(i16x8.shr_u(v128.load(p), shift), m), v128.and(i16x8.shr_u(v128.load(p, 16), shift), m), 4);
}
