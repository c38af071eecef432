/**
 * Walsh-Hadamard transform of rows, in place or from one tensor to another, in log2(n) doublings
 * (sums and differences of pairs).
 *
 * H is symmetric and orthonormal, so the transform is its own inverse. For n = 2^k it is
 * Sylvester's matrix, with which llama.cpp rotates caches (ggml_gen_hadamard). For n = m 2^k with m
 * = 12, 20 or 28 it is the Kronecker product of a matrix of order m and Sylvester's: m parts of 2^k
 * elements are transformed, then mixed (fwht_mix.ts).
 *
 * The first pass does three doublings of eight consecutive vectors, so that prefetchers see one
 * stream. The second does the doublings within vectors and up to three more, of two vectors side by
 * side, which turbo joins. Later passes do three doublings of one vector, or two of two. On x64,
 * sums and differences share two ports, while multiply-adds have two others. So some differences
 * are multiply-adds by -1 with relaxed SIMD (the same bits), and a doubling within a vector is a
 * shuffle and a multiply-add by signs.
 *
 * From memory a row takes as long as from the L1 cache if prefetchers follow the first pass, as
 * AMD's do. Intel's lose the stream while later passes read no memory. There the next data to
 * transform is prefetched right after the first pass (FETCHES). For timings see bench/results,
 * fwht.
 *
 * Not kept, all slower: five or six doublings in the first pass; three doublings of two vectors
 * side by side (some spill); prefetching a line or two in each step of a pass.
 */
import { FETCHES } from '../matmul/rows_8x1';
import { less, madd } from '../simd';
import { range_end, range_start } from '../runtime/schedule';
import { Op, is_dense, nrows, row_at } from '../runtime/tensor';
import { cast_rows } from './casts';
import { mix } from './fwht_mix';

/**
 * fwht: transforms each n = p0 elements of src0's rows, f32. dst may be src0. scratch: FWHT_SCRATCH
 * bytes (src/graph/layout.ts).
 */
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

/**
 * Bytes that are transformed and prefetched at once if a transform is shorter. Twice that fits any
 * L1 cache.
 */
const AT_ONCE: usize = 4096;

/** Transforms each n of `total` elements of x and stores them to y. y may be x. */
export function fwht_row(x: usize, y: usize, total: i32, n: i32, scratch: usize): void {
  const scale = <f32>(1 / sqrt<f64>(<f64>n));
  const power = n & -n;
  // For n = m 2^k, m is 4 times an odd number, and the parts have 2^k elements.
  const part = <usize>(power == n ? n : power >> 2) << 2;
  const step = power == n ? max(part, AT_ONCE) : <usize>n << 2;
  for (const end = y + (<usize>total << 2); y < end; x += step, y += step) {
    const to = min(y + step, end);
    const next = end - to < step ? x : x + step;
    transform(x, y, to, part, scale, next);
    if (power != n) mix(y, part, n / <i32>(part >> 2), scratch);
  }
}

/**
 * Sylvester's transform of parts of `part` bytes (2^k elements), from x to y .. end, times a scale.
 * In builds with FETCHES, the same number of bytes at `next` is prefetched.
 */
function transform(x: usize, y: usize, end: usize, part: usize, scale: f32, next: usize): void {
  if (part < 16) {
    for (; y < end; x += part, y += part) {
      const a = load<f32>(x) * scale;
      const b = part == 8 ? load<f32>(x, 4) * scale : 0;
      store<f32>(y, a + b);
      if (part == 8) store<f32>(y, a - b, 4);
    }
  } else if (part < 128) short(x, y, end, part, scale);
  else {
    near(x, y, end, scale);
    if (FETCHES) for (const to = next + (end - y); next < to; next += 64) load<u8>(next);
    if (part == 128) return within_1(y, end);
    if (part == 256) return within_2(y, end);
    if (part == 1024) return within_8(y, end);
    let h: usize = 512;
    within_4(y, end);
    // Passes of three doublings. Two passes of two doublings take the remainder.
    for (let left = ctz(part / h); left > 0;)
      if (left % 3 > 0) {
        pass_of_4(y, end, h);
        h <<= 2;
        left -= 2;
      } else {
        pass_of_8(y, end, h);
        h <<= 3;
        left -= 3;
      }
  }
}

/** Transforms of four, eight or sixteen elements. */
function short(x: usize, y: usize, end: usize, part: usize, scale: f32): void {
  const s = f32x4.splat(scale);
  for (; y < end; x += part, y += part) {
    let a = lanes(f32x4.mul(v128.load(x), s));
    if (part > 16) {
      let b = lanes(f32x4.mul(v128.load(x, 16), s));
      let t = f32x4.sub(a, b);
      a = f32x4.add(a, b);
      if (part > 32) {
        b = lanes(f32x4.mul(v128.load(x, 32), s));
        const c = lanes(f32x4.mul(v128.load(x, 48), s));
        const d = f32x4.sub(b, c);
        b = f32x4.add(b, c);
        v128.store(y, f32x4.sub(a, b), 32);
        v128.store(y, f32x4.sub(t, d), 48);
        a = f32x4.add(a, b);
        t = f32x4.add(t, d);
      }
      v128.store(y, t, 16);
    }
    v128.store(y, a);
  }
}

/** Factors of the two doublings within a vector; and -1. */
const SIGNS = memory.data<f32>([1, -1, 1, -1, 1, 1, -1, -1], 16);

/** The two doublings within a vector. */
@inline
function lanes(v: v128): v128 {
  v = madd(v, v128.load(SIGNS), i8x16.shuffle(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
  return madd(v, v128.load(SIGNS, 16), i8x16.shuffle(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
}

/** Three doublings of each eight vectors, from x to y .. end, times a scale. */
function near(x: usize, y: usize, end: usize, scale: f32): void {
  const minus = v128.load32_splat(SIGNS, 4);
  const s = f32x4.splat(scale);
  for (; y < end; x += 128, y += 128) {
    let a = f32x4.mul(v128.load(x), s);
    let b = f32x4.mul(v128.load(x, 64), s);
    const s0 = f32x4.add(a, b);
    const d0 = f32x4.sub(a, b);
    a = f32x4.mul(v128.load(x, 16), s);
    b = f32x4.mul(v128.load(x, 80), s);
    const s1 = f32x4.add(a, b);
    const d1 = f32x4.sub(a, b);
    a = f32x4.mul(v128.load(x, 32), s);
    b = f32x4.mul(v128.load(x, 96), s);
    const s2 = f32x4.add(a, b);
    const d2 = f32x4.sub(a, b);
    a = f32x4.mul(v128.load(x, 48), s);
    b = f32x4.mul(v128.load(x, 112), s);
    const s3 = f32x4.add(a, b);
    const d3 = f32x4.sub(a, b);
    let u = f32x4.add(s0, s2);
    let v = f32x4.sub(s0, s2);
    let w = f32x4.add(s1, s3);
    let z = f32x4.sub(s1, s3);
    v128.store(y, f32x4.add(u, w));
    v128.store(y, less(u, w, minus), 16);
    v128.store(y, f32x4.add(v, z), 32);
    v128.store(y, less(v, z, minus), 48);
    u = f32x4.add(d0, d2);
    v = f32x4.sub(d0, d2);
    w = f32x4.add(d1, d3);
    z = f32x4.sub(d1, d3);
    v128.store(y, f32x4.add(u, w), 64);
    v128.store(y, less(u, w, minus), 80);
    v128.store(y, f32x4.add(v, z), 96);
    v128.store(y, less(v, z, minus), 112);
  }
}

/** The doublings within vectors. */
function within_1(y: usize, end: usize): void {
  for (; y < end; y += 32) {
    const a0 = lanes(v128.load(y));
    const a1 = lanes(v128.load(y, 16));
    v128.store(y, a0);
    v128.store(y, a1, 16);
  }
}

/** The doublings within vectors, and that of elements 128 bytes apart. */
function within_2(y: usize, end: usize): void {
  const minus = v128.load32_splat(SIGNS, 4);
  for (; y < end; y += 256) {
    for (let p = y; p < y + 128; p += 32) {
      const a0 = lanes(v128.load(p));
      const a1 = lanes(v128.load(p, 16));
      const b0 = lanes(v128.load(p, 128));
      const b1 = lanes(v128.load(p, 144));
      v128.store(p, f32x4.add(a0, b0));
      v128.store(p, f32x4.add(a1, b1), 16);
      v128.store(p, less(a0, b0, minus), 128);
      v128.store(p, less(a1, b1, minus), 144);
    }
  }
}

/** The doublings within vectors, and those of elements 128 and 256 bytes apart. */
function within_4(y: usize, end: usize): void {
  const minus = v128.load32_splat(SIGNS, 4);
  for (; y < end; y += 512) for (let p = y; p < y + 128; p += 32) four(true, p, 128, minus);
}

/**
 * The doublings within vectors, and those of elements 128, 256 and 512 bytes apart. These are
 * sixteen vectors; some are spilled, but it saves a pass.
 */
function within_8(y: usize, end: usize): void {
  const minus = v128.load32_splat(SIGNS, 4);
  for (; y < end; y += 1024) {
    for (let p = y; p < y + 128; p += 32) {
      let a0 = lanes(v128.load(p));
      let a1 = lanes(v128.load(p, 16));
      let b0 = lanes(v128.load(p, 512));
      let b1 = lanes(v128.load(p, 528));
      const s00 = f32x4.add(a0, b0);
      const d00 = less(a0, b0, minus);
      const s01 = f32x4.add(a1, b1);
      const d01 = less(a1, b1, minus);
      a0 = lanes(v128.load(p, 128));
      a1 = lanes(v128.load(p, 144));
      b0 = lanes(v128.load(p, 640));
      b1 = lanes(v128.load(p, 656));
      const s10 = f32x4.add(a0, b0);
      const d10 = less(a0, b0, minus);
      const s11 = f32x4.add(a1, b1);
      const d11 = less(a1, b1, minus);
      a0 = lanes(v128.load(p, 256));
      a1 = lanes(v128.load(p, 272));
      b0 = lanes(v128.load(p, 768));
      b1 = lanes(v128.load(p, 784));
      const s20 = f32x4.add(a0, b0);
      const d20 = less(a0, b0, minus);
      const s21 = f32x4.add(a1, b1);
      const d21 = less(a1, b1, minus);
      a0 = lanes(v128.load(p, 384));
      a1 = lanes(v128.load(p, 400));
      b0 = lanes(v128.load(p, 896));
      b1 = lanes(v128.load(p, 912));
      const s30 = f32x4.add(a0, b0);
      const d30 = less(a0, b0, minus);
      const s31 = f32x4.add(a1, b1);
      const d31 = less(a1, b1, minus);
      let t0 = f32x4.add(s00, s20);
      let t1 = f32x4.add(s01, s21);
      let u0 = less(s00, s20, minus);
      let u1 = less(s01, s21, minus);
      let v0 = f32x4.add(s10, s30);
      let v1 = f32x4.add(s11, s31);
      let w0 = less(s10, s30, minus);
      let w1 = less(s11, s31, minus);
      v128.store(p, f32x4.add(t0, v0));
      v128.store(p, f32x4.add(t1, v1), 16);
      v128.store(p, less(t0, v0, minus), 128);
      v128.store(p, less(t1, v1, minus), 144);
      v128.store(p, f32x4.add(u0, w0), 256);
      v128.store(p, f32x4.add(u1, w1), 272);
      v128.store(p, less(u0, w0, minus), 384);
      v128.store(p, less(u1, w1, minus), 400);
      t0 = f32x4.add(d00, d20);
      t1 = f32x4.add(d01, d21);
      u0 = less(d00, d20, minus);
      u1 = less(d01, d21, minus);
      v0 = f32x4.add(d10, d30);
      v1 = f32x4.add(d11, d31);
      w0 = less(d10, d30, minus);
      w1 = less(d11, d31, minus);
      v128.store(p, f32x4.add(t0, v0), 512);
      v128.store(p, f32x4.add(t1, v1), 528);
      v128.store(p, less(t0, v0, minus), 640);
      v128.store(p, less(t1, v1, minus), 656);
      v128.store(p, f32x4.add(u0, w0), 768);
      v128.store(p, f32x4.add(u1, w1), 784);
      v128.store(p, less(u0, w0, minus), 896);
      v128.store(p, less(u1, w1, minus), 912);
    }
  }
}

/** Three doublings of elements h, 2 h and 4 h bytes apart. */
function pass_of_8(y: usize, end: usize, h: usize): void {
  const minus = v128.load32_splat(SIGNS, 4);
  const far = h << 2;
  for (; y < end; y += h << 3) {
    for (let p = y; p < y + h; p += 16) {
      const p1 = p + h;
      const p2 = p1 + h;
      const p3 = p2 + h;
      let a = v128.load(p);
      let b = v128.load(p + far);
      const s0 = f32x4.add(a, b);
      const d0 = f32x4.sub(a, b);
      a = v128.load(p2);
      b = v128.load(p2 + far);
      const s2 = f32x4.add(a, b);
      const d2 = f32x4.sub(a, b);
      let u = f32x4.add(s0, s2);
      let v = f32x4.sub(s0, s2);
      a = v128.load(p1);
      b = v128.load(p1 + far);
      const s1 = f32x4.add(a, b);
      const d1 = f32x4.sub(a, b);
      a = v128.load(p3);
      b = v128.load(p3 + far);
      const s3 = f32x4.add(a, b);
      const d3 = f32x4.sub(a, b);
      let w = f32x4.add(s1, s3);
      let z = f32x4.sub(s1, s3);
      v128.store(p, f32x4.add(u, w));
      v128.store(p1, less(u, w, minus));
      v128.store(p2, f32x4.add(v, z));
      v128.store(p3, less(v, z, minus));
      u = f32x4.add(d0, d2);
      v = f32x4.sub(d0, d2);
      w = f32x4.add(d1, d3);
      z = f32x4.sub(d1, d3);
      v128.store(p + far, f32x4.add(u, w));
      v128.store(p1 + far, less(u, w, minus));
      v128.store(p2 + far, f32x4.add(v, z));
      v128.store(p3 + far, less(v, z, minus));
    }
  }
}

/** Two doublings of elements h and 2 h bytes apart. */
function pass_of_4(y: usize, end: usize, h: usize): void {
  const minus = v128.load32_splat(SIGNS, 4);
  for (; y < end; y += h << 2) for (let p = y; p < y + h; p += 32) four(false, p, h, minus);
}

/**
 * Two doublings of the vectors at four places h bytes apart, for two vectors side by side, which
 * turbo joins.
 */
@inline
function four(inside: bool, y: usize, h: usize, minus: v128): void {
  const y1 = y + h;
  const y2 = y1 + h;
  const y3 = y2 + h;
  const a0 = get(inside, v128.load(y));
  const a1 = get(inside, v128.load(y, 16));
  const b0 = get(inside, v128.load(y1));
  const b1 = get(inside, v128.load(y1, 16));
  const c0 = get(inside, v128.load(y2));
  const c1 = get(inside, v128.load(y2, 16));
  const d0 = get(inside, v128.load(y3));
  const d1 = get(inside, v128.load(y3, 16));
  const s0 = f32x4.add(a0, c0);
  const s1 = f32x4.add(a1, c1);
  const t0 = less(a0, c0, minus);
  const t1 = less(a1, c1, minus);
  const u0 = f32x4.add(b0, d0);
  const u1 = f32x4.add(b1, d1);
  const v0 = less(b0, d0, minus);
  const v1 = less(b1, d1, minus);
  v128.store(y, f32x4.add(s0, u0));
  v128.store(y, f32x4.add(s1, u1), 16);
  v128.store(y1, less(s0, u0, minus));
  v128.store(y1, less(s1, u1, minus), 16);
  v128.store(y2, f32x4.add(t0, v0));
  v128.store(y2, f32x4.add(t1, v1), 16);
  v128.store(y3, less(t0, v0, minus));
  v128.store(y3, less(t1, v1, minus), 16);
}

@inline
function get(inside: bool, v: v128): v128 {
  return inside ? lanes(v) : v;
}
