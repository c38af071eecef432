/**
 * mxfp8_e4m3: MXFP8 with elements of 4 bits of exponent and 3 of mantissa (mxfp8.ts has the picture
 * of a block).
 */
import { dequantize_mxfp8, quantize_mxfp8 } from './mxfp8';

export function dequantize_row_mxfp8_e4m3(x: usize, y: usize, k: i32): void {
  dequantize_mxfp8(x, y, k, 3);
}

export function quantize_row_mxfp8_e4m3(x: usize, y: usize, k: i32): void {
  quantize_mxfp8(x, y, k, 3);
}
