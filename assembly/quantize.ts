/** From f32 to block data, by type id: rows of activations, and the chunks of llama-quantize. */
import { quantize_row_bf16 } from './block/bf16';
import { quantize_row_f16 } from './block/f16';
import { quantize_imatrix_iq4_nl, quantize_row_iq4_nl } from './block/iq4_nl';
import { quantize_imatrix_iq4_xs } from './block/iq4_xs';
import { quantize_row_mxfp4 } from './block/mxfp4';
import { quantize_imatrix_q2_K } from './block/q2_K';
import { quantize_imatrix_q3_K } from './block/q3_K';
import { quantize_imatrix_q4_0, quantize_row_q4_0 } from './block/q4_0';
import { quantize_imatrix_q4_1, quantize_row_q4_1 } from './block/q4_1';
import { quantize_imatrix_q4_K } from './block/q4_K';
import { quantize_imatrix_q5_0, quantize_row_q5_0 } from './block/q5_0';
import { quantize_imatrix_q5_1, quantize_row_q5_1 } from './block/q5_1';
import { quantize_imatrix_q5_K } from './block/q5_K';
import { quantize_imatrix_q6_K } from './block/q6_K';
import { quantize_row_q8_0 } from './block/q8_0';
import { quantize_row_q8_1 } from './block/q8_1';
import { quantize_row_q8_K } from './block/q8_K';
import { quantize_row_tq1_0 } from './block/tq1_0';
import { quantize_row_tq2_0 } from './block/tq2_0';
import { WORK_BYTES } from './block/work';
import {
  BF16, F16, F32, IQ4_NL, IQ4_XS, MXFP4, Q2_K, Q3_K, Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K, Q8_0, Q8_1, Q8_K, TQ1_0, TQ2_0, blck_size, type_size,
} from './type_ids';

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

/**
 * The same for what an integer product reads: a block with a NaN or an Inf gets the scale NaN, as in act.ts. ggml's own bytes, which files have,
 * pass over NaN, and a product would be a finite number that is wrong. (An activation beyond 8.3 million leaves q8_0's f16 scale: Inf, as in ggml.)
 */
export function quantize_activations(type: u32, x: usize, y: usize, k: i32): void {
  quantize_row(type, x, y, k);
  if (type != Q8_0 && type != Q8_1 && type != Q8_K) return;
  const block = <usize>blck_size(type) << 2, bytes = type_size(type), infinity = i32x4.splat(0x7f800000);
  for (const row = x + (<usize>k << 2); x != row; y += bytes) {
    let odd = i32x4.splat(0);
    for (const end = x + block; x != end; x += 16) odd = v128.or(odd, i32x4.eq(v128.and(v128.load(x), infinity), infinity));
    if (!v128.any_true(odd)) continue;
    if (type == Q8_K) store<f32>(y, NaN);
    else store<u16>(y, 0x7e00);
    if (type == Q8_1) store<u16>(y, 0x7e00, 2); // of d * sum, too
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

/** ggml's from_float, what cpy and set_rows write: as quantize_row, and the types that search for their scales. work: quantize_work_size() bytes, this thread's own. */
export function from_float(type: u32, x: usize, y: usize, k: i32, work: usize): void {
  // The one type whose quantiser of files tries more scales than that of rows.
  if (type == IQ4_NL) quantize_row_iq4_nl(x, y, k, work);
  else quantize_imatrix_row(type, x, y, k, 0, work);
}

/**
 * ggml_quantize_chunk: nrows rows of n_per_row f32 at src -> block data at dst, as llama-quantize writes it.
 * imatrix: n_per_row weights, the same for every row, or 0. work: quantize_work_size() bytes, this thread's own.
 */
export function quantize_chunk(type: u32, src: usize, dst: usize, nrows: i32, n_per_row: i32, imatrix: usize, work: usize): void {
  const row_size = <usize>(n_per_row / blck_size(type)) * type_size(type);
  for (; nrows > 0; nrows--, src += <usize>n_per_row << 2, dst += row_size) quantize_imatrix_row(type, src, dst, n_per_row, imatrix, work);
}
