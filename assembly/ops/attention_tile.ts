/**
 * The hot loop of attention, for scores and for values alike: out[r][0..8) = sum over i of a[i][r] * b[i][0..8), one chain of madds over i.
 * Scores: i is a dimension, b eight keys of 16 that lie side by side. Values: i is a key, b eight dimensions. b is f32, or f16 widened on the
 * way (times 2^-112).
 * 6 rows x 8 columns are 12 accumulators of 16 registers, beside two of b and one splat of a; f16 needs two more and goes up to 4 rows.
 */
import { madd } from '../simd';
import { f16_mask, high_f16, low_f16 } from './kv_cache';

// How b is stored.
@unmanaged
export class FromF32 {
  @inline step(): usize { return 32; }
  @inline lo(p: usize, zero: v128, mask: v128): v128 { return v128.load(p); }
  @inline hi(p: usize, zero: v128, mask: v128): v128 { return v128.load(p, 16); }
}
@unmanaged
export class FromF16 {
  @inline step(): usize { return 16; }
  @inline lo(p: usize, zero: v128, mask: v128): v128 { return low_f16(v128.load(p), zero, mask); }
  @inline hi(p: usize, zero: v128, mask: v128): v128 { return high_f16(v128.load(p), zero, mask); }
}

// Which a: its rows lie 4 bytes apart (interleaved queries), or PART floats (probabilities). Only types are constants where immediates are made.
type Queries = i32;
type Probabilities = f32;

// Bytes from one i to the next.
// @ts-ignore: decorator
@inline
function step<B, A>(): usize {
  return isInteger<A>() ? 2 * changetype<B>(0).step() : changetype<B>(0).step();
}

/**
 * `groups` times 8 columns. Queries: two groups lie side by side, b_group bytes before the next two. Probabilities: each b_group bytes
 * after the one before. Its out lies 32 bytes further.
 * a: row r of step i at a + i * a_step + r * (4 for Queries, 1024 for Probabilities); out: row r at out + r * out_row.
 */
// @ts-ignore: decorator
@inline
function tile<B, A>(R: i32, a: usize, a_step: usize, n: i32, b: usize, b_group: usize, groups: i32, out: usize, out_row: usize, mask: v128): void {
  const f = changetype<B>(0), zero = i32x4.splat(0);
  for (let g = 0; g < groups; g++, out += 32) {
    let a0 = zero, a1 = zero, b0 = zero, b1 = zero, c0 = zero, c1 = zero, d0 = zero, d1 = zero, e0 = zero, e1 = zero, f0 = zero, f1 = zero;
    let p = a, q = b;
    for (const end = b + <usize>n * step<B, A>(); q < end; q += step<B, A>(), p += a_step) {
      const lo = f.lo(q, zero, mask), hi = f.hi(q, zero, mask);
      let s = v128.load32_splat(p);
      a0 = madd(lo, s, a0);
      a1 = madd(hi, s, a1);
      if (R > 1) {
        s = v128.load32_splat(p, isInteger<A>() ? 4 : 1024);
        b0 = madd(lo, s, b0);
        b1 = madd(hi, s, b1);
      }
      if (R > 2) {
        s = v128.load32_splat(p, isInteger<A>() ? 8 : 2048);
        c0 = madd(lo, s, c0);
        c1 = madd(hi, s, c1);
      }
      if (R > 3) {
        s = v128.load32_splat(p, isInteger<A>() ? 12 : 3072);
        d0 = madd(lo, s, d0);
        d1 = madd(hi, s, d1);
      }
      if (R > 4) {
        s = v128.load32_splat(p, isInteger<A>() ? 16 : 4096);
        e0 = madd(lo, s, e0);
        e1 = madd(hi, s, e1);
        s = v128.load32_splat(p, isInteger<A>() ? 20 : 5120);
        f0 = madd(lo, s, f0);
        f1 = madd(hi, s, f1);
      }
    }
    if (isInteger<A>()) b += g & 1 ? b_group - f.step() : f.step();
    else b += b_group;
    let o = out;
    v128.store(o, a0);
    v128.store(o, a1, 16);
    if (R > 1) {
      o += out_row;
      v128.store(o, b0);
      v128.store(o, b1, 16);
    }
    if (R > 2) {
      o += out_row;
      v128.store(o, c0);
      v128.store(o, c1, 16);
    }
    if (R > 3) {
      o += out_row;
      v128.store(o, d0);
      v128.store(o, d1, 16);
    }
    if (R > 4) {
      o += out_row;
      v128.store(o, e0);
      v128.store(o, e1, 16);
      o += out_row;
      v128.store(o, f0);
      v128.store(o, f1, 16);
    }
  }
}

/**
 * The same for one or two rows, 16 columns at a time: with 8 there would be two or four chains of madds, and each waits 4 cycles for itself.
 * An odd last group is the caller's.
 */
// @ts-ignore: decorator
@inline
function pair<B, A>(R: i32, a: usize, a_step: usize, n: i32, b: usize, b_group: usize, groups: i32, out: usize, out_row: usize, mask: v128): void {
  const f = changetype<B>(0), zero = i32x4.splat(0);
  const other = isInteger<A>() ? f.step() : b_group;
  for (let g = 1; g < groups; g += 2, b += isInteger<A>() ? b_group : 2 * b_group, out += 64) {
    let a0 = zero, a1 = zero, a2 = zero, a3 = zero, b0 = zero, b1 = zero, b2 = zero, b3 = zero;
    let p = a, q = b;
    for (const end = b + <usize>n * step<B, A>(); q < end; q += step<B, A>(), p += a_step) {
      const c0 = f.lo(q, zero, mask), c1 = f.hi(q, zero, mask), c2 = f.lo(q + other, zero, mask), c3 = f.hi(q + other, zero, mask);
      let s = v128.load32_splat(p);
      a0 = madd(c0, s, a0);
      a1 = madd(c1, s, a1);
      a2 = madd(c2, s, a2);
      a3 = madd(c3, s, a3);
      if (R > 1) {
        s = v128.load32_splat(p, isInteger<A>() ? 4 : 1024);
        b0 = madd(c0, s, b0);
        b1 = madd(c1, s, b1);
        b2 = madd(c2, s, b2);
        b3 = madd(c3, s, b3);
      }
    }
    v128.store(out, a0);
    v128.store(out, a1, 16);
    v128.store(out, a2, 32);
    v128.store(out, a3, 48);
    if (R > 1) {
      const o = out + out_row;
      v128.store(o, b0);
      v128.store(o, b1, 16);
      v128.store(o, b2, 32);
      v128.store(o, b3, 48);
    }
  }
}

// @ts-ignore: decorator
@inline
function narrow<B, A>(R: i32, a: usize, a_step: usize, n: i32, b: usize, b_group: usize, groups: i32, out: usize, out_row: usize, mask: v128): void {
  const pairs = groups & ~1;
  pair<B, A>(R, a, a_step, n, b, b_group, groups, out, out_row, mask);
  tile<B, A>(R, a, a_step, n, b + <usize>pairs * b_group, b_group, groups - pairs, out + (<usize>pairs << 5), out_row, mask);
}

/** Rows of the next tile where `left` are left: 6 (f32 only), 4, 3, 2 or 1. */
// @ts-ignore: decorator
@inline
export function tile_rows(left: i32, f16: bool): i32 {
  return left >= 6 && !f16 ? 6 : min(left, 4);
}

/** Bytes between rows of scores: PART floats. */
const S_ROW: usize = 1024;

/** Scores: a is q [hd][R], b is K [groups / 2][hd][16], out is s [R][PART]. */
export function score_tile<B>(R: i32, q: usize, hd: i32, k: usize, groups: i32, s: usize): void {
  const mask = f16_mask(), b_group = step<B, Queries>() * hd;
  if (R == 6) tile<B, Queries>(6, q, 24, hd, k, b_group, groups, s, S_ROW, mask);
  else if (R == 4) tile<B, Queries>(4, q, 16, hd, k, b_group, groups, s, S_ROW, mask);
  else if (R == 3) tile<B, Queries>(3, q, 12, hd, k, b_group, groups, s, S_ROW, mask);
  else if (R == 2) narrow<B, Queries>(2, q, 8, hd, k, b_group, groups, s, S_ROW, mask);
  else narrow<B, Queries>(1, q, 4, hd, k, b_group, groups, s, S_ROW, mask);
}

/** Scores of one row of a tile: q_step bytes between its dimensions. */
export function score_row<B>(q: usize, q_step: usize, hd: i32, k: usize, groups: i32, s: usize): void {
  const mask = f16_mask();
  narrow<B, Queries>(1, q, q_step, hd, k, step<B, Queries>() * hd, groups, s, S_ROW, mask);
}

/** Values: a is p [R][PART], b is V [hd / 8 planes][n][8], out is [R][hd]. */
export function value_tile<B>(R: i32, p: usize, n: i32, v: usize, plane: usize, hd: i32, out: usize, out_row: usize): void {
  const mask = f16_mask(), groups = hd >> 3;
  if (R == 6) tile<B, Probabilities>(6, p, 4, n, v, plane, groups, out, out_row, mask);
  else if (R == 4) tile<B, Probabilities>(4, p, 4, n, v, plane, groups, out, out_row, mask);
  else if (R == 3) tile<B, Probabilities>(3, p, 4, n, v, plane, groups, out, out_row, mask);
  else if (R == 2) narrow<B, Probabilities>(2, p, 4, n, v, plane, groups, out, out_row, mask);
  else narrow<B, Probabilities>(1, p, 4, n, v, plane, groups, out, out_row, mask);
}
