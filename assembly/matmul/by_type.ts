// Generated from src/type-traits.ts by `npm run generate`: edit that table and run it again.
/** packed.ts by type id. */
import { BF16, F16, F32 } from './format/float';
import { Q4_0 } from './format/q4_0';
import { Q4_1 } from './format/q4_1';
import { Q5_0 } from './format/q5_0';
import { Q5_1 } from './format/q5_1';
import { Q8_0 } from './format/q8_0';
import { Q2_K } from './format/q2_K';
import { Q3_K } from './format/q3_K';
import { Q4_K } from './format/q4_K';
import { Q5_K } from './format/q5_K';
import { Q6_K } from './format/q6_K';
import { IQ2_XXS } from './format/iq2_xxs';
import { IQ2_XS } from './format/iq2_xs';
import { IQ3_XXS } from './format/iq3_xxs';
import { IQ1_S } from './format/iq1_s';
import { IQ4_NL } from './format/iq4_nl';
import { IQ3_S } from './format/iq3_s';
import { IQ2_S } from './format/iq2_s';
import { IQ4_XS } from './format/iq4_xs';
import { IQ1_M } from './format/iq1_m';
import { TQ1_0 } from './format/tq1_0';
import { TQ2_0 } from './format/tq2_0';
import { MXFP4 } from './format/mxfp4';
import { NVFP4 } from './format/nvfp4';
import { Q1_0 } from './format/q1_0';
import { Q2_0 } from './format/q2_0';
import { is_packable_as, mul_mat_packed_as, packed_act_type_as, packed_loop_as, packed_row_as, repack_as } from './packed';
import * as id from '../type/ids';

/** Whether tensors of this ggml type can be packed as blocks: rows of a multiple of the block, products with activations of quantize_act. */
export function is_packable(type: u32): bool {
  // prettier-ignore
  switch (type) {
    case id.F32: return is_packable_as<F32>();
    case id.F16: return is_packable_as<F16>();
    case id.Q4_0: return is_packable_as<Q4_0>();
    case id.Q4_1: return is_packable_as<Q4_1>();
    case id.Q5_0: return is_packable_as<Q5_0>();
    case id.Q5_1: return is_packable_as<Q5_1>();
    case id.Q8_0: return is_packable_as<Q8_0>();
    case id.Q2_K: return is_packable_as<Q2_K>();
    case id.Q3_K: return is_packable_as<Q3_K>();
    case id.Q4_K: return is_packable_as<Q4_K>();
    case id.Q5_K: return is_packable_as<Q5_K>();
    case id.Q6_K: return is_packable_as<Q6_K>();
    case id.IQ2_XXS: return is_packable_as<IQ2_XXS>();
    case id.IQ2_XS: return is_packable_as<IQ2_XS>();
    case id.IQ3_XXS: return is_packable_as<IQ3_XXS>();
    case id.IQ1_S: return is_packable_as<IQ1_S>();
    case id.IQ4_NL: return is_packable_as<IQ4_NL>();
    case id.IQ3_S: return is_packable_as<IQ3_S>();
    case id.IQ2_S: return is_packable_as<IQ2_S>();
    case id.IQ4_XS: return is_packable_as<IQ4_XS>();
    case id.IQ1_M: return is_packable_as<IQ1_M>();
    case id.BF16: return is_packable_as<BF16>();
    case id.TQ1_0: return is_packable_as<TQ1_0>();
    case id.TQ2_0: return is_packable_as<TQ2_0>();
    case id.MXFP4: return is_packable_as<MXFP4>();
    case id.NVFP4: return is_packable_as<NVFP4>();
    case id.Q1_0: return is_packable_as<Q1_0>();
    case id.Q2_0: return is_packable_as<Q2_0>();
    default: return false;
  }
}

/** The type in which a packed product by weights of this type takes its activations: F32, or one of act.ts; 0xffffffff if the type cannot be packed. */
export function packed_act_type(type: u32): u32 {
  // prettier-ignore
  switch (type) {
    case id.F32: return packed_act_type_as<F32>();
    case id.F16: return packed_act_type_as<F16>();
    case id.Q4_0: return packed_act_type_as<Q4_0>();
    case id.Q4_1: return packed_act_type_as<Q4_1>();
    case id.Q5_0: return packed_act_type_as<Q5_0>();
    case id.Q5_1: return packed_act_type_as<Q5_1>();
    case id.Q8_0: return packed_act_type_as<Q8_0>();
    case id.Q2_K: return packed_act_type_as<Q2_K>();
    case id.Q3_K: return packed_act_type_as<Q3_K>();
    case id.Q4_K: return packed_act_type_as<Q4_K>();
    case id.Q5_K: return packed_act_type_as<Q5_K>();
    case id.Q6_K: return packed_act_type_as<Q6_K>();
    case id.IQ2_XXS: return packed_act_type_as<IQ2_XXS>();
    case id.IQ2_XS: return packed_act_type_as<IQ2_XS>();
    case id.IQ3_XXS: return packed_act_type_as<IQ3_XXS>();
    case id.IQ1_S: return packed_act_type_as<IQ1_S>();
    case id.IQ4_NL: return packed_act_type_as<IQ4_NL>();
    case id.IQ3_S: return packed_act_type_as<IQ3_S>();
    case id.IQ2_S: return packed_act_type_as<IQ2_S>();
    case id.IQ4_XS: return packed_act_type_as<IQ4_XS>();
    case id.IQ1_M: return packed_act_type_as<IQ1_M>();
    case id.BF16: return packed_act_type_as<BF16>();
    case id.TQ1_0: return packed_act_type_as<TQ1_0>();
    case id.TQ2_0: return packed_act_type_as<TQ2_0>();
    case id.MXFP4: return packed_act_type_as<MXFP4>();
    case id.NVFP4: return packed_act_type_as<NVFP4>();
    case id.Q1_0: return packed_act_type_as<Q1_0>();
    case id.Q2_0: return packed_act_type_as<Q2_0>();
    default: return 0xffffffff;
  }
}

/** The loop (loops.ts) that computes column c of a product of ncols columns by packed weights of the type. */
export function packed_loop(type: u32, c: i32, ncols: i32): i32 {
  // prettier-ignore
  switch (type) {
    case id.F32: return packed_loop_as<F32>(c, ncols);
    case id.F16: return packed_loop_as<F16>(c, ncols);
    case id.Q4_0: return packed_loop_as<Q4_0>(c, ncols);
    case id.Q4_1: return packed_loop_as<Q4_1>(c, ncols);
    case id.Q5_0: return packed_loop_as<Q5_0>(c, ncols);
    case id.Q5_1: return packed_loop_as<Q5_1>(c, ncols);
    case id.Q8_0: return packed_loop_as<Q8_0>(c, ncols);
    case id.Q2_K: return packed_loop_as<Q2_K>(c, ncols);
    case id.Q3_K: return packed_loop_as<Q3_K>(c, ncols);
    case id.Q4_K: return packed_loop_as<Q4_K>(c, ncols);
    case id.Q5_K: return packed_loop_as<Q5_K>(c, ncols);
    case id.Q6_K: return packed_loop_as<Q6_K>(c, ncols);
    case id.IQ2_XXS: return packed_loop_as<IQ2_XXS>(c, ncols);
    case id.IQ2_XS: return packed_loop_as<IQ2_XS>(c, ncols);
    case id.IQ3_XXS: return packed_loop_as<IQ3_XXS>(c, ncols);
    case id.IQ1_S: return packed_loop_as<IQ1_S>(c, ncols);
    case id.IQ4_NL: return packed_loop_as<IQ4_NL>(c, ncols);
    case id.IQ3_S: return packed_loop_as<IQ3_S>(c, ncols);
    case id.IQ2_S: return packed_loop_as<IQ2_S>(c, ncols);
    case id.IQ4_XS: return packed_loop_as<IQ4_XS>(c, ncols);
    case id.IQ1_M: return packed_loop_as<IQ1_M>(c, ncols);
    case id.BF16: return packed_loop_as<BF16>(c, ncols);
    case id.TQ1_0: return packed_loop_as<TQ1_0>(c, ncols);
    case id.TQ2_0: return packed_loop_as<TQ2_0>(c, ncols);
    case id.MXFP4: return packed_loop_as<MXFP4>(c, ncols);
    case id.NVFP4: return packed_loop_as<NVFP4>(c, ncols);
    case id.Q1_0: return packed_loop_as<Q1_0>(c, ncols);
    case id.Q2_0: return packed_loop_as<Q2_0>(c, ncols);
    default: unreachable();
  }
  return 0;
}

/**
 * Packs row blocks [from, to) of the nrows x ne00 tensor at w, in place. They are independent: threads may share a tensor.
 * scratch: the bytes of 16 plain rows. Returns how many packed blocks have a scale that is Inf or NaN: their products would be wrong.
 */
export function repack(type: u32, w: usize, ne00: i32, nrows: i32, from: i32, to: i32, scratch: usize): i32 {
  // prettier-ignore
  switch (type) {
    case id.F32: return repack_as<F32>(w, ne00, nrows, from, to, scratch);
    case id.F16: return repack_as<F16>(w, ne00, nrows, from, to, scratch);
    case id.Q4_0: return repack_as<Q4_0>(w, ne00, nrows, from, to, scratch);
    case id.Q4_1: return repack_as<Q4_1>(w, ne00, nrows, from, to, scratch);
    case id.Q5_0: return repack_as<Q5_0>(w, ne00, nrows, from, to, scratch);
    case id.Q5_1: return repack_as<Q5_1>(w, ne00, nrows, from, to, scratch);
    case id.Q8_0: return repack_as<Q8_0>(w, ne00, nrows, from, to, scratch);
    case id.Q2_K: return repack_as<Q2_K>(w, ne00, nrows, from, to, scratch);
    case id.Q3_K: return repack_as<Q3_K>(w, ne00, nrows, from, to, scratch);
    case id.Q4_K: return repack_as<Q4_K>(w, ne00, nrows, from, to, scratch);
    case id.Q5_K: return repack_as<Q5_K>(w, ne00, nrows, from, to, scratch);
    case id.Q6_K: return repack_as<Q6_K>(w, ne00, nrows, from, to, scratch);
    case id.IQ2_XXS: return repack_as<IQ2_XXS>(w, ne00, nrows, from, to, scratch);
    case id.IQ2_XS: return repack_as<IQ2_XS>(w, ne00, nrows, from, to, scratch);
    case id.IQ3_XXS: return repack_as<IQ3_XXS>(w, ne00, nrows, from, to, scratch);
    case id.IQ1_S: return repack_as<IQ1_S>(w, ne00, nrows, from, to, scratch);
    case id.IQ4_NL: return repack_as<IQ4_NL>(w, ne00, nrows, from, to, scratch);
    case id.IQ3_S: return repack_as<IQ3_S>(w, ne00, nrows, from, to, scratch);
    case id.IQ2_S: return repack_as<IQ2_S>(w, ne00, nrows, from, to, scratch);
    case id.IQ4_XS: return repack_as<IQ4_XS>(w, ne00, nrows, from, to, scratch);
    case id.IQ1_M: return repack_as<IQ1_M>(w, ne00, nrows, from, to, scratch);
    case id.BF16: return repack_as<BF16>(w, ne00, nrows, from, to, scratch);
    case id.TQ1_0: return repack_as<TQ1_0>(w, ne00, nrows, from, to, scratch);
    case id.TQ2_0: return repack_as<TQ2_0>(w, ne00, nrows, from, to, scratch);
    case id.MXFP4: return repack_as<MXFP4>(w, ne00, nrows, from, to, scratch);
    case id.NVFP4: return repack_as<NVFP4>(w, ne00, nrows, from, to, scratch);
    case id.Q1_0: return repack_as<Q1_0>(w, ne00, nrows, from, to, scratch);
    case id.Q2_0: return repack_as<Q2_0>(w, ne00, nrows, from, to, scratch);
    default: unreachable();
  }
  return 0;
}

/**
 * Unpacks row `row` of the packed tensor at w to ne00 f32 at y (get_rows of a tied token_embd): the bits of dequantize_row.
 * scratch: as for mul_mat_packed.
 */
export function packed_row(type: u32, w: usize, ne00: i32, row: i32, y: usize, scratch: usize): void {
  // prettier-ignore
  switch (type) {
    case id.F32: packed_row_as<F32>(w, ne00, row, y, scratch); return;
    case id.F16: packed_row_as<F16>(w, ne00, row, y, scratch); return;
    case id.Q4_0: packed_row_as<Q4_0>(w, ne00, row, y, scratch); return;
    case id.Q4_1: packed_row_as<Q4_1>(w, ne00, row, y, scratch); return;
    case id.Q5_0: packed_row_as<Q5_0>(w, ne00, row, y, scratch); return;
    case id.Q5_1: packed_row_as<Q5_1>(w, ne00, row, y, scratch); return;
    case id.Q8_0: packed_row_as<Q8_0>(w, ne00, row, y, scratch); return;
    case id.Q2_K: packed_row_as<Q2_K>(w, ne00, row, y, scratch); return;
    case id.Q3_K: packed_row_as<Q3_K>(w, ne00, row, y, scratch); return;
    case id.Q4_K: packed_row_as<Q4_K>(w, ne00, row, y, scratch); return;
    case id.Q5_K: packed_row_as<Q5_K>(w, ne00, row, y, scratch); return;
    case id.Q6_K: packed_row_as<Q6_K>(w, ne00, row, y, scratch); return;
    case id.IQ2_XXS: packed_row_as<IQ2_XXS>(w, ne00, row, y, scratch); return;
    case id.IQ2_XS: packed_row_as<IQ2_XS>(w, ne00, row, y, scratch); return;
    case id.IQ3_XXS: packed_row_as<IQ3_XXS>(w, ne00, row, y, scratch); return;
    case id.IQ1_S: packed_row_as<IQ1_S>(w, ne00, row, y, scratch); return;
    case id.IQ4_NL: packed_row_as<IQ4_NL>(w, ne00, row, y, scratch); return;
    case id.IQ3_S: packed_row_as<IQ3_S>(w, ne00, row, y, scratch); return;
    case id.IQ2_S: packed_row_as<IQ2_S>(w, ne00, row, y, scratch); return;
    case id.IQ4_XS: packed_row_as<IQ4_XS>(w, ne00, row, y, scratch); return;
    case id.IQ1_M: packed_row_as<IQ1_M>(w, ne00, row, y, scratch); return;
    case id.BF16: packed_row_as<BF16>(w, ne00, row, y, scratch); return;
    case id.TQ1_0: packed_row_as<TQ1_0>(w, ne00, row, y, scratch); return;
    case id.TQ2_0: packed_row_as<TQ2_0>(w, ne00, row, y, scratch); return;
    case id.MXFP4: packed_row_as<MXFP4>(w, ne00, row, y, scratch); return;
    case id.NVFP4: packed_row_as<NVFP4>(w, ne00, row, y, scratch); return;
    case id.Q1_0: packed_row_as<Q1_0>(w, ne00, row, y, scratch); return;
    case id.Q2_0: packed_row_as<Q2_0>(w, ne00, row, y, scratch); return;
    default: unreachable();
  }
}

/**
 * dst[places[col] * dst_stride + row * 4] = weights' row `row` . column `col` of activations, for rows [row0, row1) and ncols columns; strides are in bytes.
 * w: the packed tensor, rows of ne00. row0 is a multiple of 16, row1 one too or the tensor's number of rows. act: ncols columns of packed_act_type.
 * dst: f32. scratch: mul_mat_packed_scratch() bytes of this thread's own. places: an i32 for each column, or 0 where column col's place is col.
 * Each output has the same bits for any ncols, row0 and row1.
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
  // prettier-ignore
  switch (type) {
    case id.F32: mul_mat_packed_as<F32>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch, places); return;
    case id.F16: mul_mat_packed_as<F16>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch, places); return;
    case id.Q4_0: mul_mat_packed_as<Q4_0>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch, places); return;
    case id.Q4_1: mul_mat_packed_as<Q4_1>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch, places); return;
    case id.Q5_0: mul_mat_packed_as<Q5_0>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch, places); return;
    case id.Q5_1: mul_mat_packed_as<Q5_1>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch, places); return;
    case id.Q8_0: mul_mat_packed_as<Q8_0>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch, places); return;
    case id.Q2_K: mul_mat_packed_as<Q2_K>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch, places); return;
    case id.Q3_K: mul_mat_packed_as<Q3_K>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch, places); return;
    case id.Q4_K: mul_mat_packed_as<Q4_K>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch, places); return;
    case id.Q5_K: mul_mat_packed_as<Q5_K>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch, places); return;
    case id.Q6_K: mul_mat_packed_as<Q6_K>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch, places); return;
    case id.IQ2_XXS: mul_mat_packed_as<IQ2_XXS>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch, places); return;
    case id.IQ2_XS: mul_mat_packed_as<IQ2_XS>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch, places); return;
    case id.IQ3_XXS: mul_mat_packed_as<IQ3_XXS>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch, places); return;
    case id.IQ1_S: mul_mat_packed_as<IQ1_S>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch, places); return;
    case id.IQ4_NL: mul_mat_packed_as<IQ4_NL>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch, places); return;
    case id.IQ3_S: mul_mat_packed_as<IQ3_S>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch, places); return;
    case id.IQ2_S: mul_mat_packed_as<IQ2_S>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch, places); return;
    case id.IQ4_XS: mul_mat_packed_as<IQ4_XS>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch, places); return;
    case id.IQ1_M: mul_mat_packed_as<IQ1_M>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch, places); return;
    case id.BF16: mul_mat_packed_as<BF16>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch, places); return;
    case id.TQ1_0: mul_mat_packed_as<TQ1_0>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch, places); return;
    case id.TQ2_0: mul_mat_packed_as<TQ2_0>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch, places); return;
    case id.MXFP4: mul_mat_packed_as<MXFP4>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch, places); return;
    case id.NVFP4: mul_mat_packed_as<NVFP4>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch, places); return;
    case id.Q1_0: mul_mat_packed_as<Q1_0>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch, places); return;
    case id.Q2_0: mul_mat_packed_as<Q2_0>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch, places); return;
    default: unreachable();
  }
}
