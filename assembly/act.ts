/**
 * Activations of the packed kernels: f32 rows quantised per block of 32, one format for every weight type.
 *
 *   block: | 32 quants (i8; i16 in builds without relaxed SIMD) | d f32 | d * sum f32 | -pairs(0..15) 2 x i16 | -pairs(16..31) 2 x i16 |
 *
 * d and the quants are those of ggml's quantize_row_q8_0_ref, except that d stays f32 (q8_0 rounds it to f16)
 * and that d below 2^-126 is 0 (in f16, d below 2^-25 is).
 * The negated pairs are partial sums of the quants as an i16 dot lane sees them: k % 4 in {0, 1} and k % 4 in {2, 3}.
 * A block with a NaN gets d = NaN, one with an Inf d = Inf: both reach the result.
 */
import { ACT_QUANT } from './dot';
import { HAS_RELAXED_DOT, trunc_fitting } from './simd';

/** Type id of this format in tensors of the plan: behind all of ggml's. Mirrored in src/graph/layout.ts. */
export const TYPE_ACT: u32 = 256;

/** Byte offsets in a block. */
export const ACT_QUANTS: usize = 32 * ACT_QUANT;
export const ACT_D: usize = ACT_QUANTS;
export const ACT_DSUM: usize = ACT_QUANTS + 4;
export const ACT_PAIRS0: usize = ACT_QUANTS + 8;
export const ACT_PAIRS1: usize = ACT_QUANTS + 12;
export const ACT_BLOCK: usize = ACT_QUANTS + 16;

/** Bytes of one quantised row of ne00 elements (a multiple of 32). */
export function act_row_size(ne00: i32): usize {
  return <usize>(ne00 >> 5) * ACT_BLOCK;
}

/** The bits without their sign, one further left. */
// @ts-ignore: decorator
@inline
function twice(x: v128): v128 {
  return i32x4.add(x, x);
}

/** Four times C's roundf as i32: what truncation leaves over is exact, and so is its double, which truncates to the missing +-1. */
// @ts-ignore: decorator
@inline
function rounded(x: v128): v128 {
  const t = trunc_fitting(x), rest = f32x4.sub(x, f32x4.convert_i32x4_s(t));
  return i32x4.add(t, trunc_fitting(f32x4.add(rest, rest)));
}

/** Eight quants as i16: x * id rounded half away from zero. */
// @ts-ignore: decorator
@inline
function quants(x: v128, y: v128, id: v128): v128 {
  return i16x8.narrow_i32x4_s(rounded(f32x4.mul(x, id)), rounded(f32x4.mul(y, id)));
}

/** Minus the sums of 16 quants with k % 4 < 2 and of those with k % 4 >= 2, as two i16. */
// @ts-ignore: decorator
@inline
function negated_pairs(a: v128, b: v128): i32 {
  let s = i32x4.extadd_pairwise_i16x8_s(i16x8.add(a, b));
  s = i32x4.neg(i32x4.add(s, i64x2.shuffle(s, s, 1, 0)));
  return i32x4.extract_lane(i16x8.narrow_i32x4_s(s, s), 0);
}

/** One row of ne00 f32 at x to the activation format at dst. */
export function quantize_act(x: usize, ne00: i32, dst: usize): void {
  for (let n = ne00 >> 5; n > 0; n--) {
    const x0 = v128.load(x), x1 = v128.load(x, 16), x2 = v128.load(x, 32), x3 = v128.load(x, 48);
    const x4 = v128.load(x, 64), x5 = v128.load(x, 80), x6 = v128.load(x, 96), x7 = v128.load(x, 112);
    // As integers the bits of |x| sort like the numbers, with NaN above Inf: a NaN cannot hide from the maximum.
    const m0 = i32x4.max_u(i32x4.max_u(twice(x0), twice(x1)), i32x4.max_u(twice(x2), twice(x3)));
    const m1 = i32x4.max_u(i32x4.max_u(twice(x4), twice(x5)), i32x4.max_u(twice(x6), twice(x7)));
    let m = i32x4.max_u(m0, m1);
    m = i32x4.max_u(m, i64x2.shuffle(m, m, 1, 0));
    const amax = reinterpret<f32>(max<u32>(i32x4.extract_lane(m, 0), i32x4.extract_lane(m, 1)) >> 1);
    let d = amax / 127;
    if (reinterpret<u32>(d) < 0x00800000) d = 0; // subnormal: 1 / d could overflow
    const id = f32x4.splat(reinterpret<u32>(d) != 0 ? 1 / d : 0);
    const q0 = quants(x0, x1, id), q1 = quants(x2, x3, id);
    const q2 = quants(x4, x5, id), q3 = quants(x6, x7, id);
    if (HAS_RELAXED_DOT) {
      v128.store(dst, i8x16.narrow_i16x8_s(q0, q1));
      v128.store(dst, i8x16.narrow_i16x8_s(q2, q3), 16);
    } else {
      v128.store(dst, q0);
      v128.store(dst, q1, 16);
      v128.store(dst, q2, 32);
      v128.store(dst, q3, 48);
    }
    const p0 = negated_pairs(q0, q1), p1 = negated_pairs(q2, q3);
    const sum = -(<i32>(<i16>p0) + (p0 >> 16) + <i32>(<i16>p1) + (p1 >> 16));
    store<f32>(dst, d, ACT_D);
    store<f32>(dst, d * <f32>sum, ACT_DSUM);
    store<i32>(dst, p0, ACT_PAIRS0);
    store<i32>(dst, p1, ACT_PAIRS1);
    x += 128;
    dst += ACT_BLOCK;
  }
}
