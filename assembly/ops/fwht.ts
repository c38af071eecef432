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
import { range_end, range_start } from '../runtime/schedule';
import { Op, is_dense, nrows, row_at } from '../runtime/tensor';
import { cast_rows } from './casts';
import { mix } from './fwht_mix';
import { near, pass_of_4, pass_of_8, short, within_1, within_2, within_4, within_8 } from './fwht_passes';

/**
 * fwht: transforms each n = p0 elements of src0's rows, f32. dst may be src0. scratch:
 * FWHT_SCRATCH_SIZE bytes.
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
