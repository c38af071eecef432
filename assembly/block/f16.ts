/**
 * f16: IEEE half, 2 bytes an element, no block.
 *
 *   bit 15 sign | 14..10 exponent (bias 15) | 9..0 mantissa
 */
import { f16_to_f32, f32_to_f16, hsum_f32, load_f16x4, madd } from '../simd';

export function dequantize_row_f16(x: usize, y: usize, k: i32): void {
  const end4 = x + (<usize>(k & ~3) << 1);
  const end = x + (<usize>k << 1);
  for (; x < end4; x += 8, y += 16) v128.store(y, load_f16x4(x));
  for (; x < end; x += 2, y += 4) store<f32>(y, f16_to_f32(load<u16>(x)));
}

export function quantize_row_f16(x: usize, y: usize, k: i32): void {
  const end = x + (<usize>k << 2);
  for (; x < end; x += 4, y += 2) store<u16>(y, <u16>f32_to_f16(load<f32>(x)));
}

/** f16 . f16, summed in f32. Order as in vec_dot_f32. */
export function vec_dot_f16(n: i32, x: usize, y: usize): f32 {
  let s0 = f32x4.splat(0);
  let s1 = f32x4.splat(0);
  let s2 = f32x4.splat(0);
  let s3 = f32x4.splat(0);
  const end16 = x + (<usize>(n & ~15) << 1);
  const end4 = x + (<usize>(n & ~3) << 1);
  const end = x + (<usize>n << 1);
  for (; x < end16; x += 32, y += 32) {
    s0 = madd(load_f16x4(x), load_f16x4(y), s0);
    s1 = madd(load_f16x4(x + 8), load_f16x4(y + 8), s1);
    s2 = madd(load_f16x4(x + 16), load_f16x4(y + 16), s2);
    s3 = madd(load_f16x4(x + 24), load_f16x4(y + 24), s3);
  }
  for (; x < end4; x += 8, y += 8) s0 = madd(load_f16x4(x), load_f16x4(y), s0);
  let sum = hsum_f32(f32x4.add(f32x4.add(s0, s1), f32x4.add(s2, s3)));
  for (; x < end; x += 2, y += 2) sum += f16_to_f32(load<u16>(x)) * f16_to_f32(load<u16>(y));
  return sum;
}

/** f16 weights . f32 activations: no rounding of the activations, so closer to the truth than ggml's f16 . f16. */
export function vec_dot_f16_f32(n: i32, x: usize, y: usize): f32 {
  let s0 = f32x4.splat(0);
  let s1 = f32x4.splat(0);
  let s2 = f32x4.splat(0);
  let s3 = f32x4.splat(0);
  const end16 = x + (<usize>(n & ~15) << 1);
  const end4 = x + (<usize>(n & ~3) << 1);
  const end = x + (<usize>n << 1);
  for (; x < end16; x += 32, y += 64) {
    s0 = madd(load_f16x4(x), v128.load(y), s0);
    s1 = madd(load_f16x4(x + 8), v128.load(y, 16), s1);
    s2 = madd(load_f16x4(x + 16), v128.load(y, 32), s2);
    s3 = madd(load_f16x4(x + 24), v128.load(y, 48), s3);
  }
  for (; x < end4; x += 8, y += 16) s0 = madd(load_f16x4(x), v128.load(y), s0);
  let sum = hsum_f32(f32x4.add(f32x4.add(s0, s1), f32x4.add(s2, s3)));
  for (; x < end; x += 2, y += 4) sum += f16_to_f32(load<u16>(x)) * load<f32>(y);
  return sum;
}
