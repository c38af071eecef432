/**
 * Code shared by formats with an integer scale for every 16 weights (q2_K, q3_K, q6_K). A sub-block
 * of 32 is two halves of 16 with a scale each. Each half has four quads: quad t is k = 16 * half +
 * 4t .. + 3.
 *
 * Codes of up to 4 bits share a byte with codes of the other half, which lie above them. If one
 * code, or two, take six bits, two bits of every byte are free: three weight vectors hold quads
 * 0..2, and their free bits hold quad 3.
 */
import { weight_order } from '../dot';
import { bytes_0xc0 } from './constants';

/**
 * Quad 3, from bits 6 and 7 of the group's three vectors at q. (After the mask, 16-bit shifts carry
 * nothing into other bytes.)
 */
@inline
export function fourth_quad<G>(q: usize): v128 {
  const m = bytes_0xc0();
  const v0 = v128.and(v128.load(q, offsetof<G>()), m);
  const v1 = v128.and(v128.load(q, offsetof<G>() + 64), m);
  const v2 = v128.and(v128.load(q, offsetof<G>() + 128), m);
  return v128.or(v128.or(i16x8.shr_u(v0, 6), i16x8.shr_u(v1, 4)), i16x8.shr_u(v2, 2));
}

/** One row's 16 six-bit codes, with the last four in bits 6 and 7 of the others. */
@inline
function with_fourth(r: v128): v128 {
  const z = i32x4.shuffle(r, r, 3, 3, 3, 3);
  const v = v128.or(r, v128.and(i16x8.shl(z, 6), i32x4(0xc0c0c0c0, 0, 0, 0)));
  return v128.or(v, v128.or(v128.and(i16x8.shl(z, 4), i32x4(0, 0xc0c0c0c0, 0, 0)), v128.and(i16x8.shl(z, 2), i32x4(0, 0, 0xc0c0c0c0, 0))));
}

/**
 * Stores 16 six-bit codes of each row of a group as its three weight vectors at q, q + 64 and q +
 * 128.
 */
@inline
export function store_six_bit_quads(q: usize, r0: v128, r1: v128, r2: v128, r3: v128): void {
  r0 = with_fourth(r0);
  r1 = with_fourth(r1);
  r2 = with_fourth(r2);
  r3 = with_fourth(r3);
  const a = i32x4.shuffle(r0, r1, 0, 4, 1, 5);
  const b = i32x4.shuffle(r2, r3, 0, 4, 1, 5);
  v128.store(q, weight_order(i64x2.shuffle(a, b, 0, 2)));
  v128.store(q, weight_order(i64x2.shuffle(a, b, 1, 3)), 64);
  v128.store(q, weight_order(i64x2.shuffle(i32x4.shuffle(r0, r1, 2, 6, 3, 7), i32x4.shuffle(r2, r3, 2, 6, 3, 7), 0, 2)), 128);
}

/**
 * Minima of both halves (one byte a row) of group G's rows, side by side as i16: for a product with
 * the sums of both halves' activations (act.ts).
 */
@inline
export function minima_of_halves<G>(mn0: v128, mn1: v128): v128 {
  const v =
    offsetof<G>() >= 32
      ? i8x16.shuffle(mn0, mn1, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
      : i8x16.shuffle(mn0, mn1, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  return (offsetof<G>() & 16) != 0 ? i16x8.extend_high_i8x16_u(v) : i16x8.extend_low_i8x16_u(v);
}
