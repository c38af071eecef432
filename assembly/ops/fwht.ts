/**
 * The Walsh-Hadamard transform of rows, in place or from one tensor to another, in log2(n) passes of sums and differences.
 *
 * H is symmetric and orthonormal, so that the transform undoes itself. Of n = 2^k it is Sylvester's matrix, as llama.cpp rotates caches by it
 * (ggml_gen_hadamard). Of n = m 2^k with m = 12, 20 or 28 it is the Kronecker product of a matrix of order m and Sylvester's: m parts of 2^k elements
 * are transformed each, then mixed. The matrix of order m = 2 (q + 1) is Paley's second construction for q = 5, 9 and 13,
 *
 *   | C + I   C - I |      with C = | 0  1 ... 1 |      Q[i][j] = 1 where i - j is a square of the field of q elements, -1 where it is none
 *   | C - I  -C - I |               | :     Q    |
 *
 * so that halves u and v need C s of s = u + v, and C d of d = u - v: C s + d = (the sum of all of s) - 2 (v + those of s in the row's -1), and C d - s likewise
 * with u and d.
 *
 * Three doublings go with every pass over memory, five with the first. Sums, differences and shuffles share two of x64's ports, multiply-adds have another: so
 * differences are multiply-adds by -1 where there are relaxed ones (the same bits), and a doubling within a vector is a shuffle and a multiply-add by signs.
 * Later passes ask memory for nothing, and prefetchers see the first alone: what is transformed next is fetched at once before them (15 GB/s for 11 of n = 64 in
 * 128 MiB, 11 for 9 of n = 4096: Xeon, Node 24, one thread, bytes read and written). In L2 n = 256 does 27 GB/s, 4096 17, 3584 11.
 *
 * Not kept: fetching a line or two with each step of a pass, so that the loads wait one by one (9 to 14 GB/s of n = 256 where half of them went with the first
 * pass); two vectors side by side, which turbo joins (12 % more with it, 8 % less without).
 */
import { less, madd } from '../simd';
import { range_end, range_start } from '../runtime/schedule';
import { Op, is_dense, nrows, row_at } from '../runtime/tensor';
import { cast_rows } from './casts';

/** fwht: each n = p0 elements of src0's rows, f32. dst may be src0. scratch: FWHT_SCRATCH bytes (src/graph/layout.ts). */
export function fwht(op: Op, ith: i32, nth: i32, scratch: usize): void {
  const rows = nrows(op.src0);
  const to = range_end(rows, ith, nth);
  let r = range_start(rows, ith, nth);
  const joined = !changetype<usize>(op.casts) && is_dense(op.src0) && is_dense(op.dst);
  for (let step = joined ? to - r : 1; r < to; r += step) {
    fwht_row(row_at(op.src0, r), row_at(op.dst, r), step * op.src0.ne0, op.p0, scratch);
    cast_rows(op, r, r + step);
  }
}

/** Bytes that are transformed and fetched at once, where a transform is shorter: two of it and more fit any L1. */
const AT_ONCE: usize = 4096;

/** y = each n of `total` elements of x, transformed. y may be x. */
export function fwht_row(x: usize, y: usize, total: i32, n: i32, scratch: usize): void {
  const scale = <f32>(1 / sqrt<f64>(<f64>n));
  const power = n & -n;
  // Of m 2^k, m has a factor 4 that the parts' length lacks.
  const part = <usize>(power == n ? n : power >> 2) << 2;
  const step = power == n ? max(part, AT_ONCE) : <usize>n << 2;
  for (const end = y + (<usize>total << 2); y < end; x += step, y += step) {
    const to = min(y + step, end);
    const next = end - to < step ? x : x + step;
    transform(x, y, to, part, scale, next);
    if (power != n) mix(y, part, n / <i32>(part >> 2), scratch);
  }
}

/** Sylvester's transform of parts of 2^k elements, so many bytes each, from x to y .. end, times a scale. As many bytes at `next` are fetched. */
function transform(x: usize, y: usize, end: usize, part: usize, scale: f32, next: usize): void {
  if (part < 16) {
    for (; y < end; x += part, y += part) {
      const a = load<f32>(x) * scale;
      const b = part == 8 ? load<f32>(x, 4) * scale : 0;
      store<f32>(y, a + b);
      if (part == 8) store<f32>(y, a - b, 4);
    }
    return;
  }
  let h: usize = 16;
  if (part < 128) for (let at = y; at < end; at += 16, x += 16) v128.store(at, lanes(v128.load(x), f32x4.splat(scale)));
  else {
    first_pass(x, y, end, scale);
    for (const to = next + (end - y); next < to; next += 64) load<u8>(next);
    for (h = 128; h << 3 <= part; h <<= 3) pass_of_8(y, end, h);
  }
  if (h == part) return;
  const two = h << 1 == part;
  const minus = v128.load32_splat(SIGNS, 4);
  for (let block = y; block < end; block += part) {
    for (let p = block; p < block + h; p += 16) {
      const p1 = p + h;
      let a = v128.load(p);
      let b = v128.load(p1);
      let t = less(a, b, minus);
      a = f32x4.add(a, b);
      if (two) {
        v128.store(p, a);
        v128.store(p1, t);
        continue;
      }
      const p2 = p1 + h;
      const p3 = p2 + h;
      b = v128.load(p2);
      const c = v128.load(p3);
      const d = less(b, c, minus);
      b = f32x4.add(b, c);
      v128.store(p, f32x4.add(a, b));
      v128.store(p1, f32x4.add(t, d));
      v128.store(p2, less(a, b, minus));
      v128.store(p3, less(t, d, minus));
    }
  }
}

/** What the two doublings within a vector multiply it by; and -1. */
const SIGNS = memory.data<f32>([1, -1, 1, -1, 1, 1, -1, -1], 16);

/** The first two doublings, which stay within a vector, of a vector times a scale. */
// @ts-ignore: decorator
@inline
function lanes(x: v128, scale: v128): v128 {
  let v = f32x4.mul(x, scale);
  v = madd(v, v128.load(SIGNS), i8x16.shuffle(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
  return madd(v, v128.load(SIGNS, 16), i8x16.shuffle(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
}

/** Five doublings from x to y .. end, 32 elements at a time. */
function first_pass(x: usize, y: usize, end: usize, scale: f32): void {
  const minus = v128.load32_splat(SIGNS, 4);
  const s = f32x4.splat(scale);
  for (; y < end; x += 128, y += 128) eight(true, x, y, 16, s, minus);
}

/** Three doublings over y .. end, of elements h, 2 h and 4 h bytes apart. */
function pass_of_8(y: usize, end: usize, h: usize): void {
  const minus = v128.load32_splat(SIGNS, 4);
  for (let block = y; block < end; block += h << 3) {
    for (let p = block; p < block + h; p += 16) eight(false, p, p, h, minus, minus);
  }
}

/** Three doublings of eight vectors h bytes apart, before which the first pass has its own. */
// @ts-ignore: decorator
@inline
function eight(first: bool, x: usize, y: usize, h: usize, scale: v128, minus: v128): void {
  const y1 = y + h;
  const y2 = y1 + h;
  const y3 = y2 + h;
  const y4 = y3 + h;
  const y5 = y4 + h;
  const y6 = y5 + h;
  const y7 = y6 + h;
  let a = first ? lanes(v128.load(x), scale) : v128.load(y);
  let e = first ? lanes(v128.load(x, 64), scale) : v128.load(y4);
  let t = less(a, e, minus);
  a = f32x4.add(a, e);
  e = t;
  let b = first ? lanes(v128.load(x, 16), scale) : v128.load(y1);
  let f = first ? lanes(v128.load(x, 80), scale) : v128.load(y5);
  t = less(b, f, minus);
  b = f32x4.add(b, f);
  f = t;
  let c = first ? lanes(v128.load(x, 32), scale) : v128.load(y2);
  let g = first ? lanes(v128.load(x, 96), scale) : v128.load(y6);
  t = less(c, g, minus);
  c = f32x4.add(c, g);
  g = t;
  let d = first ? lanes(v128.load(x, 48), scale) : v128.load(y3);
  let i = first ? lanes(v128.load(x, 112), scale) : v128.load(y7);
  t = less(d, i, minus);
  d = f32x4.add(d, i);
  i = t;
  t = less(a, c, minus);
  a = f32x4.add(a, c);
  c = t;
  t = less(b, d, minus);
  b = f32x4.add(b, d);
  d = t;
  v128.store(y, f32x4.add(a, b));
  if (first) v128.store(y, less(a, b, minus), 16);
  else v128.store(y1, less(a, b, minus));
  if (first) v128.store(y, f32x4.add(c, d), 32);
  else v128.store(y2, f32x4.add(c, d));
  if (first) v128.store(y, less(c, d, minus), 48);
  else v128.store(y3, less(c, d, minus));
  t = less(e, g, minus);
  e = f32x4.add(e, g);
  g = t;
  t = less(f, i, minus);
  f = f32x4.add(f, i);
  i = t;
  if (first) v128.store(y, f32x4.add(e, f), 64);
  else v128.store(y4, f32x4.add(e, f));
  if (first) v128.store(y, less(e, f, minus), 80);
  else v128.store(y5, less(e, f, minus));
  if (first) v128.store(y, f32x4.add(g, i), 96);
  else v128.store(y6, f32x4.add(g, i));
  if (first) v128.store(y, less(g, i, minus), 112);
  else v128.store(y7, less(g, i, minus));
}

/** For q = 5, 9 and 13 the columns of -1 in each row of C but the first, which has none: (q - 1) / 2. */
const MINUS = memory.data<u8>([
  3, 4, 4, 5, 1, 5, 1, 2, 2, 3, 5, 6, 8, 9, 4, 6, 7, 9, 4, 5, 7, 8, 2, 3, 8, 9, 1, 3, 7, 9, 1, 2, 7, 8, 2, 3, 5, 6, 1, 3, 4, 6, 1, 2, 4, 5,
  3, 6, 7, 8, 9, 12, 4, 7, 8, 9, 10, 13, 1, 5, 8, 9, 10, 11, 2, 6, 9, 10, 11, 12, 3, 7, 10, 11, 12, 13, 1, 4, 8, 11, 12, 13, 1, 2, 5, 9, 12,
  13, 1, 2, 3, 6, 10, 13, 1, 2, 3, 4, 7, 11, 2, 3, 4, 5, 8, 12, 3, 4, 5, 6, 9, 13, 1, 4, 5, 6, 7, 10, 2, 5, 6, 7, 8, 11,
]);

/** Mixes m parts of so many bytes, eight elements of each at a time or, of short ones, one. scratch: four vectors for every two parts. */
function mix(y: usize, part: usize, m: i32, scratch: usize): void {
  const far = part * (m >> 1);
  const count = (m >> 2) - 1;
  const rows = MINUS + <usize>(m == 12 ? 0 : m == 20 ? 10 : 46);
  const minus = v128.load32_splat(SIGNS, 4);
  const minus_two = f32x4.add(minus, minus);
  const one = part < 32;
  for (const end = y + part; y < end; y += one ? 4 : 32) {
    let sums0 = f32x4.splat(0);
    let sums1 = sums0;
    let differences0 = sums0;
    let differences1 = sums0;
    const last = y + far;
    let work = scratch;
    for (let p = y; p < last; p += part, work += 64) {
      let u = one ? v128.load32_splat(p) : v128.load(p);
      let v = one ? v128.load32_splat(p + far) : v128.load(p + far);
      let s = f32x4.add(u, v);
      let d = less(u, v, minus);
      v128.store(work, s);
      v128.store(work, d, 32);
      sums0 = f32x4.add(sums0, s);
      differences0 = f32x4.add(differences0, d);
      if (one) continue;
      u = v128.load(p, 16);
      v = v128.load(p + far, 16);
      s = f32x4.add(u, v);
      d = less(u, v, minus);
      v128.store(work, s, 16);
      v128.store(work, d, 48);
      sums1 = f32x4.add(sums1, s);
      differences1 = f32x4.add(differences1, d);
    }
    for (let p = y, row = rows; p < last; p += part) {
      let s0 = one ? v128.load32_splat(p + far) : v128.load(p + far);
      let d0 = one ? v128.load32_splat(p) : v128.load(p);
      let s1 = one ? s0 : v128.load(p + far, 16);
      let d1 = one ? d0 : v128.load(p, 16);
      // The first row has no -1.
      if (p != y) {
        for (const to = row + count; row < to; row++) {
          const at = scratch + (<usize>load<u8>(row) << 6);
          s0 = f32x4.add(s0, v128.load(at));
          s1 = f32x4.add(s1, v128.load(at, 16));
          d0 = f32x4.add(d0, v128.load(at, 32));
          d1 = f32x4.add(d1, v128.load(at, 48));
        }
      }
      s0 = madd(s0, minus_two, sums0);
      d0 = madd(d0, minus_two, differences0);
      if (one) {
        v128.store32_lane(p, s0, 0);
        v128.store32_lane(p + far, d0, 0);
        continue;
      }
      v128.store(p, s0);
      v128.store(p, madd(s1, minus_two, sums1), 16);
      v128.store(p + far, d0);
      v128.store(p + far, madd(d1, minus_two, differences1), 16);
    }
  }
}
