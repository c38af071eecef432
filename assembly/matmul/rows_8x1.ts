/**
 * One column of activations times 8 plain rows of q4_0 or q8_0, which may lie anywhere, as GGUF has
 * them. For the few rows that fire for a token, nothing is gathered or packed. All rows share the
 * prepared activations of a block.
 *
 * A row's product has the same bits as among packed rows. The integer sum of a block and its f32
 * step are those of gemv_16x1.ts and gemv_16x1_signs.ts, blocks follow in the same order, and the
 * activations are the same bytes (act.ts).
 */
import { FETCHED_AT_ONCE } from '../layout';
import { ACT_D, ACT_SUB, SIGNS_D, SIGNS_START, SIGNS_SUB } from './act';
import { mac_signed } from './dot_signed';
import { add_block } from './epilogue';
import * as fmt from './format/format';
import { f16x4_finite } from './format/group';
import { Q4_0 } from './format/q4_0';
import { Q8_0 } from './format/q8_0';
import { HAS_DOT_ADD, HAS_PAIR_DOT, HAS_RELAXED_DOT, splat_ones, splat_u6 } from '../simd';
import * as id from '../type/ids';

/** Bytes of a cache line. */
const LINE: usize = 64;

/** Rows that are multiplied at once: eight, or four at the end of a list. */
export const AT_ONCE: i32 = 8;

/** Exponent of an Inf or NaN, in an i32 whose lower half is an f16. */
const INFINITE = memory.data<i32>([0x7c00]);

/**
 * Stores at y the products of eight rows (four with `four`) of ne00 weights with the column at a.
 * The rows' addresses lie at `rows`. A row with a scale that is not finite gives NaN.
 */
export function rows_8x1(type: u32, rows: usize, four: bool, ne00: i32, a: usize, y: usize): void {
  if (type == id.Q8_0) rows_of<Q8_0>(rows, four, ne00 >> 5, a, y);
  else rows_of<Q4_0>(rows, four, ne00 >> 5, a, y);
}

/**
 * True if the build prefetches sequential reads by touch(). Computing between loads limits how many
 * cache misses a CPU can have in flight. Prefetching is faster on CPUs that run the dot-add builds
 * (Xeon) and much slower on Zen 4, which runs the others and whose hardware prefetchers keep up.
 * Not kept: touching the next chunk while this one is computed (slower: a load that misses holds up
 * all later ones).
 */
@inline
export const FETCHES: bool = HAS_DOT_ADD;

/**
 * Prefetches n bytes at p: loads a byte of each cache line, and stores something of them at `to`,
 * so that the loads are not removed. Four quarters are read side by side, because hardware
 * prefetchers stop at page borders.
 */
export function touch(p: usize, n: usize, to: usize): void {
  let any: u32 = 0;
  const end = p + n;
  const quarter = (n >> 2) & -LINE;
  let q = p + 2 * quarter;
  for (const half = p + quarter; p != half; p += LINE, q += LINE)
    any |= load<u8>(p) | load<u8>(p + quarter) | load<u8>(q) | load<u8>(q + quarter);
  for (p += 3 * quarter; p < end; p += LINE) any |= load<u8>(p);
  store<u32>(to, any);
}

/**
 * Prefetches n bytes at each of `count` addresses, which lie at `rows`; count is a multiple of
 * FETCHED_AT_ONCE. Hardware does not prefetch scattered rows. A loop as tight as this keeps many
 * cache misses in flight; the loops that compute keep only few. Eight rows side by side also start
 * more page walks at once than row after row.
 */
export function touch_rows(rows: usize, count: i32, n: usize, to: usize): void {
  let any: u32 = 0;
  for (const end = rows + <usize>count * sizeof<usize>(); rows != end; rows += FETCHED_AT_ONCE * sizeof<usize>()) {
    const p0 = load<usize>(rows);
    const p1 = load<usize>(rows, sizeof<usize>());
    const p2 = load<usize>(rows, 2 * sizeof<usize>());
    const p3 = load<usize>(rows, 3 * sizeof<usize>());
    const p4 = load<usize>(rows, 4 * sizeof<usize>());
    const p5 = load<usize>(rows, 5 * sizeof<usize>());
    const p6 = load<usize>(rows, 6 * sizeof<usize>());
    const p7 = load<usize>(rows, 7 * sizeof<usize>());
    for (let i: usize = 0; i < n; i += LINE) {
      any |= load<u8>(p0 + i) | load<u8>(p1 + i) | load<u8>(p2 + i) | load<u8>(p3 + i);
      any |= load<u8>(p4 + i) | load<u8>(p5 + i) | load<u8>(p6 + i) | load<u8>(p7 + i);
    }
  }
  store<u32>(to, any);
}

function rows_of<F>(rows: usize, four: bool, n: i32, a: usize, y: usize): void {
  // The simd build multiplies 8-bit codes by the same activations as 4-bit codes.
  const signs = HAS_RELAXED_DOT && fmt.eight_bits<F>();
  const mask = splat_u6(15);
  const ones = splat_ones();
  const infinite = v128.load32_splat(INFINITE);
  let p = load<usize>(rows);
  const d1 = load<usize>(rows, sizeof<usize>()) - p;
  const d2 = load<usize>(rows, 2 * sizeof<usize>()) - p;
  const d3 = load<usize>(rows, 3 * sizeof<usize>()) - p;
  const d4 = load<usize>(rows, 4 * sizeof<usize>()) - p;
  const d5 = load<usize>(rows, 5 * sizeof<usize>()) - p;
  const d6 = load<usize>(rows, 6 * sizeof<usize>()) - p;
  const d7 = load<usize>(rows, 7 * sizeof<usize>()) - p;
  let first = f32x4.splat(0);
  let second = f32x4.splat(0);
  let exponents = i32x4.splat(0);
  let more_exponents = i32x4.splat(0);
  for (const end = p + <usize>n * (changetype<F>(0).bytes() >> 4); p != end; p += changetype<F>(0).bytes() >> 4) {
    let x0 = v128.load(a);
    let x1 = v128.load(a, 16);
    let x2 = x0;
    let x3 = x1;
    let start = i32x4.splat(0);
    let da = start;
    if (signs) {
      const x = x0;
      const s = v128.load(a, 32);
      x3 = v128.load(a, 48);
      x0 = v128.shuffle<i32>(x, x1, 0, 2, 4, 6);
      x1 = v128.shuffle<i32>(x, x1, 1, 3, 5, 7);
      x2 = v128.shuffle<i32>(s, x3, 0, 2, 4, 6);
      x3 = v128.shuffle<i32>(s, x3, 1, 3, 5, 7);
      start = v128.load32_splat(a, SIGNS_START);
      da = v128.load32_splat(a, SIGNS_D);
    } else {
      if (!HAS_RELAXED_DOT) {
        x2 = v128.load(a, 32);
        x3 = v128.load(a, 48);
      }
      const behind = v128.load(a, ACT_D);
      da = v128.shuffle<i32>(behind, behind, 0, 0, 0, 0);
      if (!fmt.eight_bits<F>()) {
        const lanes = i16x8.add(v128.shuffle<i32>(behind, behind, 2, 2, 2, 2), v128.shuffle<i32>(behind, behind, 3, 3, 3, 3));
        start = i32x4.shl(i32x4.dot_i16x8_s(lanes, ones), ctz(fmt.centre<F>()));
      }
    }
    let d = f16_of(p, p + d1, p + d2, p + d3);
    exponents = i32x4.max_s(exponents, v128.and(d, infinite));
    let i = sums_of<F>(p, p + d1, p + d2, p + d3, x0, x1, x2, x3, mask, ones);
    first = add_block<F>(first, i32x4.add(i, start), f16x4_finite(d), da);
    if (!four) {
      d = f16_of(p + d4, p + d5, p + d6, p + d7);
      more_exponents = i32x4.max_s(more_exponents, v128.and(d, infinite));
      i = sums_of<F>(p + d4, p + d5, p + d6, p + d7, x0, x1, x2, x3, mask, ones);
      second = add_block<F>(second, i32x4.add(i, start), f16x4_finite(d), da);
    }
    a += signs ? SIGNS_SUB : ACT_SUB;
  }
  v128.store(y, v128.or(first, i32x4.eq(exponents, infinite)));
  v128.store(y, v128.or(second, i32x4.eq(more_exponents, infinite)), 16);
}

/** The f16 at four addresses, each sign-extended in an i32 lane. */
@inline
function f16_of(p0: usize, p1: usize, p2: usize, p3: usize): v128 {
  let d = v128.load16_splat(p0);
  d = v128.load16_lane(p1, d, 3);
  d = v128.load16_lane(p2, d, 5);
  return i32x4.shr_s(v128.load16_lane(p3, d, 7), 16);
}

/** Integer sums of the blocks at four addresses times the activations, one i32 lane for each. */
@inline
function sums_of<F>(p0: usize, p1: usize, p2: usize, p3: usize, x0: v128, x1: v128, x2: v128, x3: v128, mask: v128, ones: v128): v128 {
  const s0 = block<F>(p0, x0, x1, x2, x3, mask, ones);
  const s1 = block<F>(p1, x0, x1, x2, x3, mask, ones);
  const s2 = block<F>(p2, x0, x1, x2, x3, mask, ones);
  const s3 = block<F>(p3, x0, x1, x2, x3, mask, ones);
  // Transpose and add: each lane gets the four words of one block.
  const s01 = add_words<F>(v128.shuffle<i32>(s0, s1, 0, 4, 1, 5), v128.shuffle<i32>(s0, s1, 2, 6, 3, 7));
  const s23 = add_words<F>(v128.shuffle<i32>(s2, s3, 0, 4, 1, 5), v128.shuffle<i32>(s2, s3, 2, 6, 3, 7));
  const s = add_words<F>(v128.shuffle<i64>(s01, s23, 0, 2), v128.shuffle<i64>(s01, s23, 1, 3));
  return in_pairs<F>() ? i32x4.dot_i16x8_s(s, ones) : s;
}

/** True if the words of a block's sums are two i16, which have room for 32 codes of 4 bits. */
@inline
function in_pairs<F>(): bool {
  return HAS_PAIR_DOT && !fmt.eight_bits<F>();
}

@inline
function add_words<F>(a: v128, b: v128): v128 {
  return in_pairs<F>() ? i16x8.add(a, b) : i32x4.add(a, b);
}

/**
 * Sums of the codes of the block at p times activations, i32 or in_pairs. Activations are i8 at x0
 * and x1 (with their signs in x2 and x3), or i16 at x0 to x3.
 */
@inline
function block<F>(p: usize, x0: v128, x1: v128, x2: v128, x3: v128, mask: v128, ones: v128): v128 {
  const v = v128.load(p, 2);
  const first = fmt.eight_bits<F>() ? v : v128.and(v, mask);
  const second = fmt.eight_bits<F>() ? v128.load(p, 18) : v128.and(i16x8.shr_u(v, 4), mask);
  if (!HAS_RELAXED_DOT) return i32x4.add(dot_i16(first, x0, x1), dot_i16(second, x2, x3));
  if (fmt.eight_bits<F>()) {
    const s = mac_signed(i32x4.splat(0), x0, v128.xor(first, x2), ones);
    return mac_signed(s, x1, v128.xor(second, x3), ones);
  }
  if (HAS_DOT_ADD) return i32x4.relaxed_dot_i8x16_i7x16_add_s(x1, second, i32x4.relaxed_dot_i8x16_i7x16_add_s(x0, first, i32x4.splat(0)));
  return i16x8.add(i16x8.relaxed_dot_i8x16_i7x16_s(x0, first), i16x8.relaxed_dot_i8x16_i7x16_s(x1, second));
}

/** w . x of sixteen signed codes and i16 activations. */
@inline
function dot_i16(w: v128, x0: v128, x1: v128): v128 {
  return i32x4.add(i32x4.dot_i16x8_s(i16x8.extend_low_i8x16_s(w), x0), i32x4.dot_i16x8_s(i16x8.extend_high_i8x16_s(w), x1));
}
