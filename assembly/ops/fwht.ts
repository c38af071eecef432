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
 * so that of halves u and v only C (u + v) and C (u - v) are needed: the sum of all, less the element itself, less twice those of the row's -1.
 */
import { range_end, range_start } from '../runtime/schedule';
import { Op, nrows, row_at } from '../runtime/tensor';
import { cast_rows } from './casts';

/** fwht: each n = p0 elements of src0's rows, f32. dst may be src0. scratch: FWHT_SCRATCH bytes (src/graph/layout.ts). */
export function fwht(op: Op, ith: i32, nth: i32, scratch: usize): void {
  const rows = nrows(op.src0);
  const to = range_end(rows, ith, nth);
  for (let r = range_start(rows, ith, nth); r < to; r++) {
    fwht_row(row_at(op.src0, r), row_at(op.dst, r), op.src0.ne0, op.p0, scratch);
    cast_rows(op, r, r + 1);
  }
}

/** y = each n of `total` elements of x, transformed. y may be x. */
export function fwht_row(x: usize, y: usize, total: i32, n: i32, scratch: usize): void {
  const scale = <f32>(1 / sqrt<f64>(<f64>n));
  const power = n & -n;
  // Of m 2^k, m has a factor 4 that the parts' length lacks.
  const length = power == n ? n : power >> 2;
  const bytes = <usize>length << 2;
  for (const end = y + (<usize>total << 2); y < end; x += bytes, y += bytes) transform(x, y, length, scale);
  if (length == n) return;
  y -= <usize>total << 2;
  for (const end = y + (<usize>total << 2); y < end; y += <usize>n << 2) mix(y, n / length, length, scratch);
}

/** Sylvester's transform of n = 2^k elements, times a scale. */
function transform(x: usize, y: usize, n: i32, scale: f32): void {
  if (n < 4) {
    const a = load<f32>(x) * scale;
    const b = n == 2 ? load<f32>(x, 4) * scale : 0;
    store<f32>(y, a + b);
    if (n == 2) store<f32>(y, a - b, 4);
    return;
  }
  const end = y + (<usize>n << 2);
  let h: usize = 16;
  if (n < 32) {
    for (let at = y; at < end; at += 16, x += 16) v128.store(at, lanes(v128.load(x), f32x4.splat(scale)));
  } else {
    eights(x, y, end, 16, scale);
    // Three passes at a time, so that a row is read and written a third as often.
    for (h = 128; h << 3 <= end - y; h <<= 3) eights(y, y, end, h, 0);
  }
  for (; h << 2 <= end - y; h <<= 2) {
    for (let block = y; block < end; block += h << 2) {
      for (let p = block; p < block + h; p += 16) {
        const p1 = p + h;
        const p2 = p1 + h;
        const p3 = p2 + h;
        const a = v128.load(p);
        const b = v128.load(p1);
        const c = v128.load(p2);
        const d = v128.load(p3);
        const ab = f32x4.add(a, b);
        const a_b = f32x4.sub(a, b);
        const cd = f32x4.add(c, d);
        const c_d = f32x4.sub(c, d);
        v128.store(p, f32x4.add(ab, cd));
        v128.store(p1, f32x4.add(a_b, c_d));
        v128.store(p2, f32x4.sub(ab, cd));
        v128.store(p3, f32x4.sub(a_b, c_d));
      }
    }
  }
  if (h < end - y) {
    for (let p = y; p < y + h; p += 16) {
      const a = v128.load(p);
      const b = v128.load(p + h);
      v128.store(p, f32x4.add(a, b));
      v128.store(p + h, f32x4.sub(a, b));
    }
  }
}

/** The first two passes, which stay within a vector, and the scale. */
// @ts-ignore: decorator
@inline
function lanes(x: v128, scale: v128): v128 {
  let v = f32x4.mul(x, scale);
  v = f32x4.add(i8x16.shuffle(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11), v128.xor(v, i32x4(0, 0x80000000, 0, 0x80000000)));
  return f32x4.add(
    i8x16.shuffle(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7),
    v128.xor(v, i32x4(0, 0, 0x80000000, 0x80000000)),
  );
}

/** Three passes over y .. end, of elements h, 2 h and 4 h bytes apart; with a scale those within vectors before them, and x is read in place of y. */
function eights(x: usize, y: usize, end: usize, h: usize, scale: f32): void {
  const scales = f32x4.splat(scale);
  for (let block = y; block < end; block += h << 3, x += h << 3) {
    for (let p = block, from = x; p < block + h; p += 16, from += 16) {
      let a = v128.load(from);
      let b = v128.load(from + h);
      let c = v128.load(from + 2 * h);
      let d = v128.load(from + 3 * h);
      const far = from + 4 * h;
      let e = v128.load(far);
      let f = v128.load(far + h);
      let g = v128.load(far + 2 * h);
      let i = v128.load(far + 3 * h);
      if (scale != 0) {
        a = lanes(a, scales);
        b = lanes(b, scales);
        c = lanes(c, scales);
        d = lanes(d, scales);
        e = lanes(e, scales);
        f = lanes(f, scales);
        g = lanes(g, scales);
        i = lanes(i, scales);
      }
      // Each line is a pass: sums, then differences, of those that are 4, 2 and 1 apart.
      let t = f32x4.sub(a, e);
      a = f32x4.add(a, e);
      e = t;
      t = f32x4.sub(b, f);
      b = f32x4.add(b, f);
      f = t;
      t = f32x4.sub(c, g);
      c = f32x4.add(c, g);
      g = t;
      t = f32x4.sub(d, i);
      d = f32x4.add(d, i);
      i = t;
      t = f32x4.sub(a, c);
      a = f32x4.add(a, c);
      c = t;
      t = f32x4.sub(b, d);
      b = f32x4.add(b, d);
      d = t;
      t = f32x4.sub(e, g);
      e = f32x4.add(e, g);
      g = t;
      t = f32x4.sub(f, i);
      f = f32x4.add(f, i);
      i = t;
      v128.store(p, f32x4.add(a, b));
      v128.store(p + h, f32x4.sub(a, b));
      v128.store(p + 2 * h, f32x4.add(c, d));
      v128.store(p + 3 * h, f32x4.sub(c, d));
      const to = p + 4 * h;
      v128.store(to, f32x4.add(e, f));
      v128.store(to + h, f32x4.sub(e, f));
      v128.store(to + 2 * h, f32x4.add(g, i));
      v128.store(to + 3 * h, f32x4.sub(g, i));
    }
  }
}

/** For q = 5, 9 and 13 the rows of C: a bit for each -1. */
const MINUS = memory.data<u16>([
  0, 0x18, 0x30, 0x22, 0x06, 0x0c, 0, 0x360, 0x2d0, 0x1b0, 0x30c, 0x28a, 0x186, 0x6c, 0x5a, 0x36, 0, 0x13c8, 0x2790, 0xf22, 0x1e44, 0x3c88,
  0x3912, 0x3226, 0x244e, 0x89e, 0x113c, 0x2278, 0x4f2, 0x9e4,
]);

/** Mixes m parts of `length` elements, four elements of each at a time, or one. scratch: two vectors for every two parts. */
function mix(y: usize, m: i32, length: i32, scratch: usize): void {
  const half = m >> 1;
  const part = <usize>length << 2;
  const far = part * half;
  const rows = MINUS + <usize>(half == 6 ? 0 : half == 10 ? 12 : 32);
  const zero = f32x4.splat(0);
  const step: usize = length < 4 ? 4 : 16;
  for (const end = y + part; y < end; y += step) {
    let sums = zero;
    let differences = zero;
    let work = scratch;
    for (let p = y; p < y + far; p += part, work += 32) {
      const u = length < 4 ? v128.load32_splat(p) : v128.load(p);
      const v = length < 4 ? v128.load32_splat(p + far) : v128.load(p + far);
      const s = f32x4.add(u, v);
      const d = f32x4.sub(u, v);
      v128.store(work, s);
      v128.store(work, d, 16);
      sums = f32x4.add(sums, s);
      differences = f32x4.add(differences, d);
    }
    work = scratch;
    for (let row = rows, p = y; p < y + far; p += part, work += 32, row += 2) {
      let s = zero;
      let d = zero;
      for (let bits: u32 = load<u16>(row); bits; bits &= bits - 1) {
        const at = scratch + (<usize>ctz(bits) << 5);
        s = f32x4.add(s, v128.load(at));
        d = f32x4.add(d, v128.load(at, 16));
      }
      const own = v128.load(work);
      const other = v128.load(work, 16);
      const u = f32x4.add(f32x4.sub(f32x4.sub(sums, own), f32x4.add(s, s)), other);
      const v = f32x4.sub(f32x4.sub(f32x4.sub(differences, other), f32x4.add(d, d)), own);
      if (length < 4) {
        v128.store32_lane(p, u, 0);
        v128.store32_lane(p + far, v, 0);
      } else {
        v128.store(p, u);
        v128.store(p + far, v);
      }
    }
  }
}
