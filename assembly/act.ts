/**
 * Activations of the packed kernels: f32 rows quantised to 8 bits in runs of 32, and laid out as the product's loops read them, once for all
 * products, threads and chunks that do. A type of activations says two things:
 *
 * The scale. TYPE_ACT: each run has a d of its own; d and the quants are those of ggml's quantize_row_q8_0_ref, except that d stays f32 (q8_0
 * rounds it to f16) and that d below 2^-126 is 0 (in f16, d below 2^-25 is). With ACT_K, for weights in super-blocks, as ggml's q8_K: one d
 * for 8 runs, so that a super-block's sum is one integer.
 *
 * The layout, which depends on the number of columns too: from four on they lie in fours (in_fours says how many), the rest one by one.
 *
 *   one column's run: | 32 quants (i8; i16 in builds without relaxed SIMD) | d f32 | sum f32 | -pairs(0..15) 2 x i16 | -pairs(16..31) 2 x i16 |
 *   with ACT_K:       | 32 quants | d in even runs, in odd ones sums of the run before and of this one 2 x i16 | sums of both halves 2 x i16 | (pairs) |
 *   ACT_NARROW:       columns lie one by one up to NARROW of them (gemm_narrow.ts)
 *   ACT_SIGNS, one column, for gemv_wide.ts:   | |quants| of k 0..3, 16..19, 4..7, 20..23, ... | their signs, 255 where negative | d f32 | sum of |negative quants| i32 |
 *   ACT_HALVES, one column, for gemv_q2_K.ts:  | words 0..7: quants 2w, 2w + 1 of either half | (the rest as above) |
 *   four columns' run (quads.ts): | 4 bytes of each column's quants, then the next 4 ... | d x 4 | sum x 4 | -pairs x 4 | -pairs x 4 |
 *
 * The negated pairs are partial sums of the quants as an i16 dot lane sees them: k % 4 in {0, 1} and k % 4 in {2, 3}.
 * A block with a NaN or an Inf gets d = NaN, which every product multiplies with: outputs that read the block are NaN, in plain products
 * (quantize_activations in quantize.ts) as in packed ones, and others are not.
 */
import { ACT_QUANT } from './dot';
import { HAS_PAIR_DOT, HAS_RELAXED_DOT, hsum_i32, trunc_fitting } from './simd';

/** The least type id of activations in tensors of the plan, behind all of ggml's (src/graph/layout.ts has it too), and what is added to it. */
export const TYPE_ACT: u32 = 256;
export const ACT_K: u32 = 1;
export const ACT_NARROW: u32 = 2;
export const ACT_SIGNS: u32 = 4;
export const ACT_HALVES: u32 = 6;
const ACT_LAYOUT: u32 = 6;

/** Columns that ACT_NARROW keeps one by one: beyond them a panel is as fast, where it is not faster. */
export const NARROW: i32 = 16;
/** Columns that lie side by side. */
export const COLS: usize = 4;

/** Byte offsets in a run. */
export const ACT_QUANTS: usize = 32 * ACT_QUANT;
export const ACT_D: usize = ACT_QUANTS;
export const ACT_SUM: usize = ACT_QUANTS + 4;
export const ACT_SUMS: usize = ACT_SUM;
export const ACT_PAIRS0: usize = ACT_QUANTS + 8;
export const ACT_PAIRS1: usize = ACT_QUANTS + 12;
export const ACT_BLOCK: usize = ACT_QUANTS + 16;

/** ACT_SIGNS: byte offsets in one column's run, and its size. */
export const SIGNS_AT: usize = 32;
export const SIGNS_D: usize = 64;
export const SIGNS_START: usize = 68;
export const SIGNS_RUN: usize = 72;

/** Whether the quants of columns in fours are i16 (k, k + 2, k + 1, k + 3 of every four), for 8-bit codes as words. Static. */
export const WIDENS: bool = HAS_PAIR_DOT;
/** Bytes of a run of four columns, and of one whose quants are i16. */
export const QUAD_RUN: usize = COLS * ACT_BLOCK;
export const QUAD_RUN_WIDE: usize = WIDENS ? COLS * (ACT_BLOCK + 32) : QUAD_RUN;

/** Elements that share a d. */
export function act_block(type: u32): i32 {
  return type & ACT_K ? 256 : 32;
}

/** Bytes that a column of ne00 elements (a multiple of 32) has, four times as many that four have: from one to the next. */
export function act_row_size(type: u32, ne00: i32): usize {
  return <usize>(ne00 >> 5) * ((type & ACT_LAYOUT) == ACT_SIGNS ? max(SIGNS_RUN, QUAD_RUN_WIDE / COLS) : ACT_BLOCK);
}

/**
 * How many of ncols columns lie in fours, from the first one on; they have room for a multiple of four. One or two left over cost less as GEMVs
 * than as a tile filled up with copies of the last one, which is what three become (alone, not worth a panel, they are GEMVs too).
 */
export function in_fours(type: u32, ncols: i32): i32 {
  const rest = ncols & 3;
  if ((type & ACT_LAYOUT) == ACT_NARROW && ncols <= NARROW) return 0;
  return rest < 3 || ncols < 4 ? ncols - rest : ncols;
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

/**
 * Elements [i, i + n) of column c of ncols, f32 at x, to their place in the activations at act; i and n are multiples of the type's block,
 * act_row_size() bytes, or more, are from one column to the next.
 */
export function quantize_act(type: u32, x: usize, i: i32, n: i32, act: usize, stride: usize, c: i32, ncols: i32): void {
  const block = act_block(type), layout = type & ACT_LAYOUT, fours = in_fours(type, ncols), four = c < fours;
  const wide = layout == ACT_SIGNS;
  const bytes = four ? wide ? QUAD_RUN_WIDE : QUAD_RUN : wide ? SIGNS_RUN : ACT_BLOCK;
  // Three columns as four: the last one twice.
  const twice = c == fours - 1 && (c & 3) == 2;
  let dst = act + (four ? <usize>(c >> 2) * COLS * stride + (<usize>(c & 3) << 2) : <usize>c * stride) + <usize>(i >> 5) * bytes;
  for (const last = x + (<usize>n << 2); x != last; ) {
    const end = x + (<usize>block << 2);
    let m = largest(x);
    for (let p = x + 128; p != end; p += 128) m = i32x4.max_u(m, largest(p));
    m = i32x4.max_u(m, i64x2.shuffle(m, m, 1, 0));
    const amax = reinterpret<f32>(max<u32>(i32x4.extract_lane(m, 0), i32x4.extract_lane(m, 1)) >> 1);
    let d = amax / 127;
    if (reinterpret<u32>(d) < 0x00800000) d = 0; // subnormal: 1 / d could overflow
    else if (reinterpret<u32>(amax) >= 0x7f800000) d = NaN;
    const id = f32x4.splat(reinterpret<u32>(d) != 0 ? 1 / d : 0);
    for (let before = 0, odd = false; x != end; odd = !odd) {
      const q0 = quants(v128.load(x), v128.load(x, 16), id), q1 = quants(v128.load(x, 32), v128.load(x, 48), id);
      const q2 = quants(v128.load(x, 64), v128.load(x, 80), id), q3 = quants(v128.load(x, 96), v128.load(x, 112), id);
      const p0 = negated_pairs(q0, q1), p1 = negated_pairs(q2, q3), first = -both(p0), second = -both(p1), sum = first + second;
      const scale = odd ? (before & 0xffff) | sum << 16 : reinterpret<i32>(d);
      const sums = type & ACT_K ? (first & 0xffff) | second << 16 : reinterpret<i32>(<f32>sum);
      if (four) {
        for (let to = dst, end = dst + (twice ? 8 : 4); to != end; to += 4) put_in_four(wide, to, q0, q1, q2, q3, scale, sums, p0, p1);
      } else if (HAS_RELAXED_DOT && wide) {
        put_signs(dst, i8x16.narrow_i16x8_s(q0, q1), i8x16.narrow_i16x8_s(q2, q3), d);
      } else {
        put_column(layout, dst, q0, q1, q2, q3);
        store<i32>(dst, scale, ACT_D);
        store<i32>(dst, sums, ACT_SUMS);
        store<i32>(dst, p0, ACT_PAIRS0);
        store<i32>(dst, p1, ACT_PAIRS1);
      }
      before = sum;
      x += 128;
      dst += bytes;
    }
  }
}

/** Quants of a run of one column. */
// @ts-ignore: decorator
@inline
function put_column(layout: u32, dst: usize, q0: v128, q1: v128, q2: v128, q3: v128): void {
  if (HAS_RELAXED_DOT) {
    const first = i8x16.narrow_i16x8_s(q0, q1), second = i8x16.narrow_i16x8_s(q2, q3), halves = HAS_PAIR_DOT && layout == ACT_HALVES;
    v128.store(dst, halves ? v128.shuffle<i16>(first, second, 0, 8, 1, 9, 2, 10, 3, 11) : first);
    v128.store(dst, halves ? v128.shuffle<i16>(first, second, 4, 12, 5, 13, 6, 14, 7, 15) : second, 16);
  } else {
    v128.store(dst, q0);
    v128.store(dst, q1, 16);
    v128.store(dst, q2, 32);
    v128.store(dst, q3, 48);
  }
}

/** ACT_SIGNS: a run of one column. */
// @ts-ignore: decorator
@inline
function put_signs(dst: usize, first: v128, second: v128, d: f32): void {
  const zero = i32x4.splat(0), x = v128.shuffle<i32>(first, second, 0, 4, 1, 5), z = v128.shuffle<i32>(first, second, 2, 6, 3, 7);
  const mx = i8x16.lt_s(x, zero), mz = i8x16.lt_s(z, zero), ax = i8x16.abs(x), az = i8x16.abs(z);
  v128.store(dst, ax);
  v128.store(dst, az, 16);
  v128.store(dst, mx, SIGNS_AT);
  v128.store(dst, mz, SIGNS_AT + 16);
  store<f32>(dst, d, SIGNS_D);
  const negative = i16x8.add(i16x8.extadd_pairwise_i8x16_u(v128.and(ax, mx)), i16x8.extadd_pairwise_i8x16_u(v128.and(az, mz)));
  store<i32>(dst, hsum_i32(i32x4.extadd_pairwise_i16x8_s(negative)), SIGNS_START);
}

/**
 * A run of one of four columns: dst is where the first word of its quants goes, the others follow in steps of 16 bytes.
 * (Inlined: V8's revectoriser ends the process where vectors that it joined are arguments of a call.)
 */
// @ts-ignore: decorator
@inline
function put_in_four(wide: bool, dst: usize, q0: v128, q1: v128, q2: v128, q3: v128, scale: i32, sums: i32, p0: i32, p1: i32): void {
  if (!HAS_RELAXED_DOT) {
    dst = words(words(words(words(dst, q0), q1), q2), q3);
  } else if (WIDENS && wide) {
    dst = even_odd_words(even_odd_words(dst, i8x16.narrow_i16x8_s(q0, q1)), i8x16.narrow_i16x8_s(q2, q3));
  } else {
    dst = words(words(dst, i8x16.narrow_i16x8_s(q0, q1)), i8x16.narrow_i16x8_s(q2, q3));
  }
  store<i32>(dst, scale);
  store<i32>(dst, sums, 16);
  store<i32>(dst, p0, 32);
  store<i32>(dst, p1, 48);
}

/** The four words of v; returns where the next goes. */
// @ts-ignore: decorator
@inline
function words(dst: usize, v: v128): usize {
  v128.store32_lane(dst, v, 0);
  v128.store32_lane(dst, v, 1, 16);
  v128.store32_lane(dst, v, 2, 32);
  v128.store32_lane(dst, v, 3, 48);
  return dst + 64;
}

/** Sixteen bytes as i16: k and k + 2, then k + 1 and k + 3 of every four; returns where the next go. */
// @ts-ignore: decorator
@inline
function even_odd_words(dst: usize, v: v128): usize {
  const even = i16x8.shr_s(i16x8.shl(v, 8), 8), odd = i16x8.shr_s(v, 8);
  v128.store32_lane(dst, even, 0);
  v128.store32_lane(dst, odd, 0, 16);
  v128.store32_lane(dst, even, 1, 32);
  v128.store32_lane(dst, odd, 1, 48);
  v128.store32_lane(dst, even, 2, 64);
  v128.store32_lane(dst, odd, 2, 80);
  v128.store32_lane(dst, even, 3, 96);
  v128.store32_lane(dst, odd, 3, 112);
  return dst + 128;
}

/** The sum of two i16. */
// @ts-ignore: decorator
@inline
function both(pair: i32): i32 { return <i32>(<i16>pair) + (pair >> 16); }
