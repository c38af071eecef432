/**
 * Dot products of signed 8-bit codes: q8_0, and the levels of iq4_nl and iq4_xs. They are too wide
 * for the 7-bit operand of dot.ts.
 *
 *   GEMV   relaxed SIMD: codes are the signed operand, |activation| is the 7-bit one
 *          (gemv_16x1_signs.ts). simd build: code + 128, as in dot.ts.
 *   GEMM   codes and activations as i16, i32 sums (gemm_8x4_i16.ts). dotadd build: the two nibbles
 *          of code + 128 (gemm_8x4_nibbles.ts).
 */
import { HAS_DOT_ADD, HAS_PAIR_DOT, HAS_RELAXED_DOT, splat_u6 } from '../simd';

/** True if the GEMM takes codes as i16; else it takes them as two nibbles. */
export const I16_CODES: bool = !HAS_DOT_ADD;
/**
 * True if i16 codes and activations of the GEMM lie as k, k + 2, k + 1, k + 3 of every four. One
 * shift then makes two i16 of bytes; neighbours would need a shuffle.
 */
export const EVEN_ODD: bool = HAS_PAIR_DOT;
/** Bytes of the codes of 32 weights of 8 rows in the GEMM's panel, as i16 or as nibbles. */
export const SIGNED_CODES: usize = 512;

/**
 * XOR mask between signed and packed codes. Packed codes are signed, except in the simd build:
 * there they are code + 128, which flips the sign bit only. Widening unsigned bytes to i16 takes
 * one operation, signed bytes in the upper half of a vector take two.
 */
const FLIP: u8 = HAS_RELAXED_DOT ? 0 : 128;

const SIGN: usize = memory.data<u8>([128]);

/** Packed form of one signed code. */
@inline
export function packed_code(code: u8): u8 {
  return code ^ FLIP;
}

/** Packed form of sixteen signed codes. Applied to packed codes, gives the signed ones back. */
@inline
export function packed_codes(v: v128): v128 {
  return FLIP ? v128.xor(v, v128.load8_splat(SIGN)) : v;
}

/**
 * s + w . a: signed 8-bit codes times 7-bit activations. Sums are i32, since the products of one
 * pair fit i16 and those of two pairs do not. ones: eight i16.
 */
@inline
export function mac_signed(s: v128, a: v128, w: v128, ones: v128): v128 {
  if (HAS_DOT_ADD) return i32x4.relaxed_dot_i8x16_i7x16_add_s(w, a, s);
  return i32x4.add(s, i32x4.dot_i16x8_s(i16x8.relaxed_dot_i8x16_i7x16_s(w, a), ones));
}

/** Mask for store_signed_quad, to be kept in a register. */
@inline
export function nibble_mask(): v128 {
  return splat_u6(15);
}

/**
 * Stores the packed codes w (a weight vector of dot.ts) as quad t (0..7) of a sub-block in the
 * panel at p. There a quad takes 64 bytes for both groups of rows. As i16, two of its four k come
 * first and then the other two (see EVEN_ODD); as nibbles, the low ones and then the high ones.
 */
@inline
export function store_signed_quad(p: usize, t: usize, w: v128, mask: v128): void {
  p += t << 6;
  if (!I16_CODES) {
    const v = v128.xor(w, v128.load8_splat(SIGN));
    v128.store(p, v128.and(v, mask));
    v128.store(p, v128.and(i16x8.shr_u(v, 4), mask), 32);
    return;
  }
  const v = packed_codes(w);
  v128.store(p, EVEN_ODD ? even_bytes(v) : i16x8.extend_low_i8x16_s(v));
  v128.store(p, EVEN_ODD ? odd_bytes(v) : i16x8.extend_high_i8x16_s(v), 32);
}

/** The even bytes as i16, sign-extended: bytes k and k + 2 of every four. */
@inline
export function even_bytes(v: v128): v128 {
  return i16x8.shr_s(i16x8.shl(v, 8), 8);
}

/** The odd bytes as i16, sign-extended: bytes k + 1 and k + 3 of every four. */
@inline
export function odd_bytes(v: v128): v128 {
  return i16x8.shr_s(v, 8);
}
