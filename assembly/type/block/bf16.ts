/**
 * bf16: the upper half of an f32, 2 bytes an element, no block.
 *
 *   bit 15 sign | 14..7 exponent (bias 127) | 6..0 mantissa
 */
import { hsum_f32, madd } from '../../simd';

/** Loads four bf16 at p (8 bytes) as f32x4. */
@inline
function load_bf16x4(p: usize): v128 {
  return i32x4.shl(v128.load16x4_u(p), 16);
}

@inline
function load_bf16(p: usize): f32 {
  return reinterpret<f32>(load<u16>(p) << 16);
}

export function dequantize_row_bf16(x: usize, y: usize, k: i32): void {
  const end4 = x + (<usize>(k & ~3) << 1);
  const end = x + (<usize>k << 1);
  for (; x < end4; x += 8, y += 16) v128.store(y, load_bf16x4(x));
  for (; x < end; x += 2, y += 4) store<u32>(y, <u32>load<u16>(x) << 16);
}

/** Rounds to nearest even; a NaN becomes quiet and keeps its upper payload. */
export function quantize_row_bf16(x: usize, y: usize, k: i32): void {
  const end = x + (<usize>k << 2);
  for (; x < end; x += 4, y += 2) {
    const bits = load<u32>(x);
    const is_nan = (bits & 0x7fffffff) > 0x7f800000;
    store<u16>(y, <u16>(is_nan ? (bits >> 16) | 64 : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16));
  }
}

/**
 * bf16 weights . f32 activations. Four sums, as in all products of floats. AssemblyScript functions
 * return one value, so the sums are locals and the loop is written out here.
 */
export function vec_dot_bf16_f32(n: i32, x: usize, y: usize): f32 {
  let s0 = f32x4.splat(0);
  let s1 = f32x4.splat(0);
  let s2 = f32x4.splat(0);
  let s3 = f32x4.splat(0);
  const end16 = x + (<usize>(n & ~15) << 1);
  const end4 = x + (<usize>(n & ~3) << 1);
  const end = x + (<usize>n << 1);
  for (; x < end16; x += 32, y += 64) {
    s0 = madd(load_bf16x4(x), v128.load(y), s0);
    s1 = madd(load_bf16x4(x + 8), v128.load(y, 16), s1);
    s2 = madd(load_bf16x4(x + 16), v128.load(y, 32), s2);
    s3 = madd(load_bf16x4(x + 24), v128.load(y, 48), s3);
  }
  for (; x < end4; x += 8, y += 16) s0 = madd(load_bf16x4(x), v128.load(y), s0);
  let sum = hsum_f32(f32x4.add(f32x4.add(s0, s1), f32x4.add(s2, s3)));
  for (; x < end; x += 2, y += 4) sum += load_bf16(x) * load<f32>(y);
  return sum;
}
