/**
 * Division of work among threads. Its borders depend on shapes and on nth. Results do not, since
 * one thread computes the whole of each output.
 */
import { Op, RANGES } from '../layout';
import { take_of } from './sync';

/** First of the n items of thread ith of nth: each thread takes ceil(n / nth), as in ggml. */
@inline
export function range_start(n: i32, ith: i32, nth: i32): i32 {
  const dr = (n + nth - 1) / nth;
  return min(dr * ith, n);
}

/** End of the items of thread ith of nth. */
@inline
export function range_end(n: i32, ith: i32, nth: i32): i32 {
  return range_start(n, ith + 1, nth);
}

/**
 * Rows of src0 in a chunk of a matrix product, as in ggml_compute_forward_mul_mat. Chunks are 16 x
 * 16 rows, or 64 if one side is a single row. If that gives fewer than 4 chunks a thread, the
 * longer side is divided evenly among the threads (nth0 = nth or nth1 = nth). The result is rounded
 * up to a multiple of `tile`.
 */
export function chunk_rows(nr0: i32, nr1: i32, nth: i32, tile: i32): i32 {
  let size = nr0 == 1 || nr1 == 1 ? 64 : 16;
  const n0 = (nr0 + size - 1) / size;
  const n1 = (nr1 + size - 1) / size;
  if (n0 * n1 < 4 * nth) size = nr0 > nr1 ? (nr0 + nth - 1) / nth : nr0;
  return ((size + tile - 1) / tile) * tile;
}

/** Rows of src1 in the chunk that chunk_rows describes. */
export function chunk_cols(nr0: i32, nr1: i32, nth: i32): i32 {
  const size = nr0 == 1 || nr1 == 1 ? 64 : 16;
  const n0 = (nr0 + size - 1) / size;
  const n1 = (nr1 + size - 1) / size;
  if (n0 * n1 >= 4 * nth) return size;
  return nr0 > nr1 ? nr1 : (nr1 + nth - 1) / nth;
}

/**
 * Takes the next of an op's chunks (at most MOST_CHUNKS) for thread ith, or returns -1 if none is
 * left.
 *
 * Each thread has a range of chunks of its own and helps with other ranges when it is done. If
 * chunks were dealt out in turn, each thread's prefetcher would load what another thread takes; one
 * stream for each thread gives more DRAM bandwidth.
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
