// Generated from assembly/templates/fwht_mix.ts by `npm run generate`: edit the template.
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
  p += part;
  q += part;
  u = v128.load(p);
  v = v128.load(q);
  const s1 = f32x4.add(u, v);
  const d1 = f32x4.sub(u, v);
  p += part;
  q += part;
  u = v128.load(p);
  v = v128.load(q);
  const s2 = f32x4.add(u, v);
  const d2 = f32x4.sub(u, v);
  p += part;
  q += part;
  u = v128.load(p);
  v = v128.load(q);
  const s3 = f32x4.add(u, v);
  const d3 = f32x4.sub(u, v);
  p += part;
  q += part;
  u = v128.load(p);
  v = v128.load(q);
  const s4 = f32x4.add(u, v);
  const d4 = f32x4.sub(u, v);
  p += part;
  q += part;
  u = v128.load(p);
  v = v128.load(q);
  const s5 = f32x4.add(u, v);
  const d5 = f32x4.sub(u, v);
  const s12 = f32x4.add(s1, s2);
  const s34 = f32x4.add(s3, s4);
  const d12 = f32x4.add(d1, d2);
  const d34 = f32x4.add(d3, d4);
  const s = f32x4.add(f32x4.add(s0, s5), f32x4.add(s12, s34));
  const d = f32x4.add(f32x4.add(d0, d5), f32x4.add(d12, d34));
  // From last to first, because the last vectors are already loaded.
  put(p, s, f32x4.add(s2, s3), v, minus_two);
  put(q, d, f32x4.add(d2, d3), u, minus_two);
  p -= part;
  q -= part;
  u = v128.load(p);
  put(p, s, s12, v128.load(q), minus_two);
  put(q, d, d12, u, minus_two);
  p -= part;
  q -= part;
  u = v128.load(p);
  put(p, s, f32x4.add(s5, s1), v128.load(q), minus_two);
  put(q, d, f32x4.add(d5, d1), u, minus_two);
  p -= part;
  q -= part;
  u = v128.load(p);
  put(p, s, f32x4.add(s4, s5), v128.load(q), minus_two);
  put(q, d, f32x4.add(d4, d5), u, minus_two);
  p -= part;
  q -= part;
  u = v128.load(p);
  put(p, s, s34, v128.load(q), minus_two);
  put(q, d, d34, u, minus_two);
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
  p += part;
  q += part;
  u = v128.load(p);
  v = v128.load(q);
  let s_0 = f32x4.add(u, v);
  let d_0 = f32x4.sub(u, v);
  let s1 = s_0;
  let d1 = d_0;
  p += part;
  q += part;
  u = v128.load(p);
  v = v128.load(q);
  t = f32x4.add(u, v);
  let s2 = t;
  s_0 = f32x4.add(s_0, t);
  t = f32x4.sub(u, v);
  let d2 = t;
  d_0 = f32x4.add(d_0, t);
  p += part;
  q += part;
  u = v128.load(p);
  v = v128.load(q);
  t = f32x4.add(u, v);
  let s3 = t;
  s_0 = f32x4.add(s_0, t);
  t = f32x4.sub(u, v);
  let d3 = t;
  d_0 = f32x4.add(d_0, t);
  v128.store(scratch, s_0, 0);
  v128.store(scratch, d_0, 16);
  p += part;
  q += part;
  u = v128.load(p);
  v = v128.load(q);
  let s_1 = f32x4.add(u, v);
  let d_1 = f32x4.sub(u, v);
  s1 = f32x4.add(s1, s_1);
  d1 = f32x4.add(d1, d_1);
  p += part;
  q += part;
  u = v128.load(p);
  v = v128.load(q);
  t = f32x4.add(u, v);
  s2 = f32x4.add(s2, t);
  s_1 = f32x4.add(s_1, t);
  t = f32x4.sub(u, v);
  d2 = f32x4.add(d2, t);
  d_1 = f32x4.add(d_1, t);
  p += part;
  q += part;
  u = v128.load(p);
  v = v128.load(q);
  t = f32x4.add(u, v);
  s3 = f32x4.add(s3, t);
  s_1 = f32x4.add(s_1, t);
  t = f32x4.sub(u, v);
  d3 = f32x4.add(d3, t);
  d_1 = f32x4.add(d_1, t);
  v128.store(scratch, s_1, 32);
  v128.store(scratch, d_1, 48);
  p += part;
  q += part;
  u = v128.load(p);
  v = v128.load(q);
  let s_2 = f32x4.add(u, v);
  let d_2 = f32x4.sub(u, v);
  s1 = f32x4.add(s1, s_2);
  d1 = f32x4.add(d1, d_2);
  p += part;
  q += part;
  u = v128.load(p);
  v = v128.load(q);
  t = f32x4.add(u, v);
  s2 = f32x4.add(s2, t);
  s_2 = f32x4.add(s_2, t);
  t = f32x4.sub(u, v);
  d2 = f32x4.add(d2, t);
  d_2 = f32x4.add(d_2, t);
  p += part;
  q += part;
  u = v128.load(p);
  v = v128.load(q);
  t = f32x4.add(u, v);
  s3 = f32x4.add(s3, t);
  s_2 = f32x4.add(s_2, t);
  t = f32x4.sub(u, v);
  d3 = f32x4.add(d3, t);
  d_2 = f32x4.add(d_2, t);
  v128.store(scratch, s_2, 64);
  v128.store(scratch, d_2, 80);
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
  s_0 = madd(v128.load(scratch, 0), two, s);
  d_0 = madd(v128.load(scratch, 16), two, d);
  p += part;
  q += part;
  put_20(p, q, s_0, d_0, s1, d1, two, minus_two);
  p += part;
  q += part;
  put_20(p, q, s_0, d_0, s2, d2, two, minus_two);
  p += part;
  q += part;
  put_20(p, q, s_0, d_0, s3, d3, two, minus_two);
  s_1 = madd(v128.load(scratch, 32), two, s);
  d_1 = madd(v128.load(scratch, 48), two, d);
  p += part;
  q += part;
  put_20(p, q, s_1, d_1, s1, d1, two, minus_two);
  p += part;
  q += part;
  put_20(p, q, s_1, d_1, s2, d2, two, minus_two);
  p += part;
  q += part;
  put_20(p, q, s_1, d_1, s3, d3, two, minus_two);
  s_2 = madd(v128.load(scratch, 64), two, s);
  d_2 = madd(v128.load(scratch, 80), two, d);
  p += part;
  q += part;
  put_20(p, q, s_2, d_2, s1, d1, two, minus_two);
  p += part;
  q += part;
  put_20(p, q, s_2, d_2, s2, d2, two, minus_two);
  p += part;
  q += part;
  put_20(p, q, s_2, d_2, s3, d3, two, minus_two);
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
  const x1 = v128.load(x, 16);
  const x2 = v128.load(x, 32);
  const x3 = v128.load(x, 48);
  const x4 = v128.load(x, 64);
  const x5 = v128.load(x, 80);
  const x6 = v128.load(x, 96);
  const x7 = v128.load(x, 112);
  const x8 = v128.load(x, 128);
  const x9 = v128.load(x, 144);
  const xa = v128.load(x, 160);
  const xb = v128.load(x, 176);
  const xc = v128.load(x, 192);
  const xd = v128.load(x, 208);
  const minus_two = v128.load32_splat(TWOS, 4);
  const step_2 = step << 1;
  const part_2 = part << 1;
  let a = f32x4.add(x6, x7);
  let b = f32x4.add(x8, x9);
  let all = f32x4.add(f32x4.add(v128.load(x), f32x4.add(x1, x2)), f32x4.add(f32x4.add(x3, x4), x5));
  all = f32x4.add(f32x4.add(all, f32x4.add(a, b)), f32x4.add(f32x4.add(xa, xb), f32x4.add(xc, xd)));
  v128.store(y, madd(v128.load(v), minus_two, all));
  v += step;
  y += part;
  put(y, all, f32x4.add(f32x4.add(a, b), f32x4.add(x3, xc)), v128.load(v), minus_two);
  v += step_2;
  y += part_2;
  a = f32x4.add(xa, xb);
  put(y, all, f32x4.add(f32x4.add(a, b), f32x4.add(x5, x1)), v128.load(v), minus_two);
  v += step_2;
  y += part_2;
  b = f32x4.add(xc, xd);
  put(y, all, f32x4.add(f32x4.add(a, b), f32x4.add(x7, x3)), v128.load(v), minus_two);
  v += step_2;
  y += part_2;
  a = f32x4.add(x1, x2);
  put(y, all, f32x4.add(f32x4.add(a, b), f32x4.add(x9, x5)), v128.load(v), minus_two);
  v += step_2;
  y += part_2;
  b = f32x4.add(x3, x4);
  put(y, all, f32x4.add(f32x4.add(a, b), f32x4.add(xb, x7)), v128.load(v), minus_two);
  v += step_2;
  y += part_2;
  a = f32x4.add(x5, x6);
  put(y, all, f32x4.add(f32x4.add(a, b), f32x4.add(xd, x9)), v128.load(v), minus_two);
  v += step_2;
  y += part_2;
  b = f32x4.add(x7, x8);
  put(y, all, f32x4.add(f32x4.add(a, b), f32x4.add(x2, xb)), v128.load(v), minus_two);
  v -= 11 * step;
  y -= 11 * part;
  a = f32x4.add(x9, xa);
  put(y, all, f32x4.add(f32x4.add(a, b), f32x4.add(x4, xd)), v128.load(v), minus_two);
  v += step_2;
  y += part_2;
  b = f32x4.add(xb, xc);
  put(y, all, f32x4.add(f32x4.add(a, b), f32x4.add(x6, x2)), v128.load(v), minus_two);
  v += step_2;
  y += part_2;
  a = f32x4.add(xd, x1);
  put(y, all, f32x4.add(f32x4.add(a, b), f32x4.add(x8, x4)), v128.load(v), minus_two);
  v += step_2;
  y += part_2;
  b = f32x4.add(x2, x3);
  put(y, all, f32x4.add(f32x4.add(a, b), f32x4.add(xa, x6)), v128.load(v), minus_two);
  v += step_2;
  y += part_2;
  a = f32x4.add(x4, x5);
  put(y, all, f32x4.add(f32x4.add(a, b), f32x4.add(xc, x8)), v128.load(v), minus_two);
  v += step_2;
  y += part_2;
  b = f32x4.add(x6, x7);
  put(y, all, f32x4.add(f32x4.add(a, b), f32x4.add(x1, xa)), v128.load(v), minus_two);
}
