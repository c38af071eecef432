/**
 * Activations of the packed kernels: f32 rows quantised per block of 32, one format for every weight type.
 *
 *   block: | 32 quants (i8; i16 in builds without relaxed SIMD) | d f32 | d * sum f32 | -pairs(0..15) 2 x i16 | -pairs(16..31) 2 x i16 |
 *
 * d and the quants are those of ggml's quantize_row_q8_0_ref, except that d stays f32 (q8_0 rounds it to f16).
 * The negated pairs are partial sums of the quants as an i16 dot lane sees them: k % 4 in {0, 1} and k % 4 in {2, 3}.
 * A block with a NaN gets d = NaN, one with an Inf d = Inf and zero quants (0 * Inf = NaN): both reach the result.
 */
import { ACT_QUANT } from './dot';
import { HAS_RELAXED_DOT, round_f32x4 } from './simd';

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

// @ts-ignore: decorator
@inline
function abs_bits(p: usize): v128 {
  return v128.and(v128.load(p), i32x4.splat(0x7fffffff));
}

/** Eight quants as i16: x * id rounded half away from zero, -127..127. */
// @ts-ignore: decorator
@inline
function quants(p: usize, id: v128): v128 {
  const a = i32x4.trunc_sat_f32x4_s(round_f32x4(f32x4.mul(v128.load(p), id)));
  const b = i32x4.trunc_sat_f32x4_s(round_f32x4(f32x4.mul(v128.load(p, 16), id)));
  // 1/d overflows for subnormal d: the clamp keeps what the dots rely on.
  return i16x8.max_s(i16x8.min_s(i16x8.narrow_i32x4_s(a, b), i16x8.splat(127)), i16x8.splat(-127));
}

/** Sums of adjacent i16 of a and b, then of every second one of those: (k % 4 < 2, k % 4 >= 2), negated, as two i16. */
// @ts-ignore: decorator
@inline
function negated_pairs(a: v128, b: v128): i32 {
  const ones = i16x8.splat(-1);
  let s = i32x4.add(i32x4.dot_i16x8_s(a, ones), i32x4.dot_i16x8_s(b, ones));
  s = i32x4.add(s, i64x2.shuffle(s, s, 1, 0));
  return i32x4.extract_lane(i16x8.narrow_i32x4_s(s, s), 0);
}

/** One row of ne00 f32 at x to the activation format at dst. */
export function quantize_act(x: usize, ne00: i32, dst: usize): void {
  for (let n = ne00 >> 5; n > 0; n--) {
    // As integers the bits of |x| sort like the numbers, with NaN above Inf: a NaN cannot hide from the maximum.
    const m0 = i32x4.max_s(i32x4.max_s(abs_bits(x), abs_bits(x + 16)), i32x4.max_s(abs_bits(x + 32), abs_bits(x + 48)));
    const m1 = i32x4.max_s(i32x4.max_s(abs_bits(x + 64), abs_bits(x + 80)), i32x4.max_s(abs_bits(x + 96), abs_bits(x + 112)));
    let m = i32x4.max_s(m0, m1);
    m = i32x4.max_s(m, i64x2.shuffle(m, m, 1, 0));
    const amax = reinterpret<f32>(max(i32x4.extract_lane(m, 0), i32x4.extract_lane(m, 1)));
    const d = amax / 127;
    const id = f32x4.splat(reinterpret<u32>(d) != 0 ? 1 / d : 0);
    const q0 = quants(x, id), q1 = quants(x + 32, id), q2 = quants(x + 64, id), q3 = quants(x + 96, id);
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
