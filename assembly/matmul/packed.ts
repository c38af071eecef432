/**
 * Packed weights as the engine sees them: packing, reading a row back, and the product. The functions that end in `_as` are for a format F, a class of
 * format/<type>.ts; by_type.ts, which is generated, has each of them for a type id.
 */
import { GEMM_F32_8X4, GEMV_F32_16X1, act_type, loop_of } from './loops';
import { ROWS } from './format/group';
import { GEMM_F32_SCRATCH, in_tiles, mul_mat_f32, repack_f32, row_of_f32 } from './gemm_f32';
import { most } from './panel_size';
import { gemm_scratch, mul_mat_of } from './product';
import { repack_of } from './repack';
import { row_of } from './row';
import { F32 } from '../type/ids';

/** Rows of a row block: nrows of a packed tensor is padded to a multiple of it, and ranges of rows start at one. */
export function packed_rows(): i32 {
  return ROWS;
}

/** Bytes of scratch that mul_mat_packed needs, for each thread. */
export function mul_mat_packed_scratch(): usize {
  return most(gemm_scratch(), GEMM_F32_SCRATCH);
}

/** f32, f16 and bf16 (format/float.ts). */
// @ts-ignore: decorator
@inline
function is_float<F>(): bool {
  return isDefined(changetype<F>(0).number);
}

/** Whether tensors of this ggml type can be packed as blocks: rows of a multiple of the block, products with activations of quantize_act. */
// @ts-ignore: decorator
@inline
export function is_packable_as<F>(): bool {
  return !is_float<F>();
}

/** The type in which a packed product by weights of this type takes its activations: F32, or one of act.ts; 0xffffffff if the type cannot be packed. */
// @ts-ignore: decorator
@inline
export function packed_act_type_as<F>(): u32 {
  return is_float<F>() ? F32 : act_type<F>();
}

/** The loop (loops.ts) that computes column c of a product of ncols columns by packed weights of the type. */
// @ts-ignore: decorator
@inline
export function packed_loop_as<F>(c: i32, ncols: i32): i32 {
  if (!is_float<F>()) return loop_of<F>(c, ncols);
  return c < in_tiles(ncols) ? GEMM_F32_8X4 : GEMV_F32_16X1;
}

/**
 * Packs row blocks [from, to) of the nrows x ne00 tensor at w, in place. They are independent: threads may share a tensor.
 * scratch: the bytes of 16 plain rows. Returns how many packed blocks have a scale that is Inf or NaN: their products would be wrong.
 */
// @ts-ignore: decorator
@inline
export function repack_as<F>(w: usize, ne00: i32, nrows: i32, from: i32, to: i32, scratch: usize): i32 {
  return is_float<F>() ? repack_f32<F>(w, ne00, nrows, from, to, scratch) : repack_of<F>(w, ne00, nrows, from, to, scratch);
}

/**
 * Unpacks row `row` of the packed tensor at w to ne00 f32 at y (get_rows of a tied token_embd): the bits of dequantize_row.
 * scratch: as for mul_mat_packed.
 */
// @ts-ignore: decorator
@inline
export function packed_row_as<F>(w: usize, ne00: i32, row: i32, y: usize, scratch: usize): void {
  if (is_float<F>()) row_of_f32<F>(w, ne00, row, y);
  else row_of<F>(w, ne00, row, y, scratch);
}

/**
 * dst[places[col] * dst_stride + row * 4] = weights' row `row` . column `col` of activations, for rows [row0, row1) and ncols columns; strides are in bytes.
 * w: the packed tensor, rows of ne00. row0 is a multiple of 16, row1 one too or the tensor's number of rows. act: ncols columns of packed_act_type.
 * dst: f32. scratch: mul_mat_packed_scratch() bytes of this thread's own. places: an i32 for each column, or 0 where column col's place is col.
 * Each output has the same bits for any ncols, row0 and row1.
 */
// @ts-ignore: decorator
@inline
export function mul_mat_packed_as<F>(
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
  if (is_float<F>()) mul_mat_f32<F>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch, places);
  else mul_mat_of<F>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch, places);
}
