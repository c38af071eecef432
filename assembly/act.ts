/**
 * Activations of the packed kernels: f32 rows quantised to 8 bits in runs of 32, one layout for every weight type.
 *
 *   run: | 32 quants (i8; i16 in builds without relaxed SIMD) | d f32 | d * sum f32 | -pairs(0..15) 2 x i16 | -pairs(16..31) 2 x i16 |
 *
 * TYPE_ACT: each run has a d of its own. d and the quants are those of ggml's quantize_row_q8_0_ref, except that d stays f32 (q8_0 rounds
 * it to f16) and that d below 2^-126 is 0 (in f16, d below 2^-25 is).
 *
 * TYPE_ACT_K, for weights in super-blocks, as ggml's q8_K: one d for 8 runs, so that a super-block's sum is one integer. Sums take the place of
 * floats: | (quants) | d in even runs, in odd ones sums of the run before and of this one 2 x i16 | sums of both halves 2 x i16 | (pairs) |
 *
 * The negated pairs are partial sums of the quants as an i16 dot lane sees them: k % 4 in {0, 1} and k % 4 in {2, 3}.
 * A block with a NaN gets d = NaN, one with an Inf d = Inf: both reach the result.
 */
import { ACT_QUANT } from './dot';
import { HAS_RELAXED_DOT, trunc_fitting } from './simd';

/** Type ids of both in tensors of the plan: behind all of ggml's. Mirrored in src/graph/layout.ts. */
export const TYPE_ACT: u32 = 256;
export const TYPE_ACT_K: u32 = 257;

/** Byte offsets in a run. */
export const ACT_QUANTS: usize = 32 * ACT_QUANT;
export const ACT_D: usize = ACT_QUANTS;
export const ACT_DSUM: usize = ACT_QUANTS + 4;
export const ACT_SUMS: usize = ACT_DSUM;
export const ACT_PAIRS0: usize = ACT_QUANTS + 8;
export const ACT_PAIRS1: usize = ACT_QUANTS + 12;
export const ACT_BLOCK: usize = ACT_QUANTS + 16;

/** Elements that share a d. */
export function act_block(type: u32): i32 {
  return type == TYPE_ACT_K ? 256 : 32;
}

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

/** The largest |x| of 32, in every lane one of eight; doubled bits. As integers they sort like the numbers, with NaN above Inf: a NaN cannot hide. */
// @ts-ignore: decorator
@inline
function largest(x: usize): v128 {
  const m0 = i32x4.max_u(i32x4.max_u(twice(v128.load(x)), twice(v128.load(x, 16))), i32x4.max_u(twice(v128.load(x, 32)), twice(v128.load(x, 48))));
  const m1 = i32x4.max_u(i32x4.max_u(twice(v128.load(x, 64)), twice(v128.load(x, 80))), i32x4.max_u(twice(v128.load(x, 96)), twice(v128.load(x, 112))));
  return i32x4.max_u(m0, m1);
}

/** One row of ne00 f32 at x (a multiple of the type's block) to activations of the type at dst. */
export function quantize_act(type: u32, x: usize, ne00: i32, dst: usize): void {
  const block = act_block(type);
  for (const row = x + (<usize>ne00 << 2); x != row; ) {
    const end = x + (<usize>block << 2);
    let m = largest(x);
    for (let p = x + 128; p != end; p += 128) m = i32x4.max_u(m, largest(p));
    m = i32x4.max_u(m, i64x2.shuffle(m, m, 1, 0));
    const amax = reinterpret<f32>(max<u32>(i32x4.extract_lane(m, 0), i32x4.extract_lane(m, 1)) >> 1);
    let d = amax / 127;
    if (reinterpret<u32>(d) < 0x00800000) d = 0; // subnormal: 1 / d could overflow
    const id = f32x4.splat(reinterpret<u32>(d) != 0 ? 1 / d : 0);
    for (let before = 0, odd = false; x != end; odd = !odd) {
      const halves = run(x, id, dst), sum = both(halves);
      if (odd) store<i32>(dst, (before & 0xffff) | sum << 16, ACT_D);
      else store<f32>(dst, d, ACT_D);
      if (type == TYPE_ACT_K) store<i32>(dst, halves, ACT_SUMS);
      else store<f32>(dst, d * <f32>sum, ACT_DSUM);
      before = sum;
      x += 128;
      dst += ACT_BLOCK;
    }
  }
}

/** Quants and pairs of a run; returns the sums of both halves, 2 x i16. */
// @ts-ignore: decorator
@inline
function run(x: usize, id: v128, dst: usize): i32 {
  const q0 = quants(v128.load(x), v128.load(x, 16), id), q1 = quants(v128.load(x, 32), v128.load(x, 48), id);
  const q2 = quants(v128.load(x, 64), v128.load(x, 80), id), q3 = quants(v128.load(x, 96), v128.load(x, 112), id);
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
  store<i32>(dst, p0, ACT_PAIRS0);
  store<i32>(dst, p1, ACT_PAIRS1);
  return (-both(p0) & 0xffff) | -both(p1) << 16;
}

/** The sum of two i16. */
// @ts-ignore: decorator
@inline
function both(pair: i32): i32 { return <i32>(<i16>pair) + (pair >> 16); }
