/**
 * Norms over rows. One thread sums a row, in an order that only depends on its length. Elements of
 * a row are contiguous f32; dst may be src0.
 */
import { range_start, range_end } from '../runtime/schedule';
import { Op, nrows, row_at } from '../runtime/tensor';
import { cast_rows } from './casts';

@unmanaged
class Plain {
  @inline f(x: v128): v128 {
    return x;
  }
}
@unmanaged
class Square {
  @inline f(x: v128): v128 {
    return f32x4.mul(x, x);
  }
}

/**
 * Sum of f(x) over n f32, in f64 as in ggml, so that rows of millions of elements (group_norm, sum)
 * lose nothing: four partial sums, then the tail one by one.
 */
@inline
function sum<F>(x: usize, n: i32): f64 {
  let low = f64x2.splat(0);
  let high = f64x2.splat(0);
  const end = x + (<usize>n << 2);
  const end4 = x + (<usize>(n & ~3) << 2);
  for (; x < end4; x += 16) {
    const v = changetype<F>(0).f(v128.load(x));
    low = f64x2.add(low, f64x2.promote_low_f32x4(v));
    high = f64x2.add(high, f64x2.promote_low_f32x4(i8x16.shuffle(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15)));
  }
  low = f64x2.add(low, high);
  let total = f64x2.extract_lane(low, 0) + f64x2.extract_lane(low, 1);
  for (; x < end; x += 4) total += <f64>f32x4.extract_lane(changetype<F>(0).f(v128.load32_splat(x)), 0);
  return total;
}

function sum_squares(x: usize, n: i32): f64 {
  return sum<Square>(x, n);
}

export function sum_row(x: usize, n: i32): f64 {
  return sum<Plain>(x, n);
}

/**
 * rms_norm, fused with the ops that usually surround it:
 *   s = src0 (+ src2, the residual; s is then stored to src3)
 *   dst = s / sqrt(mean(s^2) + eps) (* src1, the weight)
 * p0 = eps.
 */
export function rms_norm(op: Op, ith: i32, nth: i32): void {
  const src0 = op.src0;
  const src1 = op.src1;
  const src2 = op.src2;
  const src3 = op.src3;
  const dst = op.dst;
  const n = src0.ne0;
  const rows = nrows(src0);
  const eps = reinterpret<f32>(op.p0);
  const weight = changetype<usize>(src1) ? src1.data : 0;
  const to = range_end(rows, ith, nth);
  for (let r = range_start(rows, ith, nth); r < to; r++) {
    let x = row_at(src0, r);
    if (changetype<usize>(src2)) {
      const added = row_at(src3, r);
      add_row(x, row_at(src2, r), added, n);
      x = added;
    }
    scale_row(x, <f32>1 / sqrt<f32>(<f32>(sum_squares(x, n) / <f64>n) + eps), weight, row_at(dst, r), n);
    cast_rows(op, r, r + 1);
  }
}

/** l2_norm: dst = src0 / max(|src0|, eps). p0 = eps. */
export function l2_norm(op: Op, ith: i32, nth: i32): void {
  const src0 = op.src0;
  const n = src0.ne0;
  const rows = nrows(src0);
  const eps = reinterpret<f32>(op.p0);
  const to = range_end(rows, ith, nth);
  for (let r = range_start(rows, ith, nth); r < to; r++) {
    const x = row_at(src0, r);
    scale_row(x, <f32>1 / max<f32>(<f32>sqrt<f64>(sum_squares(x, n)), eps), 0, row_at(op.dst, r), n);
  }
}

/**
 * norm: dst = (src0 - mean) / sqrt(variance + eps) (* src1, the weight) (+ src2, the bias). p0 =
 * eps.
 */
export function norm(op: Op, ith: i32, nth: i32): void {
  const src0 = op.src0;
  const src1 = op.src1;
  const src2 = op.src2;
  const n = src0.ne0;
  const rows = nrows(src0);
  const to = range_end(rows, ith, nth);
  for (let r = range_start(rows, ith, nth); r < to; r++) {
    const x = row_at(src0, r);
    const y = row_at(op.dst, r);
    const mean = <f32>(sum_row(x, n) / <f64>n);
    shift_row(x, -mean, y, n);
    const scale = <f32>1 / sqrt<f32>(<f32>(sum_squares(y, n) / <f64>n) + reinterpret<f32>(op.p0));
    scale_row(y, scale, changetype<usize>(src1) ? src1.data : 0, y, n);
    if (changetype<usize>(src2)) add_row(y, src2.data, y, n);
    cast_rows(op, r, r + 1);
  }
}

/** y = a + b */
function add_row(a: usize, b: usize, y: usize, n: i32): void {
  const n4 = n & ~3;
  for (let i = 0; i < n4; i += 4) {
    const o = <usize>i << 2;
    v128.store(y + o, f32x4.add(v128.load(a + o), v128.load(b + o)));
  }
  for (let i = n4; i < n; i++) {
    const o = <usize>i << 2;
    store<f32>(y + o, load<f32>(a + o) + load<f32>(b + o));
  }
}

/** y = x + shift */
function shift_row(x: usize, shift: f32, y: usize, n: i32): void {
  const n4 = n & ~3;
  const s = f32x4.splat(shift);
  for (let i = 0; i < n4; i += 4) v128.store(y + (<usize>i << 2), f32x4.add(v128.load(x + (<usize>i << 2)), s));
  for (let i = n4; i < n; i++) store<f32>(y + (<usize>i << 2), load<f32>(x + (<usize>i << 2)) + shift);
}

/** y = x * scale (* w) */
function scale_row(x: usize, scale: f32, w: usize, y: usize, n: i32): void {
  const n4 = n & ~3;
  const s = f32x4.splat(scale);
  if (w == 0) {
    for (let i = 0; i < n4; i += 4) v128.store(y + (<usize>i << 2), f32x4.mul(v128.load(x + (<usize>i << 2)), s));
    for (let i = n4; i < n; i++) store<f32>(y + (<usize>i << 2), load<f32>(x + (<usize>i << 2)) * scale);
    return;
  }
  for (let i = 0; i < n4; i += 4) {
    const o = <usize>i << 2;
    v128.store(y + o, f32x4.mul(f32x4.mul(v128.load(x + o), s), v128.load(w + o)));
  }
  for (let i = n4; i < n; i++) {
    const o = <usize>i << 2;
    store<f32>(y + o, load<f32>(x + o) * scale * load<f32>(w + o));
  }
}
