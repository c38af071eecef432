import { vec_dot_f32 } from './block/f32';
import { blck_size, type_size } from './ids';
import { dequantize_row } from './traits';

/**
 * x . y where y is f32, for types without a vec_dot of their own (IQ1, IQ2, IQ3) and for
 * comparisons. Up to 256 elements at a time are dequantised to work (1 KiB) and multiplied there;
 * the parts are added in order.
 */
export function vec_dot_dequantized(type: u32, n: i32, x: usize, y: usize, work: usize): f32 {
  const bytes = <usize>(256 / blck_size(type)) * type_size(type);
  let sum: f32 = 0;
  for (; n > 0; n -= 256, x += bytes, y += 1024) {
    const part = min(n, 256);
    dequantize_row(type, x, work, part);
    sum += vec_dot_f32(part, work, y);
  }
  return sum;
}
