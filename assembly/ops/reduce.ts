/**
 * Reductions. One thread computes a row in sum_rows, mean, weighted_sum, argmax, argsort, top_k and
 * pooling, and a column in in_sum2. Elements of a row are contiguous f32.
 */
import { sum_row } from './norm';
import { range_start, range_end } from '../runtime/schedule';
import { Op, fill_nan, nrows, row_at, row_of } from '../runtime/tensor';

/** dst[0] = sum of the row, times p0 (1 or 1 / ne0). */
export function sum_rows(op: Op, ith: i32, nth: i32): void {
  const src0 = op.src0;
  const rows = nrows(src0);
  const to = range_end(rows, ith, nth);
  for (let r = range_start(rows, ith, nth); r < to; r++)
    store<f32>(row_at(op.dst, r), <f32>(sum_row(row_at(src0, r), src0.ne0) * <f64>reinterpret<f32>(op.p0)));
}

/**
 * dst[r] i32 = index of the largest element of row r (the first if several are equal). A NaN is
 * less than all numbers.
 */
export function argmax(op: Op, ith: i32, nth: i32): void {
  const src0 = op.src0;
  const n = src0.ne0;
  const to = range_end(src0.ne1, ith, nth);
  for (let r = range_start(src0.ne1, ith, nth); r < to; r++) {
    const x = row_at(src0, r);
    let best = 0;
    for (let i = 1; i < n; i++) if (worse(x, best, i, 1)) best = i;
    store<i32>(op.dst.data + <usize>r * op.dst.nb0, best);
  }
}

/**
 * dst i32 [k, ...] = indices of the k best elements of each row, best first: the largest (p0 = 0)
 * or the smallest (p0 = 1). Among equal ones the first is better, and NaNs are worse than all
 * numbers either way. (ggml leaves both undefined: std::sort and std::partial_sort on CPUs, bitonic
 * sort on GPUs.) A heap of k indices with the worst on top, then heapsort; argsort is k = ne0.
 * dst's rows are contiguous.
 */
export function top_k(op: Op, ith: i32, nth: i32): void {
  const src0 = op.src0;
  const n = src0.ne0;
  const k = op.dst.ne0;
  const sign: f32 = op.p0 ? -1 : 1;
  const rows = nrows(src0);
  const to = range_end(rows, ith, nth);
  for (let r = range_start(rows, ith, nth); r < to; r++) {
    const x = row_at(src0, r);
    const heap = row_at(op.dst, r);
    for (let i = 0; i < k; i++) store<i32>(heap + (<usize>i << 2), i);
    for (let i = (k >> 1) - 1; i >= 0; i--) sift(x, heap, i, k, sign);
    for (let i = k; i < n; i++) {
      if (!worse(x, load<i32>(heap), i, sign)) continue;
      store<i32>(heap, i);
      sift(x, heap, 0, k, sign);
    }
    for (let end = k - 1; end > 0; end--) {
      const last = heap + (<usize>end << 2);
      const worst = load<i32>(heap);
      store<i32>(heap, load<i32>(last));
      store<i32>(last, worst);
      sift(x, heap, 0, end, sign);
    }
  }
}

/**
 * True if element a comes after element b in a total order: descending for sign 1, ascending for
 * -1.
 */
@inline
function worse(x: usize, a: i32, b: i32, sign: f32): bool {
  const va = load<f32>(x + (<usize>a << 2)) * sign;
  const vb = load<f32>(x + (<usize>b << 2)) * sign;
  if (va < vb) return true;
  if (va > vb) return false;
  const nan_a = va != va;
  const nan_b = vb != vb;
  return nan_a == nan_b ? a > b : nan_a;
}

/** Sifts element i of a heap of n down. */
function sift(x: usize, heap: usize, i: i32, n: i32, sign: f32): void {
  const moved = load<i32>(heap + (<usize>i << 2));
  for (let child = 2 * i + 1; child < n; child = 2 * i + 1) {
    if (child + 1 < n && worse(x, load<i32>(heap + (<usize>child << 2), 4), load<i32>(heap + (<usize>child << 2)), sign)) child++;
    const c = load<i32>(heap + (<usize>child << 2));
    if (!worse(x, c, moved, sign)) break;
    store<i32>(heap + (<usize>i << 2), c);
    i = child;
  }
  store<i32>(heap + (<usize>i << 2), moved);
}

/** dst[i] = largest (p0 = 0) or average (p0 = 1) of src0[i * p2 .. i * p2 + p1). */
export function pool_1d(op: Op, ith: i32, nth: i32): void {
  const src0 = op.src0;
  const dst = op.dst;
  const k = op.p1;
  const rows = nrows(dst);
  const to = range_end(rows, ith, nth);
  for (let r = range_start(rows, ith, nth); r < to; r++) {
    const y = row_at(dst, r);
    let x = row_at(src0, r);
    for (let i = 0; i < dst.ne0; i++, x += <usize>op.p2 << 2) {
      let v = load<f32>(x);
      for (let j = 1; j < k; j++) {
        const w = load<f32>(x + (<usize>j << 2));
        v = op.p0 ? v + w : max(v, w);
      }
      store<f32>(y + (<usize>i << 2), op.p0 ? v / <f32>k : v);
    }
  }
}

/** Columns that a thread takes at a time: whole cache lines. */
const COLUMNS: i32 = 16;

/**
 * Pools the tokens of a sequence into its embedding: dst[:, s] = mean of src2[s] rows of src0 [n,
 * n_tokens], starting at row src1[s]; src1, src2: i32. Rows are added one after the other; threads
 * divide the columns. Rows out of range give NaN.
 */
export function mean_of_rows(op: Op, ith: i32, nth: i32): void {
  const src0 = op.src0;
  const dst = op.dst;
  const n = dst.ne0;
  const units = (n + COLUMNS - 1) / COLUMNS;
  const from = range_start(units, ith, nth) * COLUMNS;
  const to = min(n, range_end(units, ith, nth) * COLUMNS);
  for (let s = 0; s < dst.ne1; s++) {
    const first = load<i32>(op.src1.data + <usize>s * op.src1.nb0);
    const count = load<i32>(op.src2.data + <usize>s * op.src2.nb0);
    if (first < 0 || count < 0 || first > src0.ne1 - count) {
      fill_nan(row_of(dst, s, 0, 0) + (<usize>from << 2), to - from);
      continue;
    }
    const scale = <f32>1 / <f32>max(count, 1);
    for (let c = from; c < to; c += 4) {
      const y = row_of(dst, s, 0, 0) + (<usize>c << 2);
      let x = row_of(src0, first, 0, 0) + (<usize>c << 2);
      if (c + 4 <= to) {
        let sum = f32x4.splat(0);
        for (let t = 0; t < count; t++, x += src0.nb1) sum = f32x4.add(sum, v128.load(x));
        v128.store(y, f32x4.mul(sum, f32x4.splat(scale)));
      } else {
        for (let e: usize = 0; e < <usize>(to - c) << 2; e += 4) {
          let sum: f32 = 0;
          let xe = x + e;
          for (let t = 0; t < count; t++, xe += src0.nb1) sum += load<f32>(xe);
          store<f32>(y + e, sum * scale);
        }
      }
    }
  }
}

/**
 * dst[:, t, s] = src0[:, 0, t, s] * w_0 + src0[:, 1, t, s] * w_1 ... with w_i = src1[0, i, t, s].
 * Products and sums are rounded one by one, in this order. Threads divide the rows and their cache
 * lines, so that all threads share the only row of a single token.
 */
export function weighted_sum(op: Op, ith: i32, nth: i32): void {
  const src0 = op.src0;
  const src1 = op.src1;
  const dst = op.dst;
  const n = dst.ne0;
  const per_row = (n + COLUMNS - 1) / COLUMNS;
  const units = per_row * nrows(dst);
  const to = range_end(units, ith, nth);
  for (let u = range_start(units, ith, nth); u < to; u++) {
    const row = u / per_row;
    const i2 = row % dst.ne1;
    const i3 = row / dst.ne1;
    const from = (u % per_row) * COLUMNS;
    const end = min(n, from + COLUMNS);
    const x = row_of(src0, 0, i2, i3);
    const w = row_of(src1, 0, i2, i3);
    const y = row_of(dst, i2, i3, 0);
    for (let c = from; c < end; c += 4) {
      // The last one to three columns of a row are read one by one.
      const left = end - c;
      let sum = f32x4.splat(0);
      for (let i = 0; i < src0.ne1; i++) {
        const at = x + <usize>i * src0.nb1 + (<usize>c << 2);
        const v = left >= 4 ? v128.load(at) : load_few(at, left);
        const product = f32x4.mul(v, v128.load32_splat(w + <usize>i * src1.nb1));
        sum = i ? f32x4.add(sum, product) : product;
      }
      if (left >= 4) v128.store(y + (<usize>c << 2), sum);
      else store_few(y + (<usize>c << 2), sum, left);
    }
  }
}

/** One to three f32. */
function load_few(x: usize, n: i32): v128 {
  let v = v128.load32_zero(x);
  if (n > 1) v = v128.load32_lane(x, v, 1, 4);
  if (n > 2) v = v128.load32_lane(x, v, 2, 8);
  return v;
}
function store_few(y: usize, v: v128, n: i32): void {
  v128.store32_lane(y, v, 0);
  if (n > 1) v128.store32_lane(y, v, 1, 4);
  if (n > 2) v128.store32_lane(y, v, 2, 8);
}

/**
 * dst f32 [ne0] += the squares of src0's rows, column by column: llama-imatrix's in_sum2. Each row
 * is added to the sums in memory before the next, so that the bits are the same for any batch. A
 * thread takes whole cache lines of columns.
 *
 * With src1, i32 [n_used, n_tokens], the experts of the rows [ne0, 1 or n_used, n_tokens]: dst has
 * a row for each expert, and src2, f32 [n_expert], counts them.
 */
export function in_sum2(op: Op, ith: i32, nth: i32): void {
  const src0 = op.src0;
  const ids = op.src1;
  const dst = op.dst;
  const lines = (src0.ne0 + 15) >> 4;
  const from = range_start(lines, ith, nth) << 4;
  const to = min(range_end(lines, ith, nth) << 4, src0.ne0);
  if (!changetype<usize>(ids)) {
    const rows = nrows(src0);
    for (let r = 0; r < rows; r++) add_squares(row_at(src0, r), dst.data, from, to);
    return;
  }
  for (let t = 0; t < ids.ne1; t++) {
    for (let u = 0; u < ids.ne0; u++) {
      const e = load<i32>(row_of(ids, t, 0, 0) + (<usize>u << 2));
      if (<u32>e >= <u32>dst.ne1) continue;
      add_squares(row_of(src0, u % src0.ne1, t, 0), row_of(dst, e, 0, 0), from, to);
      const count = op.src2.data + (<usize>e << 2);
      if (ith == 0) store<f32>(count, load<f32>(count) + 1);
    }
  }
}

/** sums += x * x for columns [from, to); from is a multiple of 4. */
function add_squares(x: usize, sums: usize, from: i32, to: i32): void {
  const to4 = to & ~3;
  for (let i = from; i < to4; i += 4) {
    const o = <usize>i << 2;
    const v = v128.load(x + o);
    v128.store(sums + o, f32x4.add(v128.load(sums + o), f32x4.mul(v, v)));
  }
  for (let i = max(from, to4); i < to; i++) {
    const o = <usize>i << 2;
    const v = load<f32>(x + o);
    store<f32>(sums + o, load<f32>(sums + o) + v * v);
  }
}
