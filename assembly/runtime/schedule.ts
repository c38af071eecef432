/** Which thread computes what. Borders of work depend on shapes and on nth; results never do, since each output is computed whole by one thread. */
import { take_of } from './sync';
import { Op, RANGES } from './tensor';

/** The first of the n items that thread ith of nth takes, ceil(n / nth) each, as in ggml. */
@inline
export function range_start(n: i32, ith: i32, nth: i32): i32 {
  const dr = (n + nth - 1) / nth;
  return min(dr * ith, n);
}

/** The end of its items. */
@inline
export function range_end(n: i32, ith: i32, nth: i32): i32 {
  return range_start(n, ith + 1, nth);
}

/**
 * Rows of src0 in a chunk of a matrix product, as in ggml_compute_forward_mul_mat: chunks are 16 x 16 rows, or 64 where one side is a single row. Where
 * that gives fewer than 4 chunks a thread, the longer side is divided evenly among the threads (nth0 = nth or nth1 = nth).
 * Rounded up to a multiple of `tile`.
 */
export function chunk_rows(nr0: i32, nr1: i32, nth: i32, tile: i32): i32 {
  let size = nr0 == 1 || nr1 == 1 ? 64 : 16;
  const n0 = (nr0 + size - 1) / size;
  const n1 = (nr1 + size - 1) / size;
  if (n0 * n1 < 4 * nth) size = nr0 > nr1 ? (nr0 + nth - 1) / nth : nr0;
  return ((size + tile - 1) / tile) * tile;
}

/** Rows of src1 in the same chunk. */
export function chunk_cols(nr0: i32, nr1: i32, nth: i32): i32 {
  const size = nr0 == 1 || nr1 == 1 ? 64 : 16;
  const n0 = (nr0 + size - 1) / size;
  const n1 = (nr1 + size - 1) / size;
  if (n0 * n1 >= 4 * nth) return size;
  return nr0 > nr1 ? nr1 : (nr1 + nth - 1) / nth;
}

/**
 * The next of an op's chunks, MOST_CHUNKS at most, that thread ith takes, or -1 when there is none. Each thread has a range of chunks of its own and helps
 * with those of others when it is done. Two threads that read a stream each get 43 GB/s from DRAM; with chunks dealt out in turns they get 32, because each
 * one's prefetcher loads what the other takes.
 */
export function next_chunk(op: Op, chunks: i32, ith: i32, nth: i32, cursor_bytes: usize): i32 {
  const ranges = min(nth, RANGES);
  for (let r = 0; r < ranges; r++) {
    const range = (ith + r) % ranges;
    const from = range_start(chunks, range, ranges);
    const i = take_of(op.cursor + <usize>range * cursor_bytes, range_end(chunks, range, ranges) - from, r > 0);
    if (i >= 0) return from + i;
  }
  return -1;
}
