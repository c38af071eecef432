/**
 * mxfp8_e5m2: MXFP8 with elements of 5 bits of exponent and 2 of mantissa (mxfp8.ts has the picture
 * of a block).
 */
import { dequantize_mxfp8, quantize_mxfp8 } from './mxfp8';

export function dequantize_row_mxfp8_e5m2(x: usize, y: usize, k: i32): void {
  dequantize_mxfp8(x, y, k, 2);
}

export function quantize_row_mxfp8_e5m2(x: usize, y: usize, k: i32): void {
  quantize_mxfp8(x, y, k, 2);
}
