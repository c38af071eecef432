/**
 * What q2_K, q3_K and q6_K share: a scale for every 16 weights. A run of 32 is two halves of 16, each with four quads t: k = 16 * half + 4t ..
 *
 * Six bits a code leave two bits of every byte free: three vectors hold quads 0..2, and in their free bits quad 3.
 */
import { HAS_PAIR_DOT, HAS_RELAXED_DOT, lookup16 } from '../simd';
import { lanes } from '../dot';
import { small_sums, width } from './format';

// @ts-ignore: decorator
@lazy
const CONSTANTS: usize = memory.data<u32>([
  0x07070707, 0x07070707, 0x07070707, 0x07070707,
  0x0c0c0c0c, 0x0c0c0c0c, 0x0c0c0c0c, 0x0c0c0c0c,
  0x38383838, 0x38383838, 0x38383838, 0x38383838,
  0x3f3f3f3f, 0x3f3f3f3f, 0x3f3f3f3f, 0x3f3f3f3f,
  0xc0c0c0c0, 0xc0c0c0c0, 0xc0c0c0c0, 0xc0c0c0c0,
  0x000f000f, 0x000f000f, 0x000f000f, 0x000f000f,
  0x00f000f0, 0x00f000f0, 0x00f000f0, 0x00f000f0,
  0x0f000f00, 0x0f000f00, 0x0f000f00, 0x0f000f00,
  0x003f003f, 0x003f003f, 0x003f003f, 0x003f003f,
  0x3f003f00, 0x3f003f00, 0x3f003f00, 0x3f003f00,
], 16);

// @ts-ignore: decorator
@inline
export function bits_0x07(): v128 { return v128.load(CONSTANTS); }

// @ts-ignore: decorator
@inline
export function bits_0x0c(): v128 { return v128.load(CONSTANTS, 16); }

// @ts-ignore: decorator
@inline
export function bits_0x38(): v128 { return v128.load(CONSTANTS, 32); }

// @ts-ignore: decorator
@inline
export function bits_0x3f(): v128 { return v128.load(CONSTANTS, 48); }

// @ts-ignore: decorator
@inline
export function bits_0xc0(): v128 { return v128.load(CONSTANTS, 64); }

// @ts-ignore: decorator
@inline
export function words_0x000f(): v128 { return v128.load(CONSTANTS, 80); }

// @ts-ignore: decorator
@inline
export function words_0x00f0(): v128 { return v128.load(CONSTANTS, 96); }

// @ts-ignore: decorator
@inline
export function words_0x0f00(): v128 { return v128.load(CONSTANTS, 112); }

// @ts-ignore: decorator
@inline
export function words_0x003f(): v128 { return v128.load(CONSTANTS, 128); }

// @ts-ignore: decorator
@inline
export function words_0x3f00(): v128 { return v128.load(CONSTANTS, 144); }

/** Codes w times the quad of activations at a, onto s. x: those activations in every row, where the build keeps them (DotI16). */
// @ts-ignore: decorator
@inline
export function onto<D>(s: v128, x: v128, a: usize, w: v128): v128 {
  if (HAS_RELAXED_DOT) return changetype<D>(0).dot(s, x, x, w);
  return changetype<D>(0).dot(s, v128.load32_splat(a), v128.load32_splat(a, 4), w);
}

/** Quad 3 out of bits 6 and 7 of the group's three vectors at q. (So masked, shifts of 16 bits leave nothing in other bytes.) */
// @ts-ignore: decorator
@inline
export function fourth<G>(q: usize): v128 {
  const m = bits_0xc0();
  const v0 = v128.and(v128.load(q, offsetof<G>()), m), v1 = v128.and(v128.load(q, offsetof<G>() + 64), m), v2 = v128.and(v128.load(q, offsetof<G>() + 128), m);
  return v128.or(v128.or(i16x8.shr_u(v0, 6), i16x8.shr_u(v1, 4)), i16x8.shr_u(v2, 2));
}

/** Codes of quad t of a half: the format's own word, or out of vectors of quads 0..2 with quad 3 in their free bits, one vector for both halves where two codes fit a byte. */
// @ts-ignore: decorator
@inline
export function code<F, G>(q: usize, half: i32, t: i32): v128 {
  const f = changetype<F>(0);
  if (isDefined(f.code)) return f.code<G>(q, half, t);
  if (width<F>() > 4) q += <usize>half * 192;
  const v = t < 3 ? v128.load(q + (<usize>t << 6), offsetof<G>()) : fourth<G>(q);
  return half == 0 ? v128.and(v, f.mask()) : i16x8.shr_u(v128.and(v, f.mask2()), f.up());
}

/** Quad 3's bits beside quads 0..2 of one row's 16 six-bit codes. */
// @ts-ignore: decorator
@inline
function spread(r: v128): v128 {
  const z = i32x4.shuffle(r, r, 3, 3, 3, 3);
  const v = v128.or(r, v128.and(i16x8.shl(z, 6), i32x4(0xc0c0c0c0, 0, 0, 0)));
  return v128.or(v, v128.or(v128.and(i16x8.shl(z, 4), i32x4(0, 0xc0c0c0c0, 0, 0)), v128.and(i16x8.shl(z, 2), i32x4(0, 0, 0xc0c0c0c0, 0))));
}

/** Four rows' 16 six-bit codes to a group's three vectors at q, q + 64 and q + 128. */
// @ts-ignore: decorator
@inline
export function store_six_bits(q: usize, r0: v128, r1: v128, r2: v128, r3: v128): void {
  r0 = spread(r0), r1 = spread(r1), r2 = spread(r2), r3 = spread(r3);
  const a = i32x4.shuffle(r0, r1, 0, 4, 1, 5), b = i32x4.shuffle(r2, r3, 0, 4, 1, 5);
  v128.store(q, lanes(i64x2.shuffle(a, b, 0, 2)));
  v128.store(q, lanes(i64x2.shuffle(a, b, 1, 3)), 64);
  v128.store(q, lanes(i64x2.shuffle(i32x4.shuffle(r0, r1, 2, 6, 3, 7), i32x4.shuffle(r2, r3, 2, 6, 3, 7), 0, 2)), 128);
}

/** For each group: its rows' bytes to the high bytes of both i16 of their lanes. */
const HIGH: usize = memory.data<u8>([
  128, 0, 128, 0, 128, 1, 128, 1, 128, 2, 128, 2, 128, 3, 128, 3,
  128, 4, 128, 4, 128, 5, 128, 5, 128, 6, 128, 6, 128, 7, 128, 7,
  128, 8, 128, 8, 128, 9, 128, 9, 128, 10, 128, 10, 128, 11, 128, 11,
  128, 12, 128, 12, 128, 13, 128, 13, 128, 14, 128, 14, 128, 15, 128, 15,
], 16);

/** The scales of the group's rows, out of sixteen signed bytes, as `scaled` wants them; with small_sums 256 times too large, see block_d. */
// @ts-ignore: decorator
@inline
export function group_scale<F, G>(sc: v128): v128 {
  if (HAS_PAIR_DOT && small_sums<F>()) return lookup16(sc, v128.load(HIGH + offsetof<G>()));
  return half_scale<G>(offsetof<G>() >= 32 ? i16x8.extend_high_i8x16_s(sc) : i16x8.extend_low_i8x16_s(sc));
}

/** The same out of eight rows' scales as i16, rows 0..7 for groups 0 and 1. */
// @ts-ignore: decorator
@inline
export function half_scale<G>(sc: v128): v128 {
  if (!HAS_PAIR_DOT) return (offsetof<G>() & 16) != 0 ? i32x4.extend_high_i16x8_s(sc) : i32x4.extend_low_i16x8_s(sc);
  return (offsetof<G>() & 16) != 0 ? i16x8.shuffle(sc, sc, 4, 4, 5, 5, 6, 6, 7, 7) : i16x8.shuffle(sc, sc, 0, 0, 1, 1, 2, 2, 3, 3);
}

/** The minima of both halves of the group's rows, side by side as i16: for a product with the sums of both (act.ts). */
// @ts-ignore: decorator
@inline
export function group_mins<G>(mn0: v128, mn1: v128): v128 {
  const v = offsetof<G>() >= 32
    ? i8x16.shuffle(mn0, mn1, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
    : i8x16.shuffle(mn0, mn1, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  return (offsetof<G>() & 16) != 0 ? i16x8.extend_high_i8x16_u(v) : i16x8.extend_low_i8x16_u(v);
}
