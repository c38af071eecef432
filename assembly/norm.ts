import { hsum_f32, madd } from './simd';
import { Op, nrows, row_of } from './tensor';
import { split_from, split_to } from './schedule';

/** Mean of squares of n floats (n a multiple of 1): 4 lanes of partial sums, tail in lane 0. One thread sums a row: the order never depends on nth. */
function mean_square(x: usize, n: i32): f32 {
  let acc = f32x4.splat(0);
  const n4 = n & ~3;
  for (let i = 0; i < n4; i += 4) {
    const v = v128.load(x + (<usize>i << 2));
    acc = madd(v, v, acc);
  }
  let sum = hsum_f32(acc);
  for (let i = n4; i < n; i++) {
    const v = load<f32>(x + (<usize>i << 2));
    sum += v * v;
  }
  return sum / <f32>n;
}

/**
 * rms_norm, with what usually surrounds it in the same pass:
 *   s = src0 (+ src2, the residual; s is then stored to src3)
 *   dst = s / sqrt(mean(s^2) + eps) (* src1, the weight)
 * p0 = eps as f32 bits. Rows are independent; dst may be src0.
 */
export function rms_norm(op: Op, ith: i32, nth: i32): void {
  const src0 = op.src0, src1 = op.src1, src2 = op.src2, src3 = op.src3, dst = op.dst;
  const n = src0.ne0, rows = nrows(src0);
  const eps = reinterpret<f32>(op.p0);
  const weight = changetype<usize>(src1) ? src1.data : 0;
  const to = split_to(rows, ith, nth);
  for (let r = split_from(rows, ith, nth); r < to; r++) {
    const i1 = r % src0.ne1, i2 = r / src0.ne1 % src0.ne2, i3 = r / (src0.ne1 * src0.ne2);
    let x = row_of(src0, i1, i2, i3);
    const y = row_of(dst, i1, i2, i3);
    if (changetype<usize>(src2)) {
      const sum = row_of(src3, i1, i2, i3);
      add_row(x, row_of(src2, i1, i2, i3), sum, n);
      x = sum;
    }
    scale_row(x, <f32>1 / sqrt<f32>(mean_square(x, n) + eps), weight, y, n);
  }
}

/** y = a + b */
export function add_row(a: usize, b: usize, y: usize, n: i32): void {
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
