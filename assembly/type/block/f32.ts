/**
 * f32: 4 bytes an element, no block. Copies, and the product of two f32 rows.
 */
import { hsum_f32, madd } from '../../simd';

export function dequantize_row_f32(x: usize, y: usize, k: i32): void {
  memory.copy(y, x, <usize>k << 2);
}

export function quantize_row_f32(x: usize, y: usize, k: i32): void {
  memory.copy(y, x, <usize>k << 2);
}

/**
 * x . y of n f32. Four accumulators (a fused multiply-add has a latency of four cycles), 16
 * elements a round; then four at a time, then one by one. The order depends on n only.
 */
export function vec_dot_f32(n: i32, x: usize, y: usize): f32 {
  let s0 = f32x4.splat(0);
  let s1 = f32x4.splat(0);
  let s2 = f32x4.splat(0);
  let s3 = f32x4.splat(0);
  const end16 = x + (<usize>(n & ~15) << 2);
  const end4 = x + (<usize>(n & ~3) << 2);
  const end = x + (<usize>n << 2);
  for (; x < end16; x += 64, y += 64) {
    s0 = madd(v128.load(x), v128.load(y), s0);
    s1 = madd(v128.load(x, 16), v128.load(y, 16), s1);
    s2 = madd(v128.load(x, 32), v128.load(y, 32), s2);
    s3 = madd(v128.load(x, 48), v128.load(y, 48), s3);
  }
  for (; x < end4; x += 16, y += 16) s0 = madd(v128.load(x), v128.load(y), s0);
  let sum = hsum_f32(f32x4.add(f32x4.add(s0, s1), f32x4.add(s2, s3)));
  for (; x < end; x += 4, y += 4) sum += load<f32>(x) * load<f32>(y);
  return sum;
}
