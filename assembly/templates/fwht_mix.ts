/**
 * Mixing of the m = 12, 20 or 28 parts of a Walsh-Hadamard transform (fwht.ts) by Paley's second
 * construction for q = 5, 9 and 13, m = 2 (q + 1):
 *
 *   | C + I   C - I |      with C = | 0  1 ... 1 |
 *   | C - I  -C - I |               | :     Q    |
 *
 *   Q[i][j] = 1 if i - j is a nonzero square of the field of q elements, 0 if i = j, else -1
 *
 * So halves u and v need C s of s = u + v, and C d of d = u - v. For a row, C s + d = sum(s) - 2 (v
 * + the sum of the s where the row has -1), and C d - s is the same with u and d. Sums that the
 * rows share are computed once:
 *
 *   q = 5  | A row's -1 are two cyclic neighbours. Five sums of neighbours suffice, which also make
 *          | up most of the sum of all.
 *   q = 9  | The field is a square of three rows and columns. A -1 lies in neither the element's
 *          | row nor its column, so sums of rows and columns suffice:
 *          | C s = (the first - the sum of the others) + 2 (row + column) - 3 s
 *   q = 13 | Element i's -1 are i + 2, i + 11, and the neighbours from i + 5 and from i + 7 on. The
 *          | latter are the former of element i + 2.
 *
 * That is 4.2, 5.7 and 7.5 operations for a vector. A vector is stored once; with 28 parts, 2.5
 * times. Not kept: adding all of a row's -1 one by one (slower). Two vectors side by side, which
 * turbo would join, do not fit x64's registers.
 */
import { FWHT_SCRATCH_DIFFERENCES, FWHT_SCRATCH_LINES } from '../layout';
import { madd } from '../simd';

/** 2 and -2. They are loaded from memory because V8 builds a constant at every use. */
const TWOS = memory.data<f32>([2, -2]);

/**
 * Bytes of a vector for each part of a half. The scratch has three of these: u + v, u - v and u.
 */
const HALF: usize = FWHT_SCRATCH_DIFFERENCES;

/**
 * Mixes m parts of `part` bytes, a vector of each at a time. scratch:
 * FWHT_SCRATCH_SIZE bytes.
 */
export function mix(y: usize, part: usize, m: i32, scratch: usize): void {
  if (part < 16) return mix_short(y, part, m, scratch);
  const end = y + part;
  const far = part * (m >> 1);
  if (m == 12) for (; y < end; y += 16) mix_12(y, y + far, part);
  else if (m == 20) for (; y < end; y += 16) mix_20(y, y + far, part, scratch);
  else for (; y < end; y += 16) mix_28(y, y + far, part, scratch);
}

/** Mixes parts of one or two elements. Each is copied to a vector of its own and back. */
function mix_short(y: usize, part: usize, m: i32, scratch: usize): void {
  const line = scratch + FWHT_SCRATCH_LINES;
  const end = y + <usize>m * part;
  for (let p = y, q = line; p < end; p += part, q += 16) memory.copy(q, p, part);
  mix(line, 16, m, scratch);
  for (let p = y, q = line; p < end; p += part, q += 16) memory.copy(p, q, part);
}

/** y = all - 2 (those + own). */
@inline
function put(y: usize, all: v128, those: v128, own: v128, minus_two: v128): void {
  v128.store(y, madd(f32x4.add(those, own), minus_two, all));
}

/**
 * Mixes one vector of each of 12 parts: those at y, y + part ... and, for the other half, from
 * `far` on.
 */
@inline
function mix_12(y: usize, far: usize, part: usize): void {
  const minus_two = v128.load32_splat(TWOS, 4);
  let u = v128.load(y);
  let v = v128.load(far);
  const s0 = f32x4.add(u, v);
  const d0 = f32x4.sub(u, v);
  let p = y;
  let q = far;
  // $for i of 1..6
  p += part;
  q += part;
  u = v128.load(p);
  v = v128.load(q);
  const s$i = f32x4.add(u, v);
  const d$i = f32x4.sub(u, v);
  // $end
  // $for x of ['s', 'd']
  const $x12 = f32x4.add($x1, $x2);
  const $x34 = f32x4.add($x3, $x4);
  // $end
  const $x = f32x4.add(f32x4.add($x0, $x5), f32x4.add($x12, $x34)); // $for x of ['s', 'd']
  // From last to first, because the last vectors are already loaded.
  put(p, s, f32x4.add(s2, s3), v, minus_two);
  put(q, d, f32x4.add(d2, d3), u, minus_two);
  // $for x, y of [['s12', 'd12'], ['f32x4.add(s5, s1)', 'f32x4.add(d5, d1)'], ['f32x4.add(s4, s5)', 'f32x4.add(d4, d5)'], ['s34', 'd34']]
  p -= part;
  q -= part;
  u = v128.load(p);
  put(p, s, $x, v128.load(q), minus_two);
  put(q, d, $y, u, minus_two);
  // $end
  u = v128.load(y);
  v128.store(y, madd(v128.load(far), minus_two, s));
  v128.store(far, madd(u, minus_two, d));
}

/** As mix_12, for 20 parts. The scratch holds sums of rows. */
@inline
function mix_20(y: usize, far: usize, part: usize, scratch: usize): void {
  const two = v128.load32_splat(TWOS);
  const minus_two = v128.load32_splat(TWOS, 4);
  let p = y;
  let q = far;
  let u: v128;
  let v: v128;
  let t: v128;
  // $for r of 0..3
  // $for c of 1..4
  p += part;
  q += part;
  u = v128.load(p);
  v = v128.load(q);
  // $if c == 1
  let s_$r = f32x4.add(u, v);
  let d_$r = f32x4.sub(u, v);
  // $end
  // $for x, op of [['s', 'add'], ['d', 'sub']]
  // $if c > 1
  t = f32x4.$op(u, v);
  // $end
  // $let sum = c == 1 ? x + '_' + r : 't'
  // $if r == 0
  let $x$c = $sum;
  // $else
  $x$c = f32x4.add($x$c, $sum);
  // $end
  // $if c > 1
  $x_$r = f32x4.add($x_$r, t);
  // $end
  // $end
  // $end
  v128.store(scratch, s_$r, $(32 * r));
  v128.store(scratch, d_$r, $(32 * r + 16));
  // $end
  u = v128.load(y);
  v = v128.load(far);
  let s = f32x4.add(f32x4.add(s1, s2), s3);
  let d = f32x4.add(f32x4.add(d1, d2), d3);
  let first = f32x4.add(u, v);
  v128.store(y, madd(v, minus_two, f32x4.add(first, s)));
  s = f32x4.sub(first, s);
  first = f32x4.sub(u, v);
  v128.store(far, madd(u, minus_two, f32x4.add(first, d)));
  d = f32x4.sub(first, d);
  p = y;
  q = far;
  // $for r of 0..3
  s_$r = madd(v128.load(scratch, $(32 * r)), two, s);
  d_$r = madd(v128.load(scratch, $(32 * r + 16)), two, d);
  // $for c of 1..4
  p += part;
  q += part;
  put_20(p, q, s_$r, d_$r, s$c, d$c, two, minus_two);
  // $end
  // $end
}

/** Stores two results of mix_20: -3 s + d = -2 (u + 2 v), and -3 d - s = -2 (2 u - v). */
@inline
function put_20(p: usize, q: usize, row_s: v128, row_d: v128, s: v128, d: v128, two: v128, minus_two: v128): void {
  const u = v128.load(p);
  const v = v128.load(q);
  v128.store(p, madd(madd(v, minus_two, f32x4.sub(s, u)), two, row_s));
  v128.store(q, madd(madd(u, minus_two, f32x4.add(d, v)), two, row_d));
}

/** As mix_12, for 28 parts. The scratch keeps u, which the first half's results overwrite. */
@inline
function mix_28(y: usize, far: usize, part: usize, scratch: usize): void {
  for (let p = y, q = far, work = scratch; p < far; p += part, q += part, work += 16) {
    const u = v128.load(p);
    const v = v128.load(q);
    v128.store(work, f32x4.add(u, v));
    v128.store(work, f32x4.sub(u, v), HALF);
    v128.store(work, u, 2 * HALF);
  }
  half_28(scratch, far, part, y, part);
  half_28(scratch + HALF, scratch + 2 * HALF, 16, far, part);
}

/**
 * y = sum(x) - 2 (v + the sum of the x where the row has -1), for rows 1, 3 ... 13, 2, 4 ... 12.
 * x1 .. x9, xa .. xd: elements 1 to 13.
 * step and part: bytes from one v, and one y, to the next.
 */
function half_28(x: usize, v: usize, step: usize, y: usize, part: usize): void {
  // $for i of 1..14
  // $let n = i.toString(16)
  const x$n = v128.load(x, $(16 * i));
  // $end
  const minus_two = v128.load32_splat(TWOS, 4);
  const step_2 = step << 1;
  const part_2 = part << 1;
  let a = f32x4.add(x6, x7);
  let b = f32x4.add(x8, x9);
  let all = f32x4.add(f32x4.add(v128.load(x), f32x4.add(x1, x2)), f32x4.add(f32x4.add(x3, x4), x5));
  all = f32x4.add(f32x4.add(all, f32x4.add(a, b)), f32x4.add(f32x4.add(xa, xb), f32x4.add(xc, xd)));
  v128.store(y, madd(v128.load(v), minus_two, all));
  // $let NAMES = 'd123456789abc'
  // $for n, i of [1, 3, 5, 7, 9, 11, 13, 2, 4, 6, 8, 10, 12].map((i, n) => [n, i])
  // $if i == 1
  v += step;
  y += part;
  // $else
  // $if i == 2
  v -= 11 * step;
  y -= 11 * part;
  // $else
  v += step_2;
  y += part_2;
  // $end
  // $end
  // $let sum = n % 2 == 1 ? 'a' : 'b'
  // $let k = NAMES[(i + 7) % 13]
  // $let l = NAMES[(i + 8) % 13]
  // $if n > 0
  $sum = f32x4.add(x$k, x$l);
  // $end
  // $let j = NAMES[(i + 2) % 13]
  // $let m = NAMES[(i + 11) % 13]
  put(y, all, f32x4.add(f32x4.add(a, b), f32x4.add(x$j, x$m)), v128.load(v), minus_two);
  // $end
}
