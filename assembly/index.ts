/** The ABI: everything the host may call. Pointers in, pointers out; contracts are checked in src/wasm/abi.ts. */
export { begin, compute, serve } from './compute';
export { exp2_row } from './ops/attention_part';
export { attention_scratch } from './ops/attention_walk';
export { act_row_size, quantize_act } from './act';
export { is_packable, mul_mat_packed, mul_mat_packed_scratch, packed_act_type, packed_loop, packed_row, packed_rows, repack } from './packed';

/** First byte the host may use: everything below belongs to this instance's static data. */
export function heap_base(): usize {
  return __heap_base;
}

export { dequantize_row_f32, quantize_row_f32, vec_dot_f32 } from './block/f32';
export { dequantize_row_f16, quantize_row_f16, vec_dot_f16, vec_dot_f16_f32 } from './block/f16';
export { dequantize_row_bf16, quantize_row_bf16, vec_dot_bf16, vec_dot_bf16_f32 } from './block/bf16';
export { dequantize_row_q8_0, quantize_row_q8_0, vec_dot_q8_0_q8_0 } from './block/q8_0';
export { dequantize_row_q4_0, quantize_row_q4_0, vec_dot_q4_0_q8_0 } from './block/q4_0';
export { dequantize_row_q4_1, quantize_row_q4_1, vec_dot_q4_1_q8_1 } from './block/q4_1';
export { dequantize_row_q5_0, quantize_row_q5_0, vec_dot_q5_0_q8_0 } from './block/q5_0';
export { dequantize_row_q5_1, quantize_row_q5_1, vec_dot_q5_1_q8_1 } from './block/q5_1';
export { dequantize_row_q8_1, quantize_row_q8_1 } from './block/q8_1';
export { dequantize_row_q2_K, quantize_row_q2_K, vec_dot_q2_K_q8_K } from './block/q2_K';
export { dequantize_row_q3_K, quantize_row_q3_K, vec_dot_q3_K_q8_K } from './block/q3_K';
export { dequantize_row_q4_K, quantize_row_q4_K, vec_dot_q4_K_q8_K } from './block/q4_K';
export { dequantize_row_q5_K, quantize_row_q5_K, vec_dot_q5_K_q8_K } from './block/q5_K';
export { dequantize_row_q6_K, quantize_row_q6_K, vec_dot_q6_K_q8_K } from './block/q6_K';
export { dequantize_row_q8_K, quantize_row_q8_K } from './block/q8_K';
export { dequantize_row_iq4_nl, quantize_row_iq4_nl, vec_dot_iq4_nl_q8_0 } from './block/iq4_nl';
export { dequantize_row_iq1_m } from './block/iq1_m';
export { dequantize_row_iq1_s } from './block/iq1_s';
export { dequantize_row_iq2_s } from './block/iq2_s';
export { dequantize_row_iq2_xs } from './block/iq2_xs';
export { dequantize_row_iq2_xxs } from './block/iq2_xxs';
export { dequantize_row_iq3_s } from './block/iq3_s';
export { dequantize_row_iq3_xxs } from './block/iq3_xxs';
export { dequantize_row_iq4_xs, quantize_row_iq4_xs, vec_dot_iq4_xs_q8_K } from './block/iq4_xs';
export { dequantize_row_mxfp4, quantize_row_mxfp4, vec_dot_mxfp4_q8_0 } from './block/mxfp4';
export { dequantize_row_tq1_0, quantize_row_tq1_0, vec_dot_tq1_0_q8_K } from './block/tq1_0';
export { dequantize_row_tq2_0, quantize_row_tq2_0, vec_dot_tq2_0_q8_K } from './block/tq2_0';
export { blck_size, type_size } from './type_ids';
export { dequantize_row, vec_dot, vec_dot_dequantized, vec_dot_type } from './type_traits';
export { quantize_activations, quantize_chunk, quantize_row, quantize_work_size } from './quantize';
export { kl_divergence, pack_log_probs, sum_exp } from './log_softmax';
