/**
 * The hot loop of attention, for scores and for values alike: out[r][0..8) = sum over i of a[i][r] * b[i][0..8), one chain of madds over i.
 * Scores: i is a dimension, b eight keys. Values: i is a key, b eight dimensions. 16 of either lie side by side. b is f32, or f16 widened
 * on the way (times 2^-112).
 * 6 rows x 8 columns are 12 accumulators of 16 registers, beside two of b and one splat of a; f16 needs two more and goes up to 4 rows.
 */
import { madd } from '../simd';
import { PART } from './kv_cache';
import { even_f16, f16_even, f16_mask, odd_f16, store_zipped } from './kv_widen';

// How b is stored. Eight columns are taken as two words, x and y: the first and the last four of f32, the even and the odd ones of f16.
@unmanaged
export class FromF32 {
  @inline step(): usize { return 32; }
  @inline load(p: usize): v128 { return v128.load(p); }
  @inline x(w: v128, even: v128, mask: v128): v128 { return w; }
  @inline y(p: usize, w: v128, mask: v128): v128 { return v128.load(p, 16); }
  @inline store(p: usize, x: v128, y: v128): void {
    v128.store(p, x);
    v128.store(p, y, 16);
  }
}
@unmanaged
export class FromF16 {
  @inline step(): usize { return 16; }
  @inline load(p: usize): v128 { return v128.load(p); }
  @inline x(w: v128, even: v128, mask: v128): v128 { return even_f16(w, even, mask); }
  @inline y(p: usize, w: v128, mask: v128): v128 { return odd_f16(w, mask); }
  @inline store(p: usize, x: v128, y: v128): void { store_zipped(p, x, y); }
}

// Which a: its rows lie 4 bytes apart (interleaved queries), or PART floats (probabilities). Only types are constants where immediates are made.
type Queries = i32;
type Probabilities = f32;

// Rows of pair().
type One = u8;
type Two = u16;

/**
 * `groups` times 8 columns, two groups side by side and b_group bytes before the next two; out of a group 32 bytes after the one before.
 * a: row r of step i at a + i * a_step + r * (4 for Queries, 1024 for Probabilities); out: row r at out + r * out_row.
 */
// @ts-ignore: decorator
@inline
function tile<B, A>(R: i32, a: usize, a_step: usize, n: i32, b: usize, b_group: usize, groups: i32, out: usize, out_row: usize): void {
  const f = changetype<B>(0), zero = i32x4.splat(0), mask = f16_mask(), even = f16_even();
  for (let g = 0; g < groups; g++, out += 32) {
    let a0 = zero, a1 = zero, b0 = zero, b1 = zero, c0 = zero, c1 = zero, d0 = zero, d1 = zero, e0 = zero, e1 = zero, f0 = zero, f1 = zero;
    let p = a, q = b;
    for (const end = b + <usize>n * 2 * f.step(); q < end; q += 2 * f.step(), p += a_step) {
      const w = f.load(q), x = f.x(w, even, mask), y = f.y(q, w, mask);
      let s = v128.load32_splat(p);
      a0 = madd(x, s, a0);
      a1 = madd(y, s, a1);
      if (R > 1) {
        s = v128.load32_splat(p, isInteger<A>() ? 4 : 1024);
        b0 = madd(x, s, b0);
        b1 = madd(y, s, b1);
      }
      if (R > 2) {
        s = v128.load32_splat(p, isInteger<A>() ? 8 : 2048);
        c0 = madd(x, s, c0);
        c1 = madd(y, s, c1);
      }
      if (R > 3) {
        s = v128.load32_splat(p, isInteger<A>() ? 12 : 3072);
        d0 = madd(x, s, d0);
        d1 = madd(y, s, d1);
      }
      if (R > 4) {
        s = v128.load32_splat(p, isInteger<A>() ? 16 : 4096);
        e0 = madd(x, s, e0);
        e1 = madd(y, s, e1);
        s = v128.load32_splat(p, isInteger<A>() ? 20 : 5120);
        f0 = madd(x, s, f0);
        f1 = madd(y, s, f1);
      }
    }
    b += g & 1 ? b_group - f.step() : f.step();
    let o = out;
    f.store(o, a0, a1);
    if (R > 1) {
      o += out_row;
      f.store(o, b0, b1);
    }
    if (R > 2) {
      o += out_row;
      f.store(o, c0, c1);
    }
    if (R > 3) {
      o += out_row;
      f.store(o, d0, d1);
    }
    if (R > 4) {
      o += out_row;
      f.store(o, e0, e1);
      o += out_row;
      f.store(o, f0, f1);
    }
  }
}

/**
 * The same for one or two rows, 16 columns at a time: with 8 there would be two or four chains of madds, and each waits 4 cycles for itself.
 * The number of rows is a type's size: as an argument, Binaryen folded both loops into one that asks for it at every step.
 */
// @ts-ignore: decorator
@inline
function pair<B, A, Rows>(a: usize, a_step: usize, n: i32, b: usize, b_group: usize, groups: i32, out: usize, out_row: usize): void {
  const f = changetype<B>(0), zero = i32x4.splat(0), mask = f16_mask(), even = f16_even();
  for (let g = 0; g < groups; g += 2, b += b_group, out += 64) {
    let a0 = zero, a1 = zero, a2 = zero, a3 = zero, b0 = zero, b1 = zero, b2 = zero, b3 = zero;
    let p = a, q = b;
    for (const end = b + <usize>n * 2 * f.step(); q < end; q += 2 * f.step(), p += a_step) {
      const s = v128.load32_splat(p), t = sizeof<Rows>() > 1 ? v128.load32_splat(p, isInteger<A>() ? 4 : 1024) : s;
      let w = f.load(q), c = f.x(w, even, mask);
      a0 = madd(c, s, a0);
      if (sizeof<Rows>() > 1) b0 = madd(c, t, b0);
      c = f.y(q, w, mask);
      a1 = madd(c, s, a1);
      if (sizeof<Rows>() > 1) b1 = madd(c, t, b1);
      w = f.load(q + f.step());
      c = f.x(w, even, mask);
      a2 = madd(c, s, a2);
      if (sizeof<Rows>() > 1) b2 = madd(c, t, b2);
      c = f.y(q + f.step(), w, mask);
      a3 = madd(c, s, a3);
      if (sizeof<Rows>() > 1) b3 = madd(c, t, b3);
    }
    f.store(out, a0, a1);
    f.store(out + 32, a2, a3);
    if (sizeof<Rows>() > 1) {
      f.store(out + out_row, b0, b1);
      f.store(out + out_row + 32, b2, b3);
    }
  }
}

/** Rows of the next tile where `left` are left: 6 (f32 only), 4, 3, 2 or 1. */
// @ts-ignore: decorator
@inline
export function tile_rows(left: i32, f16: bool): i32 {
  return left >= 6 && !f16 ? 6 : min(left, 4);
}

/** Bytes between rows of scores: PART floats. (Loads above have it as a number.) */
const S_ROW: usize = 1024;

/** Scores: a is q [hd][R], b is K [groups / 2][hd][16], out is s [R][PART]. */
export function score_tile<B>(R: i32, q: usize, hd: i32, k: usize, groups: i32, s: usize): void {
  if (PART << 2 != 1024) ERROR('rows of scores must be PART floats apart');
  const b_group = (changetype<B>(0).step() * 2) * <usize>hd;
  if (R == 6) tile<B, Queries>(6, q, 24, hd, k, b_group, groups, s, S_ROW);
  else if (R == 4) tile<B, Queries>(4, q, 16, hd, k, b_group, groups, s, S_ROW);
  else if (R == 3) tile<B, Queries>(3, q, 12, hd, k, b_group, groups, s, S_ROW);
  else if (R == 2) pair<B, Queries, Two>(q, 8, hd, k, b_group, groups, s, S_ROW);
  else pair<B, Queries, One>(q, 4, hd, k, b_group, groups, s, S_ROW);
}

/** Scores of one row of a tile: q_step bytes between its dimensions. */
export function score_row<B>(q: usize, q_step: usize, hd: i32, k: usize, groups: i32, s: usize): void {
  pair<B, Queries, One>(q, q_step, hd, k, (changetype<B>(0).step() * 2) * <usize>hd, groups, s, S_ROW);
}

/** Values: a is p [R][PART], b is V [hd / 16 planes][n][16], out is [R][hd]. */
export function value_tile<B>(R: i32, p: usize, n: i32, v: usize, plane: usize, hd: i32, out: usize, out_row: usize): void {
  const groups = hd >> 3;
  if (R == 6) tile<B, Probabilities>(6, p, 4, n, v, plane, groups, out, out_row);
  else if (R == 4) tile<B, Probabilities>(4, p, 4, n, v, plane, groups, out, out_row);
  else if (R == 3) tile<B, Probabilities>(3, p, 4, n, v, plane, groups, out, out_row);
  else if (R == 2) pair<B, Probabilities, Two>(p, 4, n, v, plane, groups, out, out_row);
  else pair<B, Probabilities, One>(p, 4, n, v, plane, groups, out, out_row);
}
