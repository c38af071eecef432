/**
 * q3_Kx16: 16 rows of q3_K side by side, 1760 bytes for 16 x 256 weights; weight = d * sc * (code - 4), sc for 16 weights.
 *
 *   | d of rows 0..15, f16 (32) | nibbles of scales 2s (low), 2s + 1 (high): 8 x 16 rows (128) | their top bits (64) | 8 runs (8 x 192) |
 *   run: | third bits of the four groups (64) | low bits of quads 0, 1 (64) | of quads 2, 3 (64) |
 *
 * A byte of 2-bit codes has the low and the high part of an even quad, then those of the odd one: quads 0, 1 are k 0..15 of the run, 2, 3 k 16..31;
 * a quad's low part is k = 16 (t / 2) + 4 (t % 2).., its high part 8 further on.
 * A byte of third bits serves one k % 4 of one row: bit t for the low part of quad t, bit 4 + t for its high part.
 * A byte of top bits t has two of scales 4t .. 4t + 3, from bit 0 up; scales are kept with their offset of 32, as in q3_K.
 */
import { bits_0x03, bits_0x04, bits_0x30, load_scales, low_nibbles, pack_f16, store_bits, store_pairs } from './group';
import { k_pairs } from './k_pairs';

/** Bytes of a block of one row: third bits 32, codes 64, scales 12, f16 d. */
const BYTES: usize = 110;
const RUN: usize = 192;

@unmanaged
export class Q3_K {
  super_block: bool;
  w16: bool;

  // @ts-ignore: decorator
  @inline
  bytes(): usize { return 16 * BYTES; }

  // @ts-ignore: decorator
  @inline
  quads(w: usize, sub: i32): usize { return w + 288 + <usize>sub * RUN; }

  // @ts-ignore: decorator
  @inline
  high(w: usize, sub: i32): usize { return w + 224 + <usize>sub * RUN; }

  // @ts-ignore: decorator
  @inline
  mask(): v128 { return bits_0x03(); }

  // @ts-ignore: decorator
  @inline
  quad_bytes(): usize { return 0; }

  // @ts-ignore: decorator
  @inline
  load_lo<G>(q: usize, half: i32, t: i32): v128 { return i16x8.shr_u(v128.load(q + (<usize>half << 6), offsetof<G>()), t << 2); }

  // @ts-ignore: decorator
  @inline
  mask2(): v128 { return bits_0x04(); }

  // @ts-ignore: decorator
  @inline
  bits<G>(h: usize, half: i32, t: i32): v128 { return i16x8.shr_u(v128.load(h, offsetof<G>()), (half << 1) + t); }

  // @ts-ignore: decorator
  @inline
  lo(v: v128, h: v128, m: v128, m2: v128): v128 { return v128.or(v128.and(v, m), v128.and(i16x8.shl(h, 2), m2)); }

  // @ts-ignore: decorator
  @inline
  hi(v: v128, h: v128, m: v128, m2: v128): v128 { return v128.or(v128.and(i16x8.shr_u(v, 2), m), v128.and(i16x8.shr_u(h, 2), m2)); }

  // @ts-ignore: decorator
  @inline
  d<G>(w: usize): v128 { return load_scales<G>(w); }

  // @ts-ignore: decorator
  @inline
  offset(pair: v128): v128 { return i16x8.shl(pair, 2); }

  // @ts-ignore: decorator
  @inline
  center(): f32 { return 4; }

  // @ts-ignore: decorator
  @inline
  sc(w: usize, i: i32): v128 {
    const n = i16x8.shr_u(v128.load(w + (<usize>(i >> 1) << 4), 32), (i & 1) << 2);
    const top = i16x8.shr_u(v128.load(w + (<usize>(i >> 2) << 4), 160), (i & 3) << 1);
    return i8x16.sub(v128.or(v128.and(n, low_nibbles()), v128.and(i16x8.shl(top, 4), bits_0x30())), i8x16.splat(32));
  }

  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src + 108, stride, w);
    for (let r: usize = 0; r < 16; r++) pack_scales(src + r * stride + 96, w + 32 + r);
    for (let sub = 0; sub < 8; sub++) {
      for (let g: usize = 0; g < 4; g++) {
        const row = src + g * 4 * stride, p = row + 32;
        store_pairs(this.quads(w, sub) + (g << 4), k_pairs(p, sub), k_pairs(p + stride, sub), k_pairs(p + stride * 2, sub), k_pairs(p + stride * 3, sub));
        // Bit `sub` of byte k is the third bit of weight k of the run.
        store_bits(this.high(w, sub) + (g << 4), row, stride, sub, true);
      }
    }
  }
}

/**
 * One row's 12 bytes to its byte of 12 vectors. Scales i < 8 have their low nibbles in the low ones of bytes 0..7, scales 8 + i in the high
 * ones; the top bits of scale i are bits 2 (i / 4).. of byte 8 + i % 4.
 */
function pack_scales(src: usize, p: usize): void {
  for (let i: usize = 0; i < 8; i++) {
    const a = scale(src, i << 1), b = scale(src, i << 1 | 1);
    store<u8>(p + (i << 4), (a & 15) | b << 4);
    const q = p + 128 + (i >> 1 << 4), top = a >> 4 | b >> 4 << 2;
    store<u8>(q, i & 1 ? load<u8>(q) | top << 4 : top);
  }
}

function scale(src: usize, i: usize): u32 {
  const low = <u32>load<u8>(src + (i & 7)) >> (i & 8 ? 4 : 0) & 15;
  return low | (<u32>load<u8>(src + 8 + (i & 3)) >> (<u32>(i >> 2) << 1) & 3) << 4;
}
