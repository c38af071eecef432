/** The op around the packed kernels: matrix products whose weights lie in row groups (repack.ts). Threads take chunks of rows from the cursor. */
import { mul_mat_packed, packed_rows, repack } from './packed';
import { take } from './sync';
import { Op, row_of } from './tensor';

/**
 * Rows a chunk has: 64 keep the cursor out of the profile (a chunk of a 1024-wide product with one column takes 3 us, a take 30 ns);
 * fewer, down to one group, where that would leave threads without work.
 */
function chunk_size(nrows: i32, nth: i32): i32 {
  const group = packed_rows();
  let size = 64;
  while (size > group && nrows / size < 4 * nth) size >>= 1;
  return max(size, group);
}

/** dst [n, m, ne2, ne3] f32 = src0 packed [k, n] times src1 [k, m, ne2, ne3] (activations of quantize_act). */
export function mul_mat_packed_op(op: Op, nth: i32, scratch: usize): void {
  const src0 = op.src0, src1 = op.src1, dst = op.dst;
  const n = src0.ne1, m = src1.ne1;
  if (m == 0) return;
  const size = chunk_size(n, nth), chunks = (n + size - 1) / size, items = chunks * src1.ne2 * src1.ne3;
  for (let i = take(op.cursor); i < items; i = take(op.cursor)) {
    const row0 = i % chunks * size, i2 = i / chunks % src1.ne2, i3 = i / chunks / src1.ne2;
    mul_mat_packed(src0.type, src0.data, src0.ne0, row0, min(row0 + size, n), row_of(src1, 0, i2, i3), src1.nb1, m, row_of(dst, 0, i2, i3), dst.nb1, scratch);
  }
}

/** Packs dst, a plain tensor just read from its file, in place. p0 becomes 1 where a scale is Inf or NaN: no product by it would be right. */
export function repack_op(op: Op, scratch: usize): void {
  const t = op.dst, groups = (t.ne1 + packed_rows() - 1) / packed_rows();
  for (let g = take(op.cursor); g < groups; g = take(op.cursor)) {
    if (repack(t.type, t.data, t.ne0, t.ne1, g, g + 1, scratch) != 0) op.p0 = 1;
  }
}
