/** Packed weights as the engine sees them: packing, reading a row back, and the product. */
import { act_type } from './by_type';
import { ROWS } from './format/group';
import { most } from './panel_size';
import { gemm_scratch, mul_mat } from './product';
import { GEMM_F32_SCRATCH, mul_mat_f32 } from './product_f32';
import { repack_rows } from './repack';
import { row_of_blocks, row_of_floats } from './row';
import { F32 } from '../type/ids';

/**
 * Rows of a row block. The number of rows of a packed tensor is padded to a multiple of it, and
 * ranges of rows start at one.
 */
export function packed_rows(): i32 {
  return ROWS;
}

/** Bytes of scratch that mul_mat_packed needs for each thread. */
export function mul_mat_packed_scratch(): usize {
  return most(gemm_scratch(), GEMM_F32_SCRATCH);
}

/**
 * True if tensors of this ggml type can be packed in blocks: rows are a multiple of the block, and
 * products take activations of quantize_act.
 */
export function is_packable(type: u32): bool {
  const act = act_type(type);
  return act != 0xffffffff && act != F32;
}

/**
 * Type in which a packed product takes its activations for weights of this type: F32, or one of
 * act.ts; 0xffffffff if the type cannot be packed.
 */
export function packed_act_type(type: u32): u32 {
  return act_type(type);
}

/**
 * Packs the nrows plain rows of ne00 at src to w, which does not overlap src. `to` is the same
 * type, or the faster one that it can be packed as (`fast` in src/type-traits.ts). src and w have
 * room for whole row blocks: rows missing in the last one are zeroed at src too. Returns the number
 * of packed blocks that have an Inf or NaN scale: their products would be wrong.
 */
export function repack(type: u32, to: u32, src: usize, w: usize, ne00: i32, nrows: i32): i32 {
  return repack_rows(type, to, src, w, ne00, nrows);
}

/**
 * Unpacks row `row` of the packed tensor at w to ne00 f32 at y (get_rows of a tied token_embd),
 * with the bits of dequantize_row. scratch: as for mul_mat_packed.
 */
export function packed_row(type: u32, w: usize, ne00: i32, row: i32, y: usize, scratch: usize): void {
  if (act_type(type) == F32) row_of_floats(type, w, ne00, row, y, scratch);
  else row_of_blocks(type, w, ne00, row, y, scratch);
}

/**
 * dst[places[col] * dst_stride + row * 4] = weights' row `row` . column `col` of activations, for
 * rows [row0, row1) and ncols columns; strides are in bytes. Each output has the same bits for any
 * ncols, row0 and row1.
 *
 *   w       | the packed tensor, rows of ne00
 *   row0    | a multiple of 16
 *   row1    | a multiple of 16, or the number of rows
 *   act     | ncols columns of packed_act_type
 *   dst     | f32
 *   scratch | mul_mat_packed_scratch() bytes of this thread's own
 *   places  | for each column an i32, its column in dst; or 0 if column col goes to col
 */
export function mul_mat_packed(
  type: u32,
  w: usize,
  ne00: i32,
  row0: i32,
  row1: i32,
  act: usize,
  act_stride: usize,
  ncols: i32,
  dst: usize,
  dst_stride: usize,
  scratch: usize,
  places: usize,
): void {
  if (act_type(type) == F32) mul_mat_f32(type, w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch, places);
  else mul_mat(type, w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch, places);
}
