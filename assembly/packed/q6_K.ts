/**
 * q6_Kx16: 16 rows of q6_K side by side, 3360 bytes for 16 x 256 weights; weight = d * sc * (code - 32), sc for 16 weights.
 *
 *   | d of rows 0..15, f16 (32) | scales: 16 x 16 rows i8 (256) | 8 runs of 32 weights (8 x 384) |
 *   run: for either half | quad 0 (64) | quad 1 (64) | quad 2 (64), and in the free bits of all, quad 3 (w16.ts) |
 */
import { GEMV_16X1_Q6_K } from '../loops';
import { load_scales, pack_bytes, pack_f16 } from './group';
import { two_bits } from './k_pairs';
import { bits_0x3f, store_six_bits } from './w16';

/** Bytes of a block of one row: ql 128, qh 64, 16 scales i8, f16 d. */
const BYTES: usize = 210;

@unmanaged
export class Q6_K {
  super_block: bool;
  w16: bool;

  // @ts-ignore: decorator
  @inline
  width(): i32 { return 6; }

  // @ts-ignore: decorator
  @inline
  column_loop(): i32 { return GEMV_16X1_Q6_K; }

  // @ts-ignore: decorator
  @inline
  bytes(): usize { return 16 * BYTES; }

  // @ts-ignore: decorator
  @inline
  quads(w: usize, sub: i32): usize { return w + 288 + <usize>sub * 384; }

  // @ts-ignore: decorator
  @inline
  mask(): v128 { return bits_0x3f(); }

  // @ts-ignore: decorator
  @inline
  mask2(): v128 { return bits_0x3f(); }

  // @ts-ignore: decorator
  @inline
  up(): i32 { return 0; }

  // @ts-ignore: decorator
  @inline
  d<G>(w: usize): v128 { return load_scales<G>(w); }

  // @ts-ignore: decorator
  @inline
  sc(w: usize, i: i32): v128 { return v128.load(this.scales(w, i)); }

  /** Of half-run i, a signed byte a row. */
  // @ts-ignore: decorator
  @inline
  scales(w: usize, i: i32): usize { return w + 32 + (<usize>i << 4); }

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
      for (let i: usize = 0; i < 8; i++) {
        const p = src + (i >> 1) * 4 * stride, h = i & 1;
        store_six_bits(this.quads(w, sub) + h * 192 + (i >> 1 << 4), codes(p, sub, h), codes(p + stride, sub, h), codes(p + stride * 2, sub, h), codes(p + stride * 3, sub, h));
      }
    }
  }
}

/** 16 codes of one row: run s of 8 has its nibbles in ql 64 (s / 4) + 32 (s % 2).., the low ones where s % 4 < 2. */
// @ts-ignore: decorator
@inline
function codes(row: usize, sub: i32, half: usize): v128 {
  const p = row + (<usize>(sub >> 2) << 6) + (<usize>(sub & 1) << 5) + (half << 4);
  return v128.or(v128.and(i16x8.shr_u(v128.load(p), (sub & 2) << 1), i8x16.splat(15)), i16x8.shl(two_bits(row + 128, sub, half), 4));
}
