/**
 * q8_1: 32 elements in 36 bytes, x = d * q, with s = d * sum(q) for products with formats that have
 * a minimum.
 *
 *   0        2        4                    36
 *   | d: f16 | s: f16 | qs: 32 x i8        |
 *
 * Only for activations: the vec_dot_type of q4_1 and q5_1.
 */
import { f16_to_f32, f32_to_f16 } from '../../simd';
import { block32_amax, quant16 } from './q8_0';
import { store_i8_scaled } from './words';

@inline
const BYTES: usize = 36;

export function dequantize_row_q8_1(x: usize, y: usize, k: i32): void {
  for (const end = y + (<usize>k << 2); y < end; x += BYTES, y += 128) {
    const d = f32x4.splat(f16_to_f32(load<u16>(x)));
    store_i8_scaled(y, v128.load(x, 4), d);
    store_i8_scaled(y + 64, v128.load(x, 20), d);
  }
}

/** Sum of sixteen i8 as four i32. */
@inline
export function sum16(q: v128): v128 {
  return i32x4.extadd_pairwise_i16x8_s(i16x8.extadd_pairwise_i8x16_s(q));
}

export function quantize_row_q8_1(x: usize, y: usize, k: i32): void {
  for (const end = x + (<usize>k << 2); x < end; x += 128, y += BYTES) {
    const d = block32_amax(x) / 127;
    const id: f32 = d != 0 ? 1 / d : 0;
    quant16(x, id, y + 4);
    quant16(x + 64, id, y + 20);
    const s = i32x4.add(sum16(v128.load(y, 4)), sum16(v128.load(y, 20)));
    const sum = i32x4.extract_lane(s, 0) + i32x4.extract_lane(s, 1) + i32x4.extract_lane(s, 2) + i32x4.extract_lane(s, 3);
    store<u16>(y, <u16>f32_to_f16(d));
    store<u16>(y, <u16>f32_to_f16(<f32>sum * d), 2);
  }
}
