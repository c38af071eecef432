/**
 * Code shared by q4_K and q5_K: eight scales and eight minima of 6 bits, 12 bytes a row (packed: 96
 * bytes of scales, then 96 of minima, six_bits.ts), and the order of nibbles.
 *
 * Minima are packed for i16 products with the activations' sums of two sub-blocks. Vector 2p + h
 * holds sub-blocks 2p and 2p + 1 of groups 2h and 2h + 1. The low byte of an i16 belongs to the
 * even group, the high one to the odd group. The high byte is multiplied without a shift, 256 times
 * too large.
 */
import { low_nibbles, words_0x003f, words_0x3f00 } from './constants';
import { pack_f16, store_quads } from './group';
import { put_six, scale_byte, six_bits } from './six_bits';

/** Offsets of scales and minima in a packed block: after d and dmin. */
const SCALES: usize = 64;
const MINIMA: usize = SCALES + 96;

/**
 * Base class of q4_K and q5_K. (No method here may be overridden: AssemblyScript would not inline
 * it.)
 */
@unmanaged
export class KScales {
  @inline sc(w: usize, i: i32): v128 {
    return six_bits(w + SCALES, i, true);
  }
  @inline mn(w: usize, i: i32): v128 {
    return six_bits(w + MINIMA, i, false);
  }
}

/**
 * Minima of group G in such a vector: two i16 in every i32 lane, one for each of two sub-blocks.
 * They are 256 times too large in groups 1 and 3.
 */
@inline
export function minima_of_group<G>(v: v128): v128 {
  return v128.and(v, (offsetof<G>() & 16) != 0 ? words_0x3f00() : words_0x003f());
}

@inline
function minima_vector(s: usize, row: usize): usize {
  return ((s >> 1) << 1) | (row >> 3);
}

@inline
function minima_byte(s: usize, row: usize): usize {
  return ((row & 3) << 2) | ((s & 1) << 1) | ((row >> 2) & 1);
}

/**
 * Packs the first 16 bytes of the blocks of 16 rows, `stride` bytes apart at src: d, dmin and 12
 * bytes.
 *
 * Bytes 0..3 of the 12 hold scales 0..3 and bytes 4..7 minima 0..3, in six bits. Bytes 8..11 hold
 * the low nibbles of scales 4..7 (low) and of minima 4..7 (high). The top bits of those are bits 6
 * and 7 of bytes 0..3 and 4..7.
 */
export function pack_k_scales(src: usize, stride: usize, w: usize): void {
  pack_f16(src, stride, w);
  pack_f16(src + 2, stride, w + 32);
  for (let s: usize = 0; s < 8; s++) {
    for (let r: usize = 0; r < 16; r++) {
      const row = src + r * stride + 4 + (s & 3);
      const a = <u32>load<u8>(row);
      const b = <u32>load<u8>(row, 4);
      const c = <u32>load<u8>(row, 8);
      put_six(w + SCALES, s, scale_byte(r), s < 4 ? a & 63 : (c & 15) | ((a >> 6) << 4));
      put_six(w + MINIMA, minima_vector(s, r), minima_byte(s, r), s < 4 ? b & 63 : (c >> 4) | ((b >> 6) << 4));
    }
  }
}

/**
 * The 16 bytes of nibbles of one row's sub-block in the order of q4_0: k 0..15 low, k 16..31 high.
 * Among the 128 bytes at qs, sub-block `sub` (0..7) has bytes 32 * (sub / 2) .. + 31: their low
 * nibbles if it is even, their high nibbles if odd.
 */
@inline
function k_nibbles(qs: usize, sub: i32): v128 {
  const p = qs + (<usize>(sub >> 1) << 5);
  const shift = (sub & 1) << 2;
  const m = low_nibbles();
  return v128.or(v128.and(i16x8.shr_u(v128.load(p), shift), m), i16x8.shl(v128.and(i16x8.shr_u(v128.load(p, 16), shift), m), 4));
}

/**
 * Packs the nibbles of a super-block, 128 bytes of each row at src, to quads at q. The quads of
 * consecutive sub-blocks are `bytes` apart.
 */
export function pack_k_nibbles(src: usize, stride: usize, q: usize, bytes: usize): void {
  for (let sub = 0; sub < 8; sub++, q += bytes) {
    for (let g: usize = 0; g < 4; g++) {
      const p = src + g * 4 * stride;
      const r0 = k_nibbles(p, sub);
      const r1 = k_nibbles(p + stride, sub);
      const r2 = k_nibbles(p + stride * 2, sub);
      store_quads(q + (g << 4), r0, r1, r2, k_nibbles(p + stride * 3, sub), 64);
    }
  }
}
