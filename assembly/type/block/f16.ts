/**
 * f16: IEEE half, 2 bytes an element, no block.
 *
 *   bit 15 sign | 14..10 exponent (bias 15) | 9..0 mantissa
 */
import { f16_to_f32, f32_to_f16, f32x4_to_f16x4, hsum_f32, load_f16x4, madd } from '../../simd';

export function dequantize_row_f16(x: usize, y: usize, k: i32): void {
  const end4 = x + (<usize>(k & ~3) << 1);
  const end = x + (<usize>k << 1);
  for (; x < end4; x += 8, y += 16) v128.store(y, load_f16x4(x));
  for (; x < end; x += 2, y += 4) store<f32>(y, f16_to_f32(load<u16>(x)));
}

export function quantize_row_f16(x: usize, y: usize, k: i32): void {
  const end8 = x + (<usize>(k & ~7) << 2);
  const end = x + (<usize>k << 2);
  for (; x < end8; x += 32, y += 16) {
    v128.store(y, i16x8.narrow_i32x4_u(f32x4_to_f16x4(v128.load(x)), f32x4_to_f16x4(v128.load(x, 16))));
  }
  for (; x < end; x += 4, y += 2) store<u16>(y, <u16>f32_to_f16(load<f32>(x)));
}

const WIDEN = memory.data<u32>([0x8fffe000, 0x77800000, 0x7c007c00], 4);

/** f16x4_to_f32x4 of finite numbers: bits shifted into place, times 2^112. */
@inline
function widen_finite(p: usize, mask: v128, scale: v128): v128 {
  return f32x4.mul(v128.and(i32x4.shl(v128.load16x4_s(p), 13), mask), scale);
}

/**
 * f16 weights . f32 activations. The activations are not rounded, so this is more exact than ggml's
 * f16 . f16. The loop assumes finite weights and keeps the largest exponent; a row with Inf or NaN
 * is summed again by a slower, exact loop.
 */
export function vec_dot_f16_f32(n: i32, x: usize, y: usize): f32 {
  const mask = v128.load32_splat(WIDEN);
  const scale = v128.load32_splat(WIDEN, 4);
  const exponent = v128.load32_splat(WIDEN, 8);
  let most = i32x4.splat(0);
  let s0 = f32x4.splat(0);
  let s1 = s0;
  let s2 = s0;
  let s3 = s0;
  let p = x;
  let q = y;
  for (const end16 = x + (<usize>(n & ~15) << 1); p < end16; p += 32, q += 64) {
    most = i16x8.max_u(most, v128.and(v128.load(p), exponent));
    most = i16x8.max_u(most, v128.and(v128.load(p, 16), exponent));
    s0 = madd(widen_finite(p, mask, scale), v128.load(q), s0);
    s1 = madd(widen_finite(p + 8, mask, scale), v128.load(q, 16), s1);
    s2 = madd(widen_finite(p + 16, mask, scale), v128.load(q, 32), s2);
    s3 = madd(widen_finite(p + 24, mask, scale), v128.load(q, 48), s3);
  }
  if (v128.any_true(i16x8.eq(most, exponent))) return vec_dot_f16_f32_any(n, x, y);
  return finish(x + (<usize>n << 1), p, q, f32x4.add(f32x4.add(s0, s1), f32x4.add(s2, s3)));
}

/** Adds the products of the elements from p to end to s, four at a time and then one by one. */
@inline
function finish(end: usize, p: usize, q: usize, s: v128): f32 {
  for (; p + 8 <= end; p += 8, q += 16) s = madd(load_f16x4(p), v128.load(q), s);
  let sum = hsum_f32(s);
  for (; p < end; p += 2, q += 4) sum += f16_to_f32(load<u16>(p)) * load<f32>(q);
  return sum;
}

/** For rows with Inf or NaN, so that the result is right for these too. */
function vec_dot_f16_f32_any(n: i32, x: usize, y: usize): f32 {
  return finish(x + (<usize>n << 1), x, y, f32x4.splat(0));
}
