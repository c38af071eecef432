/** The ABI: everything the host may call. Pointers in, pointers out; contracts are checked in src/wasm/abi.ts. */
export { begin, compute, serve } from './compute';
export { attention_scratch } from './attention';

/** First byte the host may use: everything below belongs to this instance's static data. */
export function heap_base(): usize {
  return __heap_base;
}

export { dequantize_row_f32, quantize_row_f32, vec_dot_f32 } from './block/f32';
export { dequantize_row_f16, quantize_row_f16, vec_dot_f16, vec_dot_f16_f32 } from './block/f16';
export { dequantize_row_bf16, quantize_row_bf16, vec_dot_bf16, vec_dot_bf16_f32 } from './block/bf16';
export { dequantize_row_q8_0, quantize_row_q8_0, vec_dot_q8_0_q8_0 } from './block/q8_0';
export { dequantize_row_q4_0, quantize_row_q4_0, vec_dot_q4_0_q8_0 } from './block/q4_0';
