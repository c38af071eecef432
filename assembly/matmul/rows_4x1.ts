/**
 * One column of activations times 4 plain rows of q4_0 or q8_0, as GGUF has them, wherever they lie: for the few rows that fire for a token, nothing is
 * gathered or packed. Rows are walked side by side, so that a processor waits for memory of four of them at once.
 *
 * The integer sum of a block and its f32 step are those of gemv_16x1.ts and gemv_16x1_signs.ts, blocks follow each other in the same order, and the
 * activations are the same bytes (act.ts): a row's product has the bits that it has among packed ones.
 */
import { ACT_D, ACT_LANE_SUMS0, ACT_LANE_SUMS1, ACT_SUB, SIGNS_D, SIGNS_START, SIGNS_SUB } from './act';
import { mac_signed } from './dot_signed';
import { add_block } from './epilogue';
import * as fmt from './format/format';
import { f16x4_finite } from './format/group';
import { Q4_0 } from './format/q4_0';
import { Q8_0 } from './format/q8_0';
import { HAS_DOT_ADD, HAS_RELAXED_DOT, held, held_ones } from '../simd';
import * as id from '../type/ids';

/** Bytes of a line of the cache. */
const LINE: usize = 64;

/** Rows that are multiplied at once. */
export const AT_ONCE: i32 = 4;

/** Whether rows of the type are multiplied as they are. */
// @ts-ignore: decorator
@inline
export function takes_rows(type: u32): bool {
  return type == id.Q4_0 || type == id.Q8_0;
}

/**
 * y[0..3] = the rows of ne00 weights at four addresses, which lie at `rows`, times the column at a. A row with a scale that is not finite gives NaN.
 */
export function rows_4x1(type: u32, rows: usize, ne00: i32, a: usize, y: usize): void {
  if (type == id.Q8_0) rows_of<Q8_0>(rows, ne00 >> 5, a, y);
  else rows_of<Q4_0>(rows, ne00 >> 5, a, y);
}

/**
 * Whether memory that is read from one end to the other is fetched first: in dotadd builds, with which it was measured on a Xeon. On Zen 4, which runs the
 * relaxed one, the prefetchers are better than that: with it a token of 189 M parameters took 1.7 times as long in q4_0 and 1.5 times in tq2_0 (one
 * thread, Node 24, medians of 3 rounds). Products were slower in whichever of four orders the lines were fetched, and by 16, 32 or 128 KiB at a time.
 */
export const FETCHES_RUNS: bool = HAS_DOT_ADD;

/**
 * Loads a byte of each line of n bytes at p, and stores something of them at `to`. Rows that lie anywhere are fetched by nothing ahead: so closely one after the
 * other a processor waits for many of these loads at once, and while it computes for few. It took a feed-forward of a tenth of its neurons from 0.38 of the
 * dense one's time to 0.29 (q4_0 from memory, Xeon, Node 24, one thread). Four quarters are read side by side, since prefetchers end at pages: 24 GiB/s
 * where one after the other 20 come.
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

function rows_of<F>(rows: usize, n: i32, a: usize, y: usize): void {
  // In the simd build 8-bit codes come with the activations of 4-bit ones.
  const signs = HAS_RELAXED_DOT && fmt.eight_bits<F>();
  const mask = held(15);
  const ones = held_ones();
  let p = load<usize>(rows);
  const d1 = load<usize>(rows, sizeof<usize>()) - p;
  const d2 = load<usize>(rows, 2 * sizeof<usize>()) - p;
  const d3 = load<usize>(rows, 3 * sizeof<usize>()) - p;
  let sums = f32x4.splat(0);
  let exponents = i32x4.splat(0);
  for (const end = p + <usize>n * (changetype<F>(0).bytes() >> 4); p != end; p += changetype<F>(0).bytes() >> 4) {
    let x0 = v128.load(a);
    let x1 = v128.load(a, 16);
    let x2 = v128.load(a, 32);
    let x3 = v128.load(a, 48);
    if (signs) {
      const x = x0;
      const s = x2;
      x0 = v128.shuffle<i32>(x, x1, 0, 2, 4, 6);
      x1 = v128.shuffle<i32>(x, x1, 1, 3, 5, 7);
      x2 = v128.shuffle<i32>(s, x3, 0, 2, 4, 6);
      x3 = v128.shuffle<i32>(s, x3, 1, 3, 5, 7);
    }
    let d = v128.load16_splat(p);
    d = v128.load16_lane(p + d1, d, 3);
    d = v128.load16_lane(p + d2, d, 5);
    d = i32x4.shr_s(v128.load16_lane(p + d3, d, 7), 16);
    exponents = i32x4.max_s(exponents, v128.and(d, i32x4.splat(0x7c00)));
    const s0 = block<F>(p, x0, x1, x2, x3, mask, ones);
    const s1 = block<F>(p + d1, x0, x1, x2, x3, mask, ones);
    const s2 = block<F>(p + d2, x0, x1, x2, x3, mask, ones);
    const s3 = block<F>(p + d3, x0, x1, x2, x3, mask, ones);
    // The sums of four lanes each, side by side.
    const s01 = i32x4.add(v128.shuffle<i32>(s0, s1, 0, 4, 1, 5), v128.shuffle<i32>(s0, s1, 2, 6, 3, 7));
    const s23 = i32x4.add(v128.shuffle<i32>(s2, s3, 0, 4, 1, 5), v128.shuffle<i32>(s2, s3, 2, 6, 3, 7));
    let i = i32x4.add(v128.shuffle<i64>(s01, s23, 0, 2), v128.shuffle<i64>(s01, s23, 1, 3));
    if (signs) i = i32x4.add(i, v128.load32_splat(a, SIGNS_START));
    else if (!fmt.eight_bits<F>()) {
      const lanes = i16x8.add(v128.load32_splat(a, ACT_LANE_SUMS0), v128.load32_splat(a, ACT_LANE_SUMS1));
      i = i32x4.add(i, i32x4.shl(i32x4.extadd_pairwise_i16x8_s(lanes), ctz(fmt.centre<F>())));
    }
    const da = signs ? v128.load32_splat(a, SIGNS_D) : v128.load32_splat(a, ACT_D);
    sums = add_block<F>(sums, i, f16x4_finite(d), da);
    a += signs ? SIGNS_SUB : ACT_SUB;
  }
  v128.store(y, v128.or(sums, i32x4.eq(exponents, i32x4.splat(0x7c00))));
}

/** Four i32 sums of the codes of the block at p times activations: i8 at x0 and x1 (with their signs apart: x2 and x3), or i16 at x0 to x3. */
// @ts-ignore: decorator
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
  return i32x4.dot_i16x8_s(i16x8.add(i16x8.relaxed_dot_i8x16_i7x16_s(x0, first), i16x8.relaxed_dot_i8x16_i7x16_s(x1, second)), ones);
}

/** w . x of sixteen signed codes and i16. */
// @ts-ignore: decorator
@inline
function dot_i16(w: v128, x0: v128, x1: v128): v128 {
  return i32x4.add(i32x4.dot_i16x8_s(i16x8.extend_low_i8x16_s(w), x0), i32x4.dot_i16x8_s(i16x8.extend_high_i8x16_s(w), x1));
}
