/** ggml's type_traits: which kernel a GGUF type id means. src/type-traits.ts holds the same ids with block sizes; a test compares them. */
import { dequantize_row_bf16, quantize_row_bf16, vec_dot_bf16_f32 } from './block/bf16';
import { dequantize_row_f16, quantize_row_f16, vec_dot_f16_f32 } from './block/f16';
import { vec_dot_f32 } from './block/f32';
import { dequantize_row_iq4_nl, quantize_imatrix_iq4_nl, vec_dot_iq4_nl_q8_0 } from './block/iq4_nl';
import { dequantize_row_iq4_xs, quantize_imatrix_iq4_xs, vec_dot_iq4_xs_q8_K } from './block/iq4_xs';
import { dequantize_row_mxfp4, quantize_row_mxfp4, vec_dot_mxfp4_q8_0 } from './block/mxfp4';
import { dequantize_row_q2_K, quantize_imatrix_q2_K, vec_dot_q2_K_q8_K } from './block/q2_K';
import { dequantize_row_q3_K, quantize_imatrix_q3_K, vec_dot_q3_K_q8_K } from './block/q3_K';
import { dequantize_row_q4_0, quantize_imatrix_q4_0, quantize_row_q4_0, vec_dot_q4_0_q8_0 } from './block/q4_0';
import { dequantize_row_q4_1, quantize_imatrix_q4_1, quantize_row_q4_1, vec_dot_q4_1_q8_1 } from './block/q4_1';
import { dequantize_row_q4_K, quantize_imatrix_q4_K, vec_dot_q4_K_q8_K } from './block/q4_K';
import { dequantize_row_q5_0, quantize_imatrix_q5_0, quantize_row_q5_0, vec_dot_q5_0_q8_0 } from './block/q5_0';
import { dequantize_row_q5_1, quantize_imatrix_q5_1, quantize_row_q5_1, vec_dot_q5_1_q8_1 } from './block/q5_1';
import { dequantize_row_q5_K, quantize_imatrix_q5_K, vec_dot_q5_K_q8_K } from './block/q5_K';
import { dequantize_row_q6_K, quantize_imatrix_q6_K, vec_dot_q6_K_q8_K } from './block/q6_K';
import { dequantize_row_q8_0, quantize_row_q8_0, vec_dot_q8_0_q8_0 } from './block/q8_0';
import { dequantize_row_q8_1, quantize_row_q8_1 } from './block/q8_1';
import { dequantize_row_q8_K, quantize_row_q8_K } from './block/q8_K';
import { dequantize_row_tq1_0, quantize_row_tq1_0, vec_dot_tq1_0_q8_K } from './block/tq1_0';
import { dequantize_row_tq2_0, quantize_row_tq2_0, vec_dot_tq2_0_q8_K } from './block/tq2_0';
import { WORK_BYTES } from './block/work';

export const F32: u32 = 0;
export const F16: u32 = 1;
export const Q4_0: u32 = 2;
export const Q4_1: u32 = 3;
export const Q5_0: u32 = 6;
export const Q5_1: u32 = 7;
export const Q8_0: u32 = 8;
export const Q8_1: u32 = 9;
export const Q2_K: u32 = 10;
export const Q3_K: u32 = 11;
export const Q4_K: u32 = 12;
export const Q5_K: u32 = 13;
export const Q6_K: u32 = 14;
export const Q8_K: u32 = 15;
export const IQ4_NL: u32 = 20;
export const IQ4_XS: u32 = 23;
export const BF16: u32 = 30;
export const TQ1_0: u32 = 34;
export const TQ2_0: u32 = 35;
export const MXFP4: u32 = 39;

// @ts-ignore: decorator
@inline
const NO_TYPE: u32 = 0xffffffff;

/** Elements of one block; 0 for a type without kernels. */
export function blck_size(type: u32): u32 {
  switch (type) {
    case F32: case F16: case BF16: return 1;
    case Q4_0: case Q4_1: case Q5_0: case Q5_1: case Q8_0: case Q8_1: case IQ4_NL: case MXFP4: return 32;
    case Q2_K: case Q3_K: case Q4_K: case Q5_K: case Q6_K: case Q8_K: case IQ4_XS: case TQ1_0: case TQ2_0: return 256;
    default: return 0;
  }
}

/** Bytes of one block; 0 for a type without kernels. */
export function type_size(type: u32): u32 {
  switch (type) {
    case F32: return 4;
    case F16: case BF16: return 2;
    case Q4_0: case IQ4_NL: return 18;
    case Q4_1: return 20;
    case Q5_0: return 22;
    case Q5_1: return 24;
    case Q8_0: return 34;
    case Q8_1: return 36;
    case Q2_K: return 84;
    case Q3_K: return 110;
    case Q4_K: return 144;
    case Q5_K: return 176;
    case Q6_K: return 210;
    case Q8_K: return 292;
    case IQ4_XS: return 136;
    case TQ1_0: return 54;
    case TQ2_0: return 66;
    case MXFP4: return 17;
    default: return 0;
  }
}

/**
 * The type `vec_dot` wants its activations in; 0xffffffff where there is no vec_dot.
 * f16 and bf16 weights meet f32 activations here (ggml rounds the activations to the weights' type first).
 */
export function vec_dot_type(type: u32): u32 {
  switch (type) {
    case F32: case F16: case BF16: return F32;
    case Q4_0: case Q5_0: case Q8_0: case IQ4_NL: case MXFP4: return Q8_0;
    case Q4_1: case Q5_1: return Q8_1;
    case Q2_K: case Q3_K: case Q4_K: case Q5_K: case Q6_K: case IQ4_XS: case TQ1_0: case TQ2_0: return Q8_K;
    default: return NO_TYPE;
  }
}

/** x . y: n elements of a row of weights of `type` with a row of vec_dot_type(type). */
export function vec_dot(type: u32, n: i32, x: usize, y: usize): f32 {
  switch (type) {
    case F32: return vec_dot_f32(n, x, y);
    case F16: return vec_dot_f16_f32(n, x, y);
    case BF16: return vec_dot_bf16_f32(n, x, y);
    case Q4_0: return vec_dot_q4_0_q8_0(n, x, y);
    case Q4_1: return vec_dot_q4_1_q8_1(n, x, y);
    case Q5_0: return vec_dot_q5_0_q8_0(n, x, y);
    case Q5_1: return vec_dot_q5_1_q8_1(n, x, y);
    case Q8_0: return vec_dot_q8_0_q8_0(n, x, y);
    case Q2_K: return vec_dot_q2_K_q8_K(n, x, y);
    case Q3_K: return vec_dot_q3_K_q8_K(n, x, y);
    case Q4_K: return vec_dot_q4_K_q8_K(n, x, y);
    case Q5_K: return vec_dot_q5_K_q8_K(n, x, y);
    case Q6_K: return vec_dot_q6_K_q8_K(n, x, y);
    case IQ4_NL: return vec_dot_iq4_nl_q8_0(n, x, y);
    case IQ4_XS: return vec_dot_iq4_xs_q8_K(n, x, y);
    case TQ1_0: return vec_dot_tq1_0_q8_K(n, x, y);
    case TQ2_0: return vec_dot_tq2_0_q8_K(n, x, y);
    case MXFP4: return vec_dot_mxfp4_q8_0(n, x, y);
    default: unreachable();
  }
  return 0;
}

/** k elements of block data at x -> f32 at y. */
export function dequantize_row(type: u32, x: usize, y: usize, k: i32): void {
  switch (type) {
    case F32: memory.copy(y, x, <usize>k << 2); return;
    case F16: dequantize_row_f16(x, y, k); return;
    case BF16: dequantize_row_bf16(x, y, k); return;
    case Q4_0: dequantize_row_q4_0(x, y, k); return;
    case Q4_1: dequantize_row_q4_1(x, y, k); return;
    case Q5_0: dequantize_row_q5_0(x, y, k); return;
    case Q5_1: dequantize_row_q5_1(x, y, k); return;
    case Q8_0: dequantize_row_q8_0(x, y, k); return;
    case Q8_1: dequantize_row_q8_1(x, y, k); return;
    case Q2_K: dequantize_row_q2_K(x, y, k); return;
    case Q3_K: dequantize_row_q3_K(x, y, k); return;
    case Q4_K: dequantize_row_q4_K(x, y, k); return;
    case Q5_K: dequantize_row_q5_K(x, y, k); return;
    case Q6_K: dequantize_row_q6_K(x, y, k); return;
    case Q8_K: dequantize_row_q8_K(x, y, k); return;
    case IQ4_NL: dequantize_row_iq4_nl(x, y, k); return;
    case IQ4_XS: dequantize_row_iq4_xs(x, y, k); return;
    case TQ1_0: dequantize_row_tq1_0(x, y, k); return;
    case TQ2_0: dequantize_row_tq2_0(x, y, k); return;
    case MXFP4: dequantize_row_mxfp4(x, y, k); return;
    default: unreachable();
  }
}

/** k f32 at x -> block data at y, for the types whose reference needs no search: every vec_dot_type, and the simple formats. */
export function quantize_row(type: u32, x: usize, y: usize, k: i32): void {
  switch (type) {
    case F32: memory.copy(y, x, <usize>k << 2); return;
    case F16: quantize_row_f16(x, y, k); return;
    case BF16: quantize_row_bf16(x, y, k); return;
    case Q4_0: quantize_row_q4_0(x, y, k); return;
    case Q4_1: quantize_row_q4_1(x, y, k); return;
    case Q5_0: quantize_row_q5_0(x, y, k); return;
    case Q5_1: quantize_row_q5_1(x, y, k); return;
    case Q8_0: quantize_row_q8_0(x, y, k); return;
    case Q8_1: quantize_row_q8_1(x, y, k); return;
    case Q8_K: quantize_row_q8_K(x, y, k); return;
    case TQ1_0: quantize_row_tq1_0(x, y, k); return;
    case TQ2_0: quantize_row_tq2_0(x, y, k); return;
    case MXFP4: quantize_row_mxfp4(x, y, k); return;
    default: unreachable();
  }
}

/** Bytes of the work area that quantize_chunk wants, one per thread. */
export function quantize_work_size(): usize {
  return WORK_BYTES;
}

/** One row; imatrix is its n_per_row weights or 0. */
function quantize_imatrix_row(type: u32, x: usize, y: usize, k: i32, imatrix: usize, work: usize): void {
  switch (type) {
    case Q2_K: quantize_imatrix_q2_K(x, y, k, imatrix, work); return;
    case Q3_K: quantize_imatrix_q3_K(x, y, k, imatrix, work); return;
    case Q4_K: quantize_imatrix_q4_K(x, y, k, imatrix, work); return;
    case Q5_K: quantize_imatrix_q5_K(x, y, k, imatrix, work); return;
    case Q6_K: quantize_imatrix_q6_K(x, y, k, imatrix, work); return;
    case IQ4_NL: quantize_imatrix_iq4_nl(x, y, k, imatrix, work); return;
    case IQ4_XS: quantize_imatrix_iq4_xs(x, y, k, imatrix, work); return;
  }
  if (imatrix) {
    switch (type) {
      case Q4_0: quantize_imatrix_q4_0(x, y, k, imatrix, work); return;
      case Q4_1: quantize_imatrix_q4_1(x, y, k, imatrix, work); return;
      case Q5_0: quantize_imatrix_q5_0(x, y, k, imatrix, work); return;
      case Q5_1: quantize_imatrix_q5_1(x, y, k, imatrix, work); return;
    }
  }
  quantize_row(type, x, y, k);
}

/**
 * ggml_quantize_chunk: nrows rows of n_per_row f32 at src -> block data at dst, as llama-quantize writes it.
 * imatrix: n_per_row weights, the same for every row, or 0. work: quantize_work_size() bytes, this thread's own.
 */
export function quantize_chunk(type: u32, src: usize, dst: usize, nrows: i32, n_per_row: i32, imatrix: usize, work: usize): void {
  const row_size = <usize>(n_per_row / blck_size(type)) * type_size(type);
  for (; nrows > 0; nrows--, src += <usize>n_per_row << 2, dst += row_size) quantize_imatrix_row(type, src, dst, n_per_row, imatrix, work);
}
