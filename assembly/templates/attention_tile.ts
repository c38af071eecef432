/**
 * Inner loop of attention, for scores and for values: out[r][0..8) = sum over i of a[i][r] *
 * b[i][0..8), one chain of madds over i.
 *
 * Scores: i is a dimension, and b[i] is eight keys. Values: i is a key, and b[i] is eight of its
 * dimensions. In memory 16 of either lie side by side (kv_cache.ts). b is f32, or f16 widened in
 * registers (times 2^-112). Of 16 registers, 6 rows x 8 columns take 12 for sums, two for b and one
 * for a splat of a. f16 needs two more, so it takes at most 4 rows.
 */
import { madd } from '../simd';
import { KV_SPLIT } from '../layout';
import { even_f16, f16_even, f16_mask, odd_f16, store_zipped } from './kv_widen';

// Storage of b. Eight columns are two vectors, x and y: the first and the last four of f32, the
// even and the odd ones of f16. step(): bytes of eight columns.
@unmanaged
export class FromF32 {
  @inline step(): usize {
    return 32;
  }
  @inline load(p: usize): v128 {
    return v128.load(p);
  }
  @inline x(w: v128, even: v128, mask: v128): v128 {
    return w;
  }
  @inline y(p: usize, w: v128, mask: v128): v128 {
    return v128.load(p, 16);
  }
  @inline store(p: usize, x: v128, y: v128): void {
    v128.store(p, x);
    v128.store(p, y, 16);
  }
  @inline store_two(p: usize, x0: v128, y0: v128, x1: v128, y1: v128): void {
    this.store(p, x0, y0);
    this.store(p + 32, x1, y1);
  }
  @inline in_order(p: usize, n: usize): void {}
}
@unmanaged
export class FromF16 {
  @inline step(): usize {
    return 16;
  }
  @inline load(p: usize): v128 {
    return v128.load(p);
  }
  @inline x(w: v128, even: v128, mask: v128): v128 {
    return even_f16(w, even, mask);
  }
  @inline y(p: usize, w: v128, mask: v128): v128 {
    return odd_f16(w, mask);
  }
  @inline store(p: usize, x: v128, y: v128): void {
    store_zipped(p, x, y);
  }
  /**
   * V8's revectoriser finds pairs of equal computations by adjacent stores. So this stores columns
   * out of order, and in_order() sorts them after the loop.
   */
  @inline store_two(p: usize, x0: v128, y0: v128, x1: v128, y1: v128): void {
    v128.store(p, x0);
    v128.store(p, x1, 16);
    v128.store(p, y0, 32);
    v128.store(p, y1, 48);
  }
  @inline in_order(p: usize, n: usize): void {
    zip_all(p, n);
  }
}

/** Sorts n times sixteen columns that FromF16.store_two() has stored. */
function zip_all(p: usize, n: usize): void {
  for (const end = p + (n << 6); p != end; p += 64) {
    const x1 = v128.load(p, 16);
    const y1 = v128.load(p, 48);
    store_zipped(p, v128.load(p), v128.load(p, 32));
    store_zipped(p + 32, x1, y1);
  }
}

// Kind of a: its rows lie 4 bytes apart (interleaved queries) or KV_SPLIT floats (probabilities).
// It is a type, so that the compiler knows the distance and makes it an immediate offset.
type Queries = i32;
type Probabilities = f32;

// Number of rows of pair().
type One = u8;
type Two = u16;

/**
 * Adds up products: out[r][c] = sum over i < n of a[r][i] * b[i][c], for R rows r and 8 * groups
 * columns c. The arguments a_step, b_group and out_row are in bytes.
 *
 *   b   | two groups of 8 columns side by side; 2 * step() from one i to the next, b_group from
 *       | these two groups to the next two
 *   a   | a[r][i] at a + i * a_step + r * (4 for Queries, 1024 for Probabilities)
 *   out | row r at out + r * out_row, 32 a group
 */
@inline
function tile<B, A>(R: i32, a: usize, a_step: usize, n: i32, b: usize, b_group: usize, groups: i32, out: usize, out_row: usize): void {
  const f = changetype<B>(0);
  const zero = i32x4.splat(0);
  const mask = f16_mask();
  const even = f16_even();
  for (let g = 0; g < groups; g++, out += 32) {
    // $for r of 0..ROWS
    let s$r$x = zero; // $for x of 0..2
    // $end
    let p = a;
    let q = b;
    for (const end = b + <usize>n * 2 * f.step(); q < end; q += 2 * f.step(), p += a_step) {
      const w = f.load(q);
      const x = f.x(w, even, mask);
      const y = f.y(q, w, mask);
      let t: v128;
      // $for r of 0..ROWS
      if (R > $r) {
        t = v128.load32_splat(p, isInteger<A>() ? $(4 * r) : $(1024 * r));
        s$r0 = madd(x, t, s$r0);
        s$r1 = madd(y, t, s$r1);
      }
      // $end
    }
    b += g & 1 ? b_group - f.step() : f.step();
    let o = out;
    f.store(o, s00, s01);
    // $for r of 1..ROWS
    if (R > $r) {
      o += out_row;
      f.store(o, s$r0, s$r1);
    }
    // $end
  }
}

/**
 * As tile, for one or two rows, 16 columns at a time: 8 columns would be only two or four chains of
 * madds, each with a latency of 4 cycles. The number of rows is the size of a type. If it were an
 * argument, Binaryen would make one loop that tests it at every step.
 */
@inline
function pair<B, A, Rows>(a: usize, a_step: usize, n: i32, b: usize, b_group: usize, groups: i32, out: usize, out_row: usize): void {
  const f = changetype<B>(0);
  const zero = i32x4.splat(0);
  const mask = f16_mask();
  const even = f16_even();
  const first = out;
  for (let g = 0; g < groups; g += 2, b += b_group, out += 64) {
    // $for r of 0..2
    let s$r$x = zero; // $for x of 0..4
    // $end
    let p = a;
    let q = b;
    for (const end = b + <usize>n * 2 * f.step(); q < end; q += 2 * f.step(), p += a_step) {
      const t0 = v128.load32_splat(p);
      const t1 = sizeof<Rows>() > 1 ? v128.load32_splat(p, isInteger<A>() ? 4 : 1024) : t0;
      let w: v128;
      let c: v128;
      // $for x of 0..2
      // $let even = 2 * x
      // $let odd = 2 * x + 1
      w = f.load(q + $x * f.step());
      c = f.x(w, even, mask);
      if (sizeof<Rows>() > $r) s$r$even = madd(c, t$r, s$r$even); // $for r of 0..2
      c = f.y(q + $x * f.step(), w, mask);
      if (sizeof<Rows>() > $r) s$r$odd = madd(c, t$r, s$r$odd); // $for r of 0..2
      // $end
    }
    f.store_two(out, s00, s01, s02, s03);
    if (sizeof<Rows>() > 1) f.store_two(out + out_row, s10, s11, s12, s13);
  }
  f.in_order(first, groups >> 1);
  if (sizeof<Rows>() > 1) f.in_order(first + out_row, groups >> 1);
}

/** Rows of the next tile, of `left` rows: $ROWS (f32 only), 4, 3, 2 or 1. */
@inline
export function tile_rows(left: i32, f16: bool): i32 {
  return left >= $ROWS && !f16 ? $ROWS : min(left, 4);
}

/** Bytes between rows of scores: KV_SPLIT floats. (The loads above have the number itself.) */
const S_ROW: usize = 1024;

/**
 * Scores of R queries with 8 * groups keys: s [R][KV_SPLIT] = q [hd][R] . k [groups / 2][hd][16].
 */
export function score_tile<B>(R: i32, q: usize, hd: i32, k: usize, groups: i32, s: usize): void {
  if (KV_SPLIT << 2 != 1024) ERROR('rows of scores must be KV_SPLIT floats apart');
  const b_group = changetype<B>(0).step() * 2 * <usize>hd;
  if (R == $ROWS) tile<B, Queries>($ROWS, q, $(4 * ROWS), hd, k, b_group, groups, s, S_ROW);
  // $for r of [4, 3]
  else if (R == $r) tile<B, Queries>($r, q, $(4 * r), hd, k, b_group, groups, s, S_ROW);
  // $end
  else if (R == 2) pair<B, Queries, Two>(q, 8, hd, k, b_group, groups, s, S_ROW);
  else pair<B, Queries, One>(q, 4, hd, k, b_group, groups, s, S_ROW);
}

/** Scores of one query of a tile. q_step: bytes from one dimension of the query to the next. */
export function score_row<B>(q: usize, q_step: usize, hd: i32, k: usize, groups: i32, s: usize): void {
  pair<B, Queries, One>(q, q_step, hd, k, changetype<B>(0).step() * 2 * <usize>hd, groups, s, S_ROW);
}

/**
 * Outputs of R rows: out [R][hd], out_row bytes a row, = p [R][KV_SPLIT] . v [hd / 16][n][16].
 * plane: bytes from 16 dimensions to the next.
 */
export function value_tile<B>(R: i32, p: usize, n: i32, v: usize, plane: usize, hd: i32, out: usize, out_row: usize): void {
  const groups = hd >> 3;
  if (R == $ROWS) tile<B, Probabilities>($ROWS, p, 4, n, v, plane, groups, out, out_row);
  // $for r of [4, 3]
  else if (R == $r) tile<B, Probabilities>($r, p, 4, n, v, plane, groups, out, out_row);
  // $end
  else if (R == 2) pair<B, Probabilities, Two>(p, 4, n, v, plane, groups, out, out_row);
  else pair<B, Probabilities, One>(p, 4, n, v, plane, groups, out, out_row);
}
