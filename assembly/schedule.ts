/** Who computes what. Borders of work depend on shapes and nth; results never do (each output is computed whole by one thread). */

/** First of n items for thread ith of nth: ggml's dr = ceil(n / nth). */
// @ts-ignore: decorator
@inline
export function split_from(n: i32, ith: i32, nth: i32): i32 {
  const dr = (n + nth - 1) / nth;
  return min(dr * ith, n);
}

// @ts-ignore: decorator
@inline
export function split_to(n: i32, ith: i32, nth: i32): i32 {
  return split_from(n, ith + 1, nth);
}

/**
 * Rows a chunk of a matrix product has, after ggml_compute_forward_mul_mat: 16 x 16, or 64 where one side is a single row;
 * where that gives fewer than 4 chunks a thread, the longer side is parted evenly (nth0 = nth or nth1 = nth).
 * Rounded up to a multiple of `tile`.
 */
export function chunk_rows(nr0: i32, nr1: i32, nth: i32, tile: i32): i32 {
  let size = nr0 == 1 || nr1 == 1 ? 64 : 16;
  const n0 = (nr0 + size - 1) / size;
  const n1 = (nr1 + size - 1) / size;
  if (n0 * n1 < 4 * nth) size = nr0 > nr1 ? (nr0 + nth - 1) / nth : nr0;
  return (size + tile - 1) / tile * tile;
}

/** The other side's rows of the same chunk. */
export function chunk_cols(nr0: i32, nr1: i32, nth: i32): i32 {
  const size = nr0 == 1 || nr1 == 1 ? 64 : 16;
  const n0 = (nr0 + size - 1) / size;
  const n1 = (nr1 + size - 1) / size;
  if (n0 * n1 >= 4 * nth) return size;
  return nr0 > nr1 ? nr1 : (nr1 + nth - 1) / nth;
}
