/**
 * Structures that the host writes into the arena and the kernels read: tensors, op records, the
 * plan. src/graph/layout.ts mirrors the byte layout; a test compares the two.
 *
 *   Tensor  48 bytes | type layout | ne0 ne1 ne2 ne3 | nb0 nb1 nb2 nb3 | data | next |
 *   Op     128 bytes | code flags | dst | src0..src8 | casts | cursor | p0..p17 |
 *   Plan    32 bytes | n_ops ops | n_dims dims | cursor_bytes cursors | scratch scratch_size |
 */

/** ggml's view of memory: ne elements and nb bytes of stride in each dimension, ne0 fastest. */
@unmanaged
export class Tensor {
  type: u32;
  layout: u32;
  ne0: i32;
  ne1: i32;
  ne2: i32;
  ne3: i32;
  nb0: u32;
  nb1: u32;
  nb2: u32;
  nb3: u32;
  data: usize;
  /** Next cast of an op's output (Op.casts), or 0. */
  next: Tensor;
}

/** Rows as GGUF stores them. */
export const LAYOUT_PLAIN: u32 = 0;
/** Rows interleaved in row blocks of 16 for packed products (matmul/repack.ts). */
export const LAYOUT_PACKED: u32 = 1;

/**
 * The threads wait for each other before this op, because it reads or overwrites data that other
 * threads may still be writing.
 */
export const OP_BARRIER: u32 = 1;

@unmanaged
export class Op {
  code: u32;
  flags: u32;
  dst: Tensor;
  src0: Tensor;
  src1: Tensor;
  src2: Tensor;
  src3: Tensor;
  src4: Tensor;
  src5: Tensor;
  src6: Tensor;
  src7: Tensor;
  src8: Tensor;
  /**
   * dst in further types, written together with it: the first of a list linked by `next`, or 0
   * (ops/casts.ts).
   */
  casts: Tensor;
  /**
   * The op's counter of chunks taken (sync.ts), zeroed by begin(). The counters of its further
   * ranges follow, cursor_bytes apart.
   */
  cursor: usize;
  p0: i32;
  p1: i32;
  p2: i32;
  p3: i32;
  p4: i32;
  p5: i32;
  p6: i32;
  p7: i32;
  p8: i32;
  p9: i32;
  p10: i32;
  p11: i32;
  p12: i32;
  p13: i32;
}

export const OP_SIZE: usize = 128;

/**
 * Most ranges that an op's chunks are divided into, each with a cursor of its own. With more
 * threads, some share a range.
 */
export const RANGES: i32 = 8;

@unmanaged
export class Plan {
  n_ops: i32;
  ops: usize;
  /**
   * Dimensions that follow the batch: pairs (address of an ne, 0 = n_tokens | 1 = n_outputs | 2 =
   * n_tokens - n_outputs).
   */
  n_dims: i32;
  dims: usize;
  /**
   * Bytes from an op's cursor to the cursor of its next range: all ops' cursors for one range lie
   * side by side.
   */
  cursor_bytes: u32;
  cursors: usize;
  /** scratch_size bytes for each thread; thread ith's begin at scratch + ith * scratch_size. */
  scratch: usize;
  scratch_size: u32;
}

/** Address of row (i1, i2, i3). */
@inline
export function row_of(t: Tensor, i1: i32, i2: i32, i3: i32): usize {
  return t.data + <usize>i1 * t.nb1 + <usize>i2 * t.nb2 + <usize>i3 * t.nb3;
}

/** Rows of a tensor: ne1 * ne2 * ne3. */
@inline
export function nrows(t: Tensor): i32 {
  return t.ne1 * t.ne2 * t.ne3;
}

/** Address of row r, counting all rows in order. */
@inline
export function row_at(t: Tensor, r: i32): usize {
  const per2 = t.ne1;
  const per3 = per2 * t.ne2;
  return t.data + <usize>(r % per2) * t.nb1 + <usize>((r / per2) % t.ne2) * t.nb2 + <usize>(r / per3) * t.nb3;
}

/** Stores n f32 NaN: the result for an index outside its table. */
export function fill_nan(y: usize, n: i32): void {
  for (const end = y + (<usize>n << 2); y < end; y += 4) store<u32>(y, 0x7fc00000);
}

/**
 * True if dimensions 0..dim of a tensor of 4-byte elements have no gaps, so that one loop can walk
 * them.
 */
export function joins(t: Tensor, dim: i32): bool {
  if (t.nb0 != 4) return false;
  if (t.ne1 > 1 && t.nb1 != <u32>t.ne0 << 2) return false;
  if (dim > 1 && t.ne2 > 1 && t.nb2 != <u32>(t.ne0 * t.ne1) << 2) return false;
  return dim < 3 || t.ne3 <= 1 || t.nb3 == <u32>(t.ne0 * t.ne1 * t.ne2) << 2;
}

/**
 * True if all elements, of 4 bytes, lie without gaps.
 *
 */
@inline
export function is_dense(t: Tensor): bool {
  return joins(t, 3);
}
