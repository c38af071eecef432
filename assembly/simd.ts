/**
 * The SIMD vocabulary: kernels are written in these words and read like algebra.
 * The only file that asks which SIMD a build has (ASC_FEATURE_RELAXED_SIMD is static: one branch is compiled).
 */

/** a * b + c; one rounding where the build and the CPU fuse, two elsewhere. Never in quantise or dequantise. */
// @ts-ignore: decorator
@inline
export function madd(a: v128, b: v128, c: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) return f32x4.relaxed_madd(a, b, c);
  return f32x4.add(f32x4.mul(a, b), c);
}

/** Sum of four f32 lanes, always as (0 + 2) + (1 + 3). */
// @ts-ignore: decorator
@inline
export function hsum_f32(a: v128): f32 {
  const b = f32x4.add(a, i8x16.shuffle(a, a, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  return f32x4.extract_lane(b, 0) + f32x4.extract_lane(b, 1);
}

/** Sum of four i32 lanes. */
// @ts-ignore: decorator
@inline
export function hsum_i32(a: v128): i32 {
  const b = i32x4.add(a, i8x16.shuffle(a, a, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  return i32x4.extract_lane(b, 0) + i32x4.extract_lane(b, 1);
}

/** f16 bits -> f32, exact for every input, subnormals, infinities and NaN included. Scalar: for scales, not for rows. */
// @ts-ignore: decorator
@inline
export function f16_to_f32(h: u32): f32 {
  // Shift exponent and mantissa into place, then rescale by 2^112: the multiplication normalises subnormals.
  const bits = (h & 0x7fff) << 13;
  let r = reinterpret<u32>(reinterpret<f32>(bits) * reinterpret<f32>(0x77800000)); // 2^112
  if (bits >= 0x0f800000) r = bits | 0x7f800000; // exponent 31: Inf or NaN keeps its payload
  return reinterpret<f32>(r | ((h & 0x8000) << 16));
}

/** f32 -> f16 bits, round to nearest even, as ggml's GGML_FP32_TO_FP16 on every platform (NaN becomes a quiet NaN). */
// @ts-ignore: decorator
@inline
export function f32_to_f16(x: f32): u32 {
  const bits = reinterpret<u32>(x);
  const sign = (bits >> 16) & 0x8000;
  const abs = bits & 0x7fffffff;
  if (abs > 0x7f800000) return sign | 0x7e00;
  if (abs >= 0x47800000) return sign | 0x7c00; // >= 65536; 65520..65535 rounds up below
  if (abs < 0x38800000) {
    // Subnormal: adding 0.5 aligns the last f16 bit with the last f32 bit, and the addition rounds to nearest even.
    const r = reinterpret<u32>(reinterpret<f32>(abs) + reinterpret<f32>(0x3f000000)) - 0x3f000000;
    return sign | r;
  }
  const odd = (abs >> 13) & 1;
  return sign | ((abs - 0x38000000 + 0xfff + odd) >> 13);
}

/** Four f16 at `p` (8 bytes) -> f32x4, exact for finite values; Inf and NaN stay Inf and NaN. */
// @ts-ignore: decorator
@inline
export function load_f16x4(p: usize): v128 {
  return f16x4_to_f32x4(v128.load16x4_s(p));
}

/** Four sign-extended f16 in i32 lanes -> f32x4. */
// @ts-ignore: decorator
@inline
export function f16x4_to_f32x4(h: v128): v128 {
  const sign = v128.and(h, i32x4.splat(0x80000000));
  const mag = v128.and(i32x4.shl(h, 13), i32x4.splat(0x0fffe000));
  const scaled = f32x4.mul(mag, f32x4.splat(reinterpret<f32>(0x77800000))); // 2^112
  const special = v128.and(i32x4.ge_u(mag, i32x4.splat(0x0f800000)), i32x4.splat(0x7f800000));
  return v128.or(v128.or(scaled, special), sign);
}
