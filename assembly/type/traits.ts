// Generated from src/type-traits.ts by `npm run generate`: edit that table and run it again.
/** ggml's type_traits: dispatch from type ids to kernels. */
import { dequantize_row_f32, quantize_row_f32, vec_dot_f32 } from './block/f32';
import { dequantize_row_f16, quantize_row_f16, vec_dot_f16_f32 } from './block/f16';
import { dequantize_row_q4_0, quantize_imatrix_q4_0, quantize_row_q4_0, vec_dot_q4_0_q8_0 } from './block/q4_0';
import { dequantize_row_q4_1, quantize_imatrix_q4_1, quantize_row_q4_1, vec_dot_q4_1_q8_1 } from './block/q4_1';
import { dequantize_row_q5_0, quantize_imatrix_q5_0, quantize_row_q5_0, vec_dot_q5_0_q8_0 } from './block/q5_0';
import { dequantize_row_q5_1, quantize_imatrix_q5_1, quantize_row_q5_1, vec_dot_q5_1_q8_1 } from './block/q5_1';
import { dequantize_row_q8_0, quantize_row_q8_0, vec_dot_q8_0_q8_0 } from './block/q8_0';
import { dequantize_row_q8_1, quantize_row_q8_1 } from './block/q8_1';
import { dequantize_row_q2_K, quantize_imatrix_q2_K, quantize_row_q2_K, vec_dot_q2_K_q8_K } from './block/q2_K';
import { dequantize_row_q3_K, quantize_imatrix_q3_K, quantize_row_q3_K, vec_dot_q3_K_q8_K } from './block/q3_K';
import { dequantize_row_q4_K, quantize_imatrix_q4_K, quantize_row_q4_K, vec_dot_q4_K_q8_K } from './block/q4_K';
import { dequantize_row_q5_K, quantize_imatrix_q5_K, quantize_row_q5_K, vec_dot_q5_K_q8_K } from './block/q5_K';
import { dequantize_row_q6_K, quantize_imatrix_q6_K, quantize_row_q6_K, vec_dot_q6_K_q8_K } from './block/q6_K';
import { dequantize_row_q8_K, quantize_row_q8_K } from './block/q8_K';
import { dequantize_row_iq2_xxs } from './block/iq2_xxs';
import { dequantize_row_iq2_xs } from './block/iq2_xs';
import { dequantize_row_iq3_xxs } from './block/iq3_xxs';
import { dequantize_row_iq1_s } from './block/iq1_s';
import { dequantize_row_iq4_nl, quantize_imatrix_iq4_nl, quantize_row_iq4_nl, vec_dot_iq4_nl_q8_0 } from './block/iq4_nl';
import { dequantize_row_iq3_s } from './block/iq3_s';
import { dequantize_row_iq2_s } from './block/iq2_s';
import { dequantize_row_iq4_xs, quantize_imatrix_iq4_xs, quantize_row_iq4_xs, vec_dot_iq4_xs_q8_K } from './block/iq4_xs';
import { dequantize_row_iq1_m } from './block/iq1_m';
import { dequantize_row_bf16, quantize_row_bf16, vec_dot_bf16_f32 } from './block/bf16';
import { dequantize_row_tq1_0, quantize_row_tq1_0 } from './block/tq1_0';
import { dequantize_row_tq2_0, quantize_row_tq2_0 } from './block/tq2_0';
import { dequantize_row_mxfp4, quantize_row_mxfp4 } from './block/mxfp4';
import { dequantize_row_nvfp4, quantize_row_nvfp4 } from './block/nvfp4';
import { dequantize_row_q1_0, quantize_row_q1_0 } from './block/q1_0';
import { dequantize_row_q2_0, quantize_row_q2_0 } from './block/q2_0';
import { dequantize_row_mxfp8_e5m2, quantize_row_mxfp8_e5m2 } from './block/mxfp8_e5m2';
import { dequantize_row_mxfp8_e4m3, quantize_row_mxfp8_e4m3 } from './block/mxfp8_e4m3';
import {
  BF16,
  F16,
  F32,
  IQ1_M,
  IQ1_S,
  IQ2_S,
  IQ2_XS,
  IQ2_XXS,
  IQ3_S,
  IQ3_XXS,
  IQ4_NL,
  IQ4_XS,
  MXFP4,
  MXFP8_E4M3,
  MXFP8_E5M2,
  NVFP4,
  Q1_0,
  Q2_0,
  Q2_K,
  Q3_K,
  Q4_0,
  Q4_1,
  Q4_K,
  Q5_0,
  Q5_1,
  Q5_K,
  Q6_K,
  Q8_0,
  Q8_1,
  Q8_K,
  TQ1_0,
  TQ2_0,
} from './ids';

/** x . y of n elements: a row of weights of `type` and a row of vec_dot_type(type). */
export function vec_dot(type: u32, n: i32, x: usize, y: usize): f32 {
  // prettier-ignore
  switch (type) {
    case F32: return vec_dot_f32(n, x, y);
    case F16: return vec_dot_f16_f32(n, x, y);
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
    case BF16: return vec_dot_bf16_f32(n, x, y);
    default: unreachable();
  }
  return 0;
}

/** Converts k elements of block data at x to f32 at y. */
export function dequantize_row(type: u32, x: usize, y: usize, k: i32): void {
  // prettier-ignore
  switch (type) {
    case F32: dequantize_row_f32(x, y, k); return;
    case F16: dequantize_row_f16(x, y, k); return;
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
    case IQ2_XXS: dequantize_row_iq2_xxs(x, y, k); return;
    case IQ2_XS: dequantize_row_iq2_xs(x, y, k); return;
    case IQ3_XXS: dequantize_row_iq3_xxs(x, y, k); return;
    case IQ1_S: dequantize_row_iq1_s(x, y, k); return;
    case IQ4_NL: dequantize_row_iq4_nl(x, y, k); return;
    case IQ3_S: dequantize_row_iq3_s(x, y, k); return;
    case IQ2_S: dequantize_row_iq2_s(x, y, k); return;
    case IQ4_XS: dequantize_row_iq4_xs(x, y, k); return;
    case IQ1_M: dequantize_row_iq1_m(x, y, k); return;
    case BF16: dequantize_row_bf16(x, y, k); return;
    case TQ1_0: dequantize_row_tq1_0(x, y, k); return;
    case TQ2_0: dequantize_row_tq2_0(x, y, k); return;
    case MXFP4: dequantize_row_mxfp4(x, y, k); return;
    case NVFP4: dequantize_row_nvfp4(x, y, k); return;
    case Q1_0: dequantize_row_q1_0(x, y, k); return;
    case Q2_0: dequantize_row_q2_0(x, y, k); return;
    case MXFP8_E5M2: dequantize_row_mxfp8_e5m2(x, y, k); return;
    case MXFP8_E4M3: dequantize_row_mxfp8_e4m3(x, y, k); return;
    default: unreachable();
  }
}

/**
 * Converts k f32 at x to block data at y, for types whose reference needs no search: every
 * vec_dot_type, and the simple formats.
 */
export function quantize_row(type: u32, x: usize, y: usize, k: i32): void {
  // prettier-ignore
  switch (type) {
    case F32: quantize_row_f32(x, y, k); return;
    case F16: quantize_row_f16(x, y, k); return;
    case Q4_0: quantize_row_q4_0(x, y, k); return;
    case Q4_1: quantize_row_q4_1(x, y, k); return;
    case Q5_0: quantize_row_q5_0(x, y, k); return;
    case Q5_1: quantize_row_q5_1(x, y, k); return;
    case Q8_0: quantize_row_q8_0(x, y, k); return;
    case Q8_1: quantize_row_q8_1(x, y, k); return;
    case Q8_K: quantize_row_q8_K(x, y, k); return;
    case BF16: quantize_row_bf16(x, y, k); return;
    case TQ1_0: quantize_row_tq1_0(x, y, k); return;
    case TQ2_0: quantize_row_tq2_0(x, y, k); return;
    case MXFP4: quantize_row_mxfp4(x, y, k); return;
    case NVFP4: quantize_row_nvfp4(x, y, k); return;
    case Q1_0: quantize_row_q1_0(x, y, k); return;
    case Q2_0: quantize_row_q2_0(x, y, k); return;
    case MXFP8_E5M2: quantize_row_mxfp8_e5m2(x, y, k); return;
    case MXFP8_E4M3: quantize_row_mxfp8_e4m3(x, y, k); return;
    default: unreachable();
  }
}

/**
 * ggml's from_float, for cpy and set_rows: as quantize_row, and also for types that search for
 * their scales. work: quantize_work_size() bytes of this thread's own.
 */
export function from_float(type: u32, x: usize, y: usize, k: i32, work: usize): void {
  // prettier-ignore
  switch (type) {
    case Q2_K: quantize_row_q2_K(x, y, k, work); return;
    case Q3_K: quantize_row_q3_K(x, y, k, work); return;
    case Q4_K: quantize_row_q4_K(x, y, k, work); return;
    case Q5_K: quantize_row_q5_K(x, y, k, work); return;
    case Q6_K: quantize_row_q6_K(x, y, k, work); return;
    case IQ4_NL: quantize_row_iq4_nl(x, y, k, work); return;
    case IQ4_XS: quantize_row_iq4_xs(x, y, k, work); return;
    default: quantize_row(type, x, y, k);
  }
}

/** Quantises a row as in files. imatrix: its k weights, or 0; work: as for from_float. */
export function quantize_imatrix_row(type: u32, x: usize, y: usize, k: i32, imatrix: usize, work: usize): void {
  // prettier-ignore
  switch (type) {
    case Q4_0: if (imatrix) quantize_imatrix_q4_0(x, y, k, imatrix, work); else quantize_row_q4_0(x, y, k); return;
    case Q4_1: if (imatrix) quantize_imatrix_q4_1(x, y, k, imatrix, work); else quantize_row_q4_1(x, y, k); return;
    case Q5_0: if (imatrix) quantize_imatrix_q5_0(x, y, k, imatrix, work); else quantize_row_q5_0(x, y, k); return;
    case Q5_1: if (imatrix) quantize_imatrix_q5_1(x, y, k, imatrix, work); else quantize_row_q5_1(x, y, k); return;
    case Q2_K: quantize_imatrix_q2_K(x, y, k, imatrix, work); return;
    case Q3_K: quantize_imatrix_q3_K(x, y, k, imatrix, work); return;
    case Q4_K: quantize_imatrix_q4_K(x, y, k, imatrix, work); return;
    case Q5_K: quantize_imatrix_q5_K(x, y, k, imatrix, work); return;
    case Q6_K: quantize_imatrix_q6_K(x, y, k, imatrix, work); return;
    case IQ4_NL: quantize_imatrix_iq4_nl(x, y, k, imatrix, work); return;
    case IQ4_XS: quantize_imatrix_iq4_xs(x, y, k, imatrix, work); return;
    default: quantize_row(type, x, y, k);
  }
}
