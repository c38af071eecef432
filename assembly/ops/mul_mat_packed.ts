/**
 * The op MUL_MAT_PACKED: matrix products by packed weights (matmul/packed.ts); and the op that
 * packs them. Threads take chunks of rows.
 */
import { GROUP_TILES } from '../layout';
import { mul_mat_packed, packed_rows, repack } from '../matmul/packed';
import { CHUNK_ROWS } from '../matmul/format/group';
import { FETCHES, touch } from '../matmul/rows_8x1';
import { next_chunk } from '../runtime/schedule';
import { MOST_CHUNKS, take } from '../runtime/sync';
import { Op, Tensor, nrows, row_of } from '../runtime/tensor';
import { columns_from, fill_group_nan, group_at, group_count } from './groups';

/**
 * If a thread gets fewer chunks of CHUNK_ROWS rows than this (of groups: than GROUP_TILES), a chunk
 * is one row block. A chunk has all columns of a product, while a group has a few columns.
 */
const FEW_CHUNKS: i32 = 4;

/**
 * Bytes of weights that are prefetched at a time, or one row block if that is more. They have to
 * stay in L2; fewer gain less.
 */
const FETCHED: usize = 128 << 10;

/** Number of rows of w, at most `most`, that are prefetched at a time. */
@inline
export function fetched_rows(w: Tensor, most: i32): i32 {
  return min(most, packed_rows() * max<i32>(1, <i32>(FETCHED / (<usize>packed_rows() * w.nb1))));
}

/**
 * dst [n, m, ne2, ne3] f32 = src0 packed [k, n] times src1 [k, m, ne2, ne3] (activations of
 * quantize_act, with room for a multiple of four columns).
 *
 * With src2, the groups of groups.ts: dst [n, used, tokens] = for each group, its columns of src1
 * (from quantize_groups) times matrix src0[.., .., matrix], whose rows are whole row blocks. p0:
 * dimension 1 of the tensor that src1 was quantised from.
 *
 * p1: true if weights are prefetched, in builds that do (FETCHES). The host knows which weights
 * usually come from memory, and for which it pays (graph/lower.ts).
 */
export function mul_mat_packed_op(op: Op, ith: i32, nth: i32, cursor_bytes: usize, scratch: usize): void {
  const n = op.src0.ne1;
  const groups = op.src2;
  const grouped = changetype<usize>(groups) != 0;
  if (op.dst.ne1 == 0) return;
  const products = grouped ? group_count(groups) : op.src1.ne2 * op.src1.ne3;
  const few = CHUNK_ROWS * (grouped ? GROUP_TILES : FEW_CHUNKS) * nth;
  const size = (grouped ? n * products : n) < few ? packed_rows() : CHUNK_ROWS;
  const row_chunks = (n + size - 1) / size;
  const all = row_chunks * products;
  // A cursor counts up to MOST_CHUNKS, so a product with more chunks takes several at a time.
  const per = all / MOST_CHUNKS + 1;
  const chunks = (all + per - 1) / per;
  const step = FETCHES && op.p1 != 0 ? fetched_rows(op.src0, size) : size;
  for (let i = next_chunk(op, chunks, ith, nth, cursor_bytes); i >= 0; i = next_chunk(op, chunks, ith, nth, cursor_bytes)) {
    for (let c = i * per, end = min(c + per, all); c < end; c++) {
      const row0 = (c % row_chunks) * size;
      for (let row = row0, row1 = min(row0 + size, n); row < row1; row += step) {
        if (grouped) group_rows(op, row, min(row + step, row1), c / row_chunks, scratch);
        else rows(op, row, min(row + step, row1), c / row_chunks, scratch);
      }
    }
  }
}

/** Rows [row0, row1) of matrix number `batch` of src1 and dst, counting dimensions 2 and 3. */
@inline
function rows(op: Op, row0: i32, row1: i32, batch: i32, scratch: usize): void {
  const src0 = op.src0;
  const src1 = op.src1;
  const dst = op.dst;
  const i2 = batch % src1.ne2;
  const i3 = batch / src1.ne2;
  if (FETCHES && op.p1 != 0) touch(src0.data + <usize>row0 * src0.nb1, <usize>(row1 - row0) * src0.nb1, scratch);
  mul_mat_packed(
    src0.type,
    src0.data,
    src0.ne0,
    row0,
    row1,
    row_of(src1, 0, i2, i3),
    src1.nb1,
    dst.ne1,
    row_of(dst, 0, i2, i3),
    dst.nb1,
    scratch,
    0,
  );
}

/** Rows [row0, row1) of the columns of group i. */
@inline
function group_rows(op: Op, row0: i32, row1: i32, i: i32, scratch: usize): void {
  const src0 = op.src0;
  const src1 = op.src1;
  const dst = op.dst;
  const g = group_at(op.src2, i);
  if (g.matrix < 0) return fill_group_nan(dst, op.src2, g, row0, row1);
  const shared = op.p0 == 1 && dst.ne2 == 1;
  const matrix = src0.data + <usize>g.matrix * src0.nb2;
  if (FETCHES && op.p1 != 0) touch(matrix + <usize>row0 * src0.nb1, <usize>(row1 - row0) * src0.nb1, scratch);
  mul_mat_packed(
    src0.type,
    matrix,
    src0.ne0,
    row0,
    row1,
    src1.data + (shared ? 0 : <usize>g.place * src1.nb1),
    src1.nb1,
    g.columns,
    dst.data,
    dst.nb1,
    scratch,
    columns_from(op.src2, g.first),
  );
}

/**
 * Packs dst in place, after its rows were read from the file: plain rows of type p0 and of p1
 * bytes. The rows of a row block begin where the packed row block will. If src0 is present, i32
 * [1], it becomes 1 if a scale is Inf or NaN, since no product by dst would be right.
 */
export function repack_op(op: Op, scratch: usize): void {
  const t = op.dst;
  const broken = op.src0;
  // If there are several matrices, they have whole row blocks, and are packed as one.
  const n = nrows(t);
  const groups = (n + packed_rows() - 1) / packed_rows();
  for (let g = take(op.cursor); g < groups; g = take(op.cursor)) {
    const w = t.data + <usize>(g * packed_rows()) * t.nb1;
    const count = min(packed_rows(), n - g * packed_rows());
    memory.copy(scratch, w, <usize>count * <usize>op.p1);
    const bad = repack(op.p0, t.type, scratch, w, t.ne0, count);
    if (bad != 0 && changetype<usize>(broken)) store<i32>(broken.data, 1);
  }
}
