/** ggml's type_traits: which kernel a type id means. */
import { dequantize_row_bf16, vec_dot_bf16_f32 } from './block/bf16';
import { dequantize_row_f16, vec_dot_f16_f32 } from './block/f16';
import { vec_dot_f32 } from './block/f32';
import { dequantize_row_q4_0, vec_dot_q4_0_q8_0 } from './block/q4_0';
import { dequantize_row_q8_0, quantize_row_q8_0, vec_dot_q8_0_q8_0 } from './block/q8_0';

export const F32: u32 = 0;
export const F16: u32 = 1;
export const Q4_0: u32 = 2;
export const Q8_0: u32 = 8;
export const BF16: u32 = 30;

export function vec_dot(type: u32, n: i32, x: usize, y: usize): f32 {
  if (type == Q4_0) return vec_dot_q4_0_q8_0(n, x, y);
  if (type == Q8_0) return vec_dot_q8_0_q8_0(n, x, y);
  if (type == F16) return vec_dot_f16_f32(n, x, y);
  if (type == BF16) return vec_dot_bf16_f32(n, x, y);
  return vec_dot_f32(n, x, y);
}

export function dequantize_row(type: u32, x: usize, y: usize, k: i32): void {
  if (type == Q4_0) dequantize_row_q4_0(x, y, k);
  else if (type == Q8_0) dequantize_row_q8_0(x, y, k);
  else if (type == F16) dequantize_row_f16(x, y, k);
  else if (type == BF16) dequantize_row_bf16(x, y, k);
  else memory.copy(y, x, <usize>k << 2);
}

export function quantize_row(type: u32, x: usize, y: usize, k: i32): void {
  if (type == Q8_0) quantize_row_q8_0(x, y, k);
  else unreachable();
}
