/**
 * 8-bit codes in the GEMM (q8_0, iq4_nl, iq4_xs), which the relaxed dot with i16 sums cannot take: codes and activations as words, i16,
 * for a dot with i32 sums. Builds with a dot-add instruction split code + 128 into two nibbles instead, with sums of their own.
 * (The GEMV: gemv_wide.ts.)
 */
import { WIDENS } from '../act';
import { HAS_DOT_ADD, HAS_RELAXED_DOT, held } from '../simd';

/** Words, or nibbles. Static. */
export const WORDS: bool = !HAS_DOT_ADD;

/** Codes of 32 weights of 8 rows in the panel, either way. */
export const CODES_WIDE: usize = 512;

/**
 * Codes are signed, and packed + 128 (every bit but the sign's as it is) where the GEMV makes words of them: zeros are put before bytes in one
 * operation, signs before the upper half of a vector in two.
 */
export const FLIP: u8 = HAS_RELAXED_DOT ? 0 : 128;

const SIGN: usize = memory.data<u8>([128]);

/** Signed codes as they are packed, and back. */
// @ts-ignore: decorator
@inline
export function flipped(v: v128): v128 {
  return FLIP ? v128.xor(v, v128.load8_splat(SIGN)) : v;
}

/** What put_wide wants to find in a register. */
// @ts-ignore: decorator
@inline
export function mask_wide(): v128 {
  return held(15);
}

/**
 * Codes w of quad t (4 rows x 4 k, in the order of the build's weight vectors) to the panel, 64 bytes a quad with those of another group.
 * Words: two steps of two k, the same two as in an activation's word.
 */
// @ts-ignore: decorator
@inline
export function put_wide(p: usize, t: usize, w: v128, m: v128): void {
  p += t << 6;
  if (!WORDS) {
    const v = v128.xor(w, v128.load8_splat(SIGN));
    v128.store(p, v128.and(v, m));
    v128.store(p, v128.and(i16x8.shr_u(v, 4), m), 32);
    return;
  }
  const v = flipped(w);
  v128.store(p, WIDENS ? even_words(v) : i16x8.extend_low_i8x16_s(v));
  v128.store(p, WIDENS ? odd_words(v) : i16x8.extend_high_i8x16_s(v), 32);
}

/** Bytes k and k + 2 of every four: two shifts, where neighbours would take a shuffle. */
// @ts-ignore: decorator
@inline
export function even_words(v: v128): v128 {
  return i16x8.shr_s(i16x8.shl(v, 8), 8);
}

/** Bytes k + 1 and k + 3. */
// @ts-ignore: decorator
@inline
export function odd_words(v: v128): v128 {
  return i16x8.shr_s(v, 8);
}
