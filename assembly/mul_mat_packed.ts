/** The op around the packed kernels: matrix products whose weights lie in row groups (repack.ts). Threads take chunks of rows from the cursor. */
import { mul_mat_packed, packed_rows, repack } from './packed';
import { split_from, split_to } from './schedule';
import { MOST_CHUNKS, take, take_of } from './sync';
import { Op, RANGES, row_of } from './tensor';

/**
 * Rows a chunk has: 32, of which a 1024-wide product with one column takes a microsecond, the most that a thread waits for another;
 * one group where that would leave threads without work.
 */
function chunk_size(nrows: i32, nth: i32): i32 {
  const group = packed_rows();
  return nrows < 32 * 4 * nth ? group : 32;
}

/**
 * dst [n, m, ne2, ne3] f32 = src0 packed [k, n] times src1 [k, m, ne2, ne3] (activations of quantize_act, with room for a multiple of four columns).
 * Each thread has a range of rows of its own, and helps with the others' when it is done: with the rows dealt out by turns two threads
 * read 32 GB/s from DRAM, each from one place on 43 (a processor reads ahead, and what it read ahead was the other's).
 */
export function mul_mat_packed_op(op: Op, ith: i32, nth: i32, cursor_bytes: usize, scratch: usize): void {
  const n = op.src0.ne1, m = op.dst.ne1;
  if (m == 0) return;
  const size = chunk_size(n, nth), row_chunks = (n + size - 1) / size, all = row_chunks * op.src1.ne2 * op.src1.ne3;
  // A cursor counts MOST_CHUNKS: a product of more batches than that takes several chunks at a time.
  const per = all / MOST_CHUNKS + 1, chunks = (all + per - 1) / per, ranges = min(nth, RANGES);
  for (let r = 0; r < ranges; r++) {
    const range = (ith + r) % ranges, from = split_from(chunks, range, ranges), count = split_to(chunks, range, ranges) - from;
    const cursor = op.cursor + <usize>range * cursor_bytes;
    for (let i = take_of(cursor, count, r > 0); i >= 0; i = take_of(cursor, count, r > 0)) {
      for (let c = (from + i) * per, end = min(c + per, all); c < end; c++) {
        const row0 = c % row_chunks * size;
        rows(op, row0, min(row0 + size, n), c / row_chunks, scratch);
      }
    }
  }
}

/** Rows [row0, row1) of one batch (dimensions 2 and 3 counted through). */
// @ts-ignore: decorator
@inline
function rows(op: Op, row0: i32, row1: i32, batch: i32, scratch: usize): void {
  const src0 = op.src0, src1 = op.src1, dst = op.dst, i2 = batch % src1.ne2, i3 = batch / src1.ne2;
  mul_mat_packed(src0.type, src0.data, src0.ne0, row0, row1, row_of(src1, 0, i2, i3), src1.nb1, dst.ne1, row_of(dst, 0, i2, i3), dst.nb1, scratch);
}

/** Packs dst, a plain tensor just read from its file, in place. p0 becomes 1 where a scale is Inf or NaN: no product by it would be right. */
export function repack_op(op: Op, scratch: usize): void {
  const t = op.dst, groups = (t.ne1 + packed_rows() - 1) / packed_rows();
  for (let g = take(op.cursor); g < groups; g = take(op.cursor)) {
    if (repack(t.type, t.data, t.ne0, t.ne1, g, g + 1, scratch) != 0) op.p0 = 1;
  }
}
