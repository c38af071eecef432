/**
 * Packed weights as the engine sees them: which types there are, packing, reading a row back, and the product.
 * A format is a class (packed/<type>.ts); gemv.ts and gemm.ts are the loops.
 */
import { TYPE_ACT } from './act';
import { DotI16, DotI32, DotWide } from './dot';
import { gemm_scratch, mul_mat_of } from './gemm';
import { GEMM_F32_SCRATCH, in_tiles, mul_mat_f32, repack_f32, row_of_f32 } from './gemm_f32';
import { GEMM_F32_8X4, GEMV_F32_16X1, loop_of } from './loops';
import { BF16, F16, F32 } from './packed/float';
import { act_type } from './packed/format';
import { ROWS } from './packed/group';
import { IQ4_NL } from './packed/iq4_nl';
import { IQ4_XS } from './packed/iq4_xs';
import { MXFP4 } from './packed/mxfp4';
import { Q2_K } from './packed/q2_K';
import { Q3_K } from './packed/q3_K';
import { Q4_0 } from './packed/q4_0';
import { Q4_1 } from './packed/q4_1';
import { Q4_K } from './packed/q4_K';
import { Q5_0 } from './packed/q5_0';
import { Q5_1 } from './packed/q5_1';
import { Q5_K } from './packed/q5_K';
import { Q6_K } from './packed/q6_K';
import { Q8_0 } from './packed/q8_0';
import { most } from './panel';
import { repack_of, row_of } from './repack';
import { HAS_DOT_ADD, HAS_RELAXED_DOT } from './simd';
import * as id from './type_ids';

/** Rows in a packed group: nrows of a packed tensor is padded to a multiple of it, and row ranges start at one. */
export function packed_rows(): i32 {
  return ROWS;
}

/** Bytes of scratch mul_mat_packed needs, per thread. */
export function mul_mat_packed_scratch(): usize {
  return most(gemm_scratch(), GEMM_F32_SCRATCH);
}

/** What a packed product of this type takes its activations as: F32 rows, or quantize_act's of a type of act.ts (any, where the type cannot be packed). */
export function packed_act_type(type: u32): u32 {
  if (type == id.Q4_0) return act_type<Q4_0>();
  if (type == id.Q4_1) return act_type<Q4_1>();
  if (type == id.Q5_0) return act_type<Q5_0>();
  if (type == id.Q5_1) return act_type<Q5_1>();
  if (type == id.Q8_0) return act_type<Q8_0>();
  if (type == id.Q2_K) return act_type<Q2_K>();
  if (type == id.Q3_K) return act_type<Q3_K>();
  if (type == id.Q4_K) return act_type<Q4_K>();
  if (type == id.Q5_K) return act_type<Q5_K>();
  if (type == id.Q6_K) return act_type<Q6_K>();
  if (type == id.IQ4_NL) return act_type<IQ4_NL>();
  if (type == id.IQ4_XS) return act_type<IQ4_XS>();
  if (type == id.MXFP4) return act_type<MXFP4>();
  return type == id.F32 || type == id.F16 || type == id.BF16 ? id.F32 : TYPE_ACT;
}

/** The loop (loops.ts) that computes column c of a product of ncols, by packed weights of the type. */
export function packed_loop(type: u32, c: i32, ncols: i32): i32 {
  if (type == id.Q4_0) return loop_of<Q4_0>(c, ncols);
  if (type == id.Q4_1) return loop_of<Q4_1>(c, ncols);
  if (type == id.Q5_0) return loop_of<Q5_0>(c, ncols);
  if (type == id.Q5_1) return loop_of<Q5_1>(c, ncols);
  if (type == id.Q8_0) return loop_of<Q8_0>(c, ncols);
  if (type == id.Q2_K) return loop_of<Q2_K>(c, ncols);
  if (type == id.Q3_K) return loop_of<Q3_K>(c, ncols);
  if (type == id.Q4_K) return loop_of<Q4_K>(c, ncols);
  if (type == id.Q5_K) return loop_of<Q5_K>(c, ncols);
  if (type == id.Q6_K) return loop_of<Q6_K>(c, ncols);
  if (type == id.IQ4_NL) return loop_of<IQ4_NL>(c, ncols);
  if (type == id.IQ4_XS) return loop_of<IQ4_XS>(c, ncols);
  if (type == id.MXFP4) return loop_of<MXFP4>(c, ncols);
  return c < in_tiles(ncols) ? GEMM_F32_8X4 : GEMV_F32_16X1;
}

/** Whether tensors of this ggml type can be packed into blocks (rows of a multiple of the block, activations of quantize_act). */
export function is_packable(type: u32): bool {
  return type == id.Q4_0 || type == id.Q4_1 || type == id.Q5_0 || type == id.Q5_1 || type == id.Q8_0
    || (type >= id.Q2_K && type <= id.Q6_K) || type == id.IQ4_NL || type == id.IQ4_XS || type == id.MXFP4;
}

/**
 * Packs row groups [group0, group1) of the nrows x ne00 tensor at w, in place. Groups are independent: threads may share a tensor.
 * scratch: 16 rows' bytes. Returns 0, or how many packed blocks hold a scale that is Inf or NaN: their products would be wrong.
 */
export function repack(type: u32, w: usize, ne00: i32, nrows: i32, group0: i32, group1: i32, scratch: usize): i32 {
  if (type == id.F32) return repack_f32<F32>(w, ne00, nrows, group0, group1, scratch);
  if (type == id.F16) return repack_f32<F16>(w, ne00, nrows, group0, group1, scratch);
  if (type == id.BF16) return repack_f32<BF16>(w, ne00, nrows, group0, group1, scratch);
  if (type == id.Q4_0) return repack_of<Q4_0>(w, ne00, nrows, group0, group1, scratch);
  if (type == id.Q4_1) return repack_of<Q4_1>(w, ne00, nrows, group0, group1, scratch);
  if (type == id.Q5_0) return repack_of<Q5_0>(w, ne00, nrows, group0, group1, scratch);
  if (type == id.Q5_1) return repack_of<Q5_1>(w, ne00, nrows, group0, group1, scratch);
  if (type == id.Q8_0) return repack_of<Q8_0>(w, ne00, nrows, group0, group1, scratch);
  if (type == id.Q2_K) return repack_of<Q2_K>(w, ne00, nrows, group0, group1, scratch);
  if (type == id.Q3_K) return repack_of<Q3_K>(w, ne00, nrows, group0, group1, scratch);
  if (type == id.Q4_K) return repack_of<Q4_K>(w, ne00, nrows, group0, group1, scratch);
  if (type == id.Q5_K) return repack_of<Q5_K>(w, ne00, nrows, group0, group1, scratch);
  if (type == id.Q6_K) return repack_of<Q6_K>(w, ne00, nrows, group0, group1, scratch);
  if (type == id.IQ4_NL) return repack_of<IQ4_NL>(w, ne00, nrows, group0, group1, scratch);
  if (type == id.IQ4_XS) return repack_of<IQ4_XS>(w, ne00, nrows, group0, group1, scratch);
  if (type == id.MXFP4) return repack_of<MXFP4>(w, ne00, nrows, group0, group1, scratch);
  return unreachable();
}

/** Row `row` of a packed tensor as ne00 f32 at y (get_rows of a tied token_embd): the bits of dequantize_row. */
export function packed_row(type: u32, w: usize, ne00: i32, row: i32, y: usize): void {
  if (type == id.F32) row_of_f32<F32>(w, ne00, row, y);
  else if (type == id.F16) row_of_f32<F16>(w, ne00, row, y);
  else if (type == id.BF16) row_of_f32<BF16>(w, ne00, row, y);
  else if (type == id.Q4_0) row_of<Q4_0>(w, ne00, row, y);
  else if (type == id.Q4_1) row_of<Q4_1>(w, ne00, row, y);
  else if (type == id.Q5_0) row_of<Q5_0>(w, ne00, row, y);
  else if (type == id.Q5_1) row_of<Q5_1>(w, ne00, row, y);
  else if (type == id.Q8_0) row_of<Q8_0>(w, ne00, row, y);
  else if (type == id.Q2_K) row_of<Q2_K>(w, ne00, row, y);
  else if (type == id.Q3_K) row_of<Q3_K>(w, ne00, row, y);
  else if (type == id.Q4_K) row_of<Q4_K>(w, ne00, row, y);
  else if (type == id.Q5_K) row_of<Q5_K>(w, ne00, row, y);
  else if (type == id.Q6_K) row_of<Q6_K>(w, ne00, row, y);
  else if (type == id.IQ4_NL) row_of<IQ4_NL>(w, ne00, row, y);
  else if (type == id.IQ4_XS) row_of<IQ4_XS>(w, ne00, row, y);
  else if (type == id.MXFP4) row_of<MXFP4>(w, ne00, row, y);
  else unreachable();
}

/**
 * dst[col * dst_stride + row * 4] = row . activation row col, for rows [row0, row1) and ncols columns.
 * row0 is a multiple of 16, row1 one too or the tensor's number of rows. act: ncols columns of packed_act_type, act_stride bytes apart.
 * dst is f32, dst_stride in bytes. scratch: mul_mat_packed_scratch() bytes of this thread's own.
 * Each output has the same bits for any ncols, row0 and row1.
 */
export function mul_mat_packed(type: u32, w: usize, ne00: i32, row0: i32, row1: i32, act: usize, act_stride: usize, ncols: i32, dst: usize, dst_stride: usize, scratch: usize): void {
  if (type == id.F32) mul_mat_f32<F32>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch);
  else if (type == id.F16) mul_mat_f32<F16>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch);
  else if (type == id.BF16) mul_mat_f32<BF16>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch);
  else if (type == id.Q4_0) product<Q4_0>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch);
  else if (type == id.Q4_1) product<Q4_1>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch);
  else if (type == id.Q5_0) product<Q5_0>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch);
  else if (type == id.Q5_1) product<Q5_1>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch);
  else if (type == id.Q8_0) product<Q8_0>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch);
  else if (type == id.Q2_K) product<Q2_K>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch);
  else if (type == id.Q3_K) product<Q3_K>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch);
  else if (type == id.Q4_K) product<Q4_K>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch);
  else if (type == id.Q5_K) product<Q5_K>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch);
  else if (type == id.Q6_K) product<Q6_K>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch);
  else if (type == id.IQ4_NL) product<IQ4_NL>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch);
  else if (type == id.IQ4_XS) product<IQ4_XS>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch);
  else if (type == id.MXFP4) product<MXFP4>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch);
  else unreachable();
}

// @ts-ignore: decorator
@inline
function product<F>(w: usize, ne00: i32, row0: i32, row1: i32, act: usize, act_stride: usize, ncols: i32, dst: usize, dst_stride: usize, scratch: usize): void {
  if (HAS_DOT_ADD) mul_mat_of<F, DotI32>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch);
  else if (HAS_RELAXED_DOT) mul_mat_of<F, DotI16>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch);
  else mul_mat_of<F, DotWide>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch);
}
