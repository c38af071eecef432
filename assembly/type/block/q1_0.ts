/**
 * q1_0: 128 elements in 18 bytes, x = d if the element's bit is set, else -d.
 *
 *   0        2                                                  18
 *   | d: f16 | qs: 16 bytes, bit i of byte j is element 8j + i  |
 */
import { f16_to_f32, f32_to_f16, splat_u6 } from '../../simd';
import { negate_where, store_i8_scaled } from './words';

@inline
const QK: i32 = 128;
@inline
const BYTES: usize = 18;

/** Sixteen elements as 1 and -1. one: 1 in every byte. */
@inline
function signs(p: usize, one: v128): v128 {
  return negate_where(one, ~<u32>load<u16>(p));
}

export function dequantize_row_q1_0(x: usize, y: usize, k: i32): void {
  const one = splat_u6(1);
  for (const end = y + (<usize>k << 2); y < end; x += BYTES) {
    const d = f32x4.splat(f16_to_f32(load<u16>(x)));
    for (let j: usize = 0; j < 16; j += 2, y += 64) store_i8_scaled(y, signs(x + 2 + j, one), d);
  }
}

/**
 * Quantises k elements. d is the mean of |x|, summed in order. A zero of either sign counts as
 * positive, a NaN as negative.
 */
export function quantize_row_q1_0(x: usize, y: usize, k: i32): void {
  for (const end = x + (<usize>k << 2); x < end; y += BYTES) {
    let sum: f32 = 0;
    for (let j: usize = 0; j < 16; j++) {
      let bits = 0;
      for (let i = 0; i < 8; i++, x += 4) {
        const v = load<f32>(x);
        sum += abs(v);
        if (v >= 0) bits |= 1 << i;
      }
      store<u8>(y + j, <u8>bits, 2);
    }
    store<u16>(y, <u16>f32_to_f16(sum / <f32>QK));
  }
}
