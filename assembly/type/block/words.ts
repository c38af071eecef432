/**
 * SIMD functions of the block formats, in addition to simd.ts: rounding as in C and ggml, bytes
 * from lanes, codes to f32. The same in every build.
 */

/**
 * (int) of four f32. Numbers that do not fit (NaN, Inf, >= 2^31) give 0 here and INT_MIN on x86.
 * The low byte is 0 in both, and ggml's quantisers keep only that. C leaves the case undefined, but
 * ggml's files have this byte.
 */
@inline
export function trunc_i32x4(x: v128): v128 {
  const fits = i32x4.lt_u(v128.and(x, i32x4.splat(0x7fffffff)), i32x4.splat(0x4f000000));
  return v128.and(i32x4.trunc_sat_f32x4_s(x), fits);
}

/**
 * (int)((x - m) * id + more) of sixteen f32, low bytes. Not inlined: a copy has 300 bytes, and four
 * formats would have two each.
 */
export function codes16(x: usize, m: v128, id: v128, more: f32): v128 {
  const plus = f32x4.splat(more);
  return low_bytes(
    trunc_i32x4(f32x4.add(f32x4.mul(f32x4.sub(v128.load(x), m), id), plus)),
    trunc_i32x4(f32x4.add(f32x4.mul(f32x4.sub(v128.load(x, 16), m), id), plus)),
    trunc_i32x4(f32x4.add(f32x4.mul(f32x4.sub(v128.load(x, 32), m), id), plus)),
    trunc_i32x4(f32x4.add(f32x4.mul(f32x4.sub(v128.load(x, 48), m), id), plus)),
  );
}

/** Low bytes of four i32x4 as one i8x16. Wraps, never saturates. */
@inline
export function low_bytes(a: v128, b: v128, c: v128, d: v128): v128 {
  const ab = i8x16.shuffle(a, b, 0, 4, 8, 12, 16, 20, 24, 28, 0, 0, 0, 0, 0, 0, 0, 0);
  const cd = i8x16.shuffle(c, d, 0, 4, 8, 12, 16, 20, 24, 28, 0, 0, 0, 0, 0, 0, 0, 0);
  return i64x2.shuffle(ab, cd, 0, 2);
}

/**
 * All bits set in lanes that hold a NaN, tested on the bits: a compiler may optimise a comparison
 * of a float with itself away.
 */
@inline
export function is_nan_f32x4(a: v128): v128 {
  return i32x4.gt_u(v128.and(a, i32x4.splat(0x7fffffff)), i32x4.splat(0x7f800000));
}

/** Stores sixteen i8 times d as f32 at y (64 bytes). */
@inline
export function store_i8_scaled(y: usize, q: v128, d: v128): void {
  const lo = i16x8.extend_low_i8x16_s(q);
  const hi = i16x8.extend_high_i8x16_s(q);
  v128.store(y, f32x4.mul(f32x4.convert_i32x4_s(i32x4.extend_low_i16x8_s(lo)), d));
  v128.store(y, f32x4.mul(f32x4.convert_i32x4_s(i32x4.extend_high_i16x8_s(lo)), d), 16);
  v128.store(y, f32x4.mul(f32x4.convert_i32x4_s(i32x4.extend_low_i16x8_s(hi)), d), 32);
  v128.store(y, f32x4.mul(f32x4.convert_i32x4_s(i32x4.extend_high_i16x8_s(hi)), d), 48);
}

/** Sixteen bytes: 0xff if the bit of `bits` (16 are used) is set, else 0. */
@inline
export function spread_bits(bits: u32): v128 {
  const b = i16x8.splat(<i16>bits);
  const each = i8x16.shuffle(b, b, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
  const bit = i64x2.splat(0x8040201008040201);
  return i8x16.eq(v128.and(each, bit), bit);
}

/** Sixteen i8, negated if the bit of `signs` is set. */
@inline
export function negate_where(q: v128, signs: u32): v128 {
  const m = spread_bits(signs);
  return i8x16.sub(v128.xor(q, m), m);
}

/** Stores q * d + m of sixteen i8, with two roundings, as f32 at y (64 bytes). */
@inline
export function store_i8_scaled_plus(y: usize, q: v128, d: v128, m: v128): void {
  const lo = i16x8.extend_low_i8x16_s(q);
  const hi = i16x8.extend_high_i8x16_s(q);
  v128.store(y, f32x4.add(f32x4.mul(f32x4.convert_i32x4_s(i32x4.extend_low_i16x8_s(lo)), d), m));
  v128.store(y, f32x4.add(f32x4.mul(f32x4.convert_i32x4_s(i32x4.extend_high_i16x8_s(lo)), d), m), 16);
  v128.store(y, f32x4.add(f32x4.mul(f32x4.convert_i32x4_s(i32x4.extend_low_i16x8_s(hi)), d), m), 32);
  v128.store(y, f32x4.add(f32x4.mul(f32x4.convert_i32x4_s(i32x4.extend_high_i16x8_s(hi)), d), m), 48);
}

/**
 * ggml's nearest_int: adding 1.5 * 2^23 leaves the rounded value in the low bits. Ties go to even
 * for |x| <= 2^22. Beyond that the result is strange but defined, and the quantisers' output
 * depends on it for subnormal and huge rows.
 */
@inline
export function nearest_i32x4(x: v128): v128 {
  return i32x4.sub(v128.and(f32x4.add(x, f32x4.splat(12582912)), i32x4.splat(0x007fffff)), i32x4.splat(0x00400000));
}

@inline
export function nearest_int(x: f32): i32 {
  return (reinterpret<i32>(x + 12582912) & 0x007fffff) - 0x00400000;
}
