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
    first_passes(x, y, end, scale);
    // Three passes at a time, so that a row is read and written a third as often.
    for (h = 128; h << 3 <= end - y; h <<= 3) three_passes(y, end, h);
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
function lanes(x: v128, scale: v128): v128 {
  let v = f32x4.mul(x, scale);
  v = f32x4.add(
    i8x16.shuffle(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11),
    v128.xor(v, i32x4(0, 0x80000000, 0, 0x80000000)),
  );
  return f32x4.add(
    i8x16.shuffle(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7),
    v128.xor(v, i32x4(0, 0, 0x80000000, 0x80000000)),
  );
}

/** Elements 0 and 2, or 1 and 3, of two vectors. */
// @ts-ignore: decorator
@inline
function evens(a: v128, b: v128): v128 {
  return i8x16.shuffle(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
}
// @ts-ignore: decorator
@inline
function odds(a: v128, b: v128): v128 {
  return i8x16.shuffle(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
}

/**
 * Five passes from x to y, 32 elements at a time, times a scale. Three of them join neighbours: sums and differences of the even and the odd elements of two
 * vectors, three times over, lie in their order again.
 */
function first_passes(x: usize, y: usize, end: usize, scale: f32): void {
  const s = f32x4.splat(scale);
  for (; y < end; x += 128, y += 128) {
    let a = f32x4.mul(v128.load(x), s);
    let b = f32x4.mul(v128.load(x, 16), s);
    let t = odds(a, b);
    a = evens(a, b);
    b = f32x4.sub(a, t);
    a = f32x4.add(a, t);
    t = odds(a, b);
    a = evens(a, b);
    b = f32x4.sub(a, t);
    a = f32x4.add(a, t);
    t = odds(a, b);
    a = evens(a, b);
    b = f32x4.sub(a, t);
    a = f32x4.add(a, t);

    let c = f32x4.mul(v128.load(x, 32), s);
    let d = f32x4.mul(v128.load(x, 48), s);
    t = odds(c, d);
    c = evens(c, d);
    d = f32x4.sub(c, t);
    c = f32x4.add(c, t);
    t = odds(c, d);
    c = evens(c, d);
    d = f32x4.sub(c, t);
    c = f32x4.add(c, t);
    t = odds(c, d);
    c = evens(c, d);
    d = f32x4.sub(c, t);
    c = f32x4.add(c, t);
    t = f32x4.sub(a, c);
    a = f32x4.add(a, c);
    c = t;
    t = f32x4.sub(b, d);
    b = f32x4.add(b, d);
    d = t;

    let e = f32x4.mul(v128.load(x, 64), s);
    let f = f32x4.mul(v128.load(x, 80), s);
    t = odds(e, f);
    e = evens(e, f);
    f = f32x4.sub(e, t);
    e = f32x4.add(e, t);
    t = odds(e, f);
    e = evens(e, f);
    f = f32x4.sub(e, t);
    e = f32x4.add(e, t);
    t = odds(e, f);
    e = evens(e, f);
    f = f32x4.sub(e, t);
    e = f32x4.add(e, t);

    let g = f32x4.mul(v128.load(x, 96), s);
    let i = f32x4.mul(v128.load(x, 112), s);
    t = odds(g, i);
    g = evens(g, i);
    i = f32x4.sub(g, t);
    g = f32x4.add(g, t);
    t = odds(g, i);
    g = evens(g, i);
    i = f32x4.sub(g, t);
    g = f32x4.add(g, t);
    t = odds(g, i);
    g = evens(g, i);
    i = f32x4.sub(g, t);
    g = f32x4.add(g, t);
    t = f32x4.sub(e, g);
    e = f32x4.add(e, g);
    g = t;
    t = f32x4.sub(f, i);
    f = f32x4.add(f, i);
    i = t;

    v128.store(y, f32x4.add(a, e));
    v128.store(y, f32x4.add(b, f), 16);
    v128.store(y, f32x4.add(c, g), 32);
    v128.store(y, f32x4.add(d, i), 48);
    v128.store(y, f32x4.sub(a, e), 64);
    v128.store(y, f32x4.sub(b, f), 80);
    v128.store(y, f32x4.sub(c, g), 96);
    v128.store(y, f32x4.sub(d, i), 112);
  }
}

/** Three passes over y .. end, of elements h, 2 h and 4 h bytes apart. */
function three_passes(y: usize, end: usize, h: usize): void {
  for (let block = y; block < end; block += h << 3) {
    for (let p = block; p < block + h; p += 16) {
      const p1 = p + h;
      const p2 = p1 + h;
      const p3 = p2 + h;
      const p4 = p3 + h;
      const p5 = p4 + h;
      const p6 = p5 + h;
      const p7 = p6 + h;
      let a = v128.load(p);
      let e = v128.load(p4);
      let t = f32x4.sub(a, e);
      a = f32x4.add(a, e);
      e = t;
      let b = v128.load(p1);
      let f = v128.load(p5);
      t = f32x4.sub(b, f);
      b = f32x4.add(b, f);
      f = t;
      let c = v128.load(p2);
      let g = v128.load(p6);
      t = f32x4.sub(c, g);
      c = f32x4.add(c, g);
      g = t;
      let d = v128.load(p3);
      let i = v128.load(p7);
      t = f32x4.sub(d, i);
      d = f32x4.add(d, i);
      i = t;
      t = f32x4.sub(a, c);
      a = f32x4.add(a, c);
      c = t;
      t = f32x4.sub(b, d);
      b = f32x4.add(b, d);
      d = t;
      v128.store(p, f32x4.add(a, b));
      v128.store(p1, f32x4.sub(a, b));
      v128.store(p2, f32x4.add(c, d));
      v128.store(p3, f32x4.sub(c, d));
      t = f32x4.sub(e, g);
      e = f32x4.add(e, g);
      g = t;
      t = f32x4.sub(f, i);
      f = f32x4.add(f, i);
      i = t;
      v128.store(p4, f32x4.add(e, f));
      v128.store(p5, f32x4.sub(e, f));
      v128.store(p6, f32x4.add(g, i));
      v128.store(p7, f32x4.sub(g, i));
    }
  }
}

/** For q = 5, 9 and 13 the columns of -1 in each row of C but the first, which has none: (q - 1) / 2. */
const MINUS = memory.data<u8>([
  3, 4, 4, 5, 1, 5, 1, 2, 2, 3, 5, 6, 8, 9, 4, 6, 7, 9, 4, 5, 7, 8, 2, 3, 8, 9, 1, 3, 7, 9, 1, 2, 7, 8, 2, 3, 5, 6, 1, 3, 4, 6, 1, 2, 4, 5,
  3, 6, 7, 8, 9, 12, 4, 7, 8, 9, 10, 13, 1, 5, 8, 9, 10, 11, 2, 6, 9, 10, 11, 12, 3, 7, 10, 11, 12, 13, 1, 4, 8, 11, 12, 13, 1, 2, 5, 9, 12,
  13, 1, 2, 3, 6, 10, 13, 1, 2, 3, 4, 7, 11, 2, 3, 4, 5, 8, 12, 3, 4, 5, 6, 9, 13, 1, 4, 5, 6, 7, 10, 2, 5, 6, 7, 8, 11,
]);

/** Mixes m parts of `length` elements, eight elements of each at a time, four or one. scratch: four vectors for every two parts. */
function mix(y: usize, m: i32, length: i32, scratch: usize): void {
  const half = m >> 1;
  const part = <usize>length << 2;
  const far = part * half;
  const minus = (half >> 1) - 1;
  const rows = MINUS + <usize>(half == 6 ? 0 : half == 10 ? 10 : 46);
  const zero = f32x4.splat(0);
  const more: usize = length < 8 ? 0 : 16;
  const step: usize = length < 4 ? 4 : 16 + more;
  for (const end = y + part; y < end; y += step) {
    let sums0 = zero;
    let sums1 = zero;
    let differences0 = zero;
    let differences1 = zero;
    let work = scratch;
    for (let p = y; p < y + far; p += part, work += 64) {
      const u = length < 4 ? v128.load32_splat(p) : v128.load(p);
      const v = length < 4 ? v128.load32_splat(p + far) : v128.load(p + far);
      const s = f32x4.add(u, v);
      const d = f32x4.sub(u, v);
      v128.store(work, s);
      v128.store(work, d, 16);
      sums0 = f32x4.add(sums0, s);
      differences0 = f32x4.add(differences0, d);
      if (!more) continue;
      const u1 = v128.load(p, 16);
      const v1 = v128.load(p + far, 16);
      const s1 = f32x4.add(u1, v1);
      const d1 = f32x4.sub(u1, v1);
      v128.store(work, s1, 32);
      v128.store(work, d1, 48);
      sums1 = f32x4.add(sums1, s1);
      differences1 = f32x4.add(differences1, d1);
    }
    work = scratch;
    for (let row = rows, p = y; p < y + far; p += part, work += 64) {
      let s0 = zero;
      let d0 = zero;
      let s1 = zero;
      let d1 = zero;
      if (p != y) {
        for (const last = row + minus; row < last; row++) {
          const at = scratch + (<usize>load<u8>(row) << 6);
          s0 = f32x4.add(s0, v128.load(at));
          d0 = f32x4.add(d0, v128.load(at, 16));
          s1 = f32x4.add(s1, v128.load(at, 32));
          d1 = f32x4.add(d1, v128.load(at, 48));
        }
      }
      let own = v128.load(work);
      let other = v128.load(work, 16);
      let u = f32x4.add(f32x4.sub(f32x4.sub(sums0, own), f32x4.add(s0, s0)), other);
      let v = f32x4.sub(f32x4.sub(f32x4.sub(differences0, other), f32x4.add(d0, d0)), own);
      if (length < 4) {
        v128.store32_lane(p, u, 0);
        v128.store32_lane(p + far, v, 0);
        continue;
      }
      v128.store(p, u);
      v128.store(p + far, v);
      if (!more) continue;
      own = v128.load(work, 32);
      other = v128.load(work, 48);
      u = f32x4.add(f32x4.sub(f32x4.sub(sums1, own), f32x4.add(s1, s1)), other);
      v = f32x4.sub(f32x4.sub(f32x4.sub(differences1, other), f32x4.add(d1, d1)), own);
      v128.store(p, u, 16);
      v128.store(p + far, v, 16);
    }
  }
}
