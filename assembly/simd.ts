/**
 * SIMD vocabulary of the kernels. Only this file asks the compiler which SIMD a build has:
 * ASC_FEATURE_RELAXED_SIMD is static, so one branch is compiled.
 */

/**
 * a * b + c. Rounds once if the build and the CPU fuse, else twice; so quantise and dequantise,
 * whose bits are ggml's, never use it.
 */
@inline
export function madd(a: v128, b: v128, c: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) return f32x4.relaxed_madd(a, b, c);
  return f32x4.add(f32x4.mul(a, b), c);
}

/**
 * a - b; `minus` holds -1 in all lanes. With relaxed SIMD this is a multiply-add, for loops whose
 * additions already fill the ports of the adder. Same bits either way.
 */
@inline
export function less(a: v128, b: v128, minus: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) return f32x4.relaxed_madd(b, minus, a);
  return f32x4.sub(a, b);
}

/**
 * (int) of four f32 with |x| < 2^22; larger numbers, Inf and NaN give undefined integers. Relaxed
 * SIMD has one instruction for it (the saturating conversion takes eight). Elsewhere, adding 1.5 *
 * 2^23 puts the integer into the mantissa.
 */
@inline
export function trunc_fitting(x: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) return i32x4.relaxed_trunc_f32x4_s(x);
  return i32x4.sub(f32x4.add(f32x4.trunc(x), f32x4.splat(12582912)), i32x4.splat(0x4b400000));
}

/**
 * Eight f32 with |x| < 2^21 as i16, rounded to nearest even and saturated. Adding 1.5 * 2^23 leaves
 * the integer in the mantissa.
 */
@inline
export function f32_to_i16x8(a: v128, b: v128): v128 {
  const magic = f32x4.splat(12582912);
  const bits = i32x4.splat(0x4b400000);
  return i16x8.narrow_i32x4_s(i32x4.sub(f32x4.add(a, magic), bits), i32x4.sub(f32x4.add(b, magic), bits));
}

/**
 * True if the build has the relaxed i8 x i7 dot product with i16 sums of pairs. Other builds
 * multiply i16 x i16 with i32 sums of pairs (dot.ts). Static.
 */
export const HAS_RELAXED_DOT: bool = ASC_FEATURE_RELAXED_SIMD != 0;
/**
 * True in the dotadd builds (asconfig.json), for CPUs that have the relaxed dot-add with i32 sums
 * as an instruction. Static.
 */
export const HAS_DOT_ADD: bool = isDefined(DOT_ADD);
/** True if the dot of the packed kernels returns i16 sums of pairs, not added up. Static. */
export const HAS_PAIR_DOT: bool = HAS_RELAXED_DOT && !HAS_DOT_ADD;

/** Sum of four f32 lanes, always in the order (0 + 2) + (1 + 3). */
@inline
export function hsum_f32(a: v128): f32 {
  const b = f32x4.add(a, i8x16.shuffle(a, a, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  return f32x4.extract_lane(b, 0) + f32x4.extract_lane(b, 1);
}

/** Sum of four i32 lanes. */
@inline
export function hsum_i32(a: v128): i32 {
  const b = i32x4.add(a, i8x16.shuffle(a, a, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  return i32x4.extract_lane(b, 0) + i32x4.extract_lane(b, 1);
}

/** Largest of four f32 lanes. No lane may be NaN. */
@inline
export function hmax_f32(a: v128): f32 {
  const b = f32x4.pmax(a, i8x16.shuffle(a, a, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  const x = f32x4.extract_lane(b, 0);
  const y = f32x4.extract_lane(b, 1);
  return x < y ? y : x;
}

/**
 * C's roundf: half away from zero. trunc(x + 0.5) would round 0.49999997 to 1, and nearest rounds
 * 2.5 to 2.
 */
@inline
export function round_f32x4(x: v128): v128 {
  const t = f32x4.trunc(x);
  const half = f32x4.ge(f32x4.abs(f32x4.sub(x, t)), f32x4.splat(0.5));
  const one = v128.or(v128.and(x, i32x4.splat(0x80000000)), f32x4.splat(1)); // +-1 with the sign of x
  return f32x4.add(t, v128.and(half, one));
}

/**
 * f16 bits to f32. Exact for every input: subnormals, infinities and NaN included. Scalar: for
 * scales, not for rows.
 */
@inline
export function f16_to_f32(h: u32): f32 {
  // Shift sign, exponent and mantissa into place, then multiply by 2^112, which normalises
  // subnormals.
  const x = <u32>(<i32>(h << 16) >> 3) & 0x8fffe000;
  if ((h & 0x7c00) == 0x7c00) return reinterpret<f32>(x | 0x7f800000); // exponent 31: Inf or NaN keeps its payload
  return reinterpret<f32>(x) * reinterpret<f32>(0x77800000); // 2^112
}

/**
 * f32 to f16 bits, round to nearest even, as ggml's GGML_FP32_TO_FP16 on every platform (NaN
 * becomes a quiet NaN).
 */
@inline
export function f32_to_f16(x: f32): u32 {
  const bits = reinterpret<u32>(x);
  const sign = (bits >> 16) & 0x8000;
  const abs = bits & 0x7fffffff;
  if (abs > 0x7f800000) return sign | 0x7e00;
  if (abs >= 0x47800000) return sign | 0x7c00; // >= 65536; the last line rounds 65520..65535 up to Inf
  if (abs < 0x38800000) {
    // Subnormal: adding 0.5 aligns the last f16 bit with the last f32 bit, and the addition rounds
    // to nearest even.
    const r = reinterpret<u32>(reinterpret<f32>(abs) + reinterpret<f32>(0x3f000000)) - 0x3f000000;
    return sign | r;
  }
  const odd = (abs >> 13) & 1;
  return sign | ((abs - 0x38000000 + 0xfff + odd) >> 13);
}

/**
 * Constants of f32x4_to_f16x4, each as four bytes. Loops load them once and keep them in registers:
 * V8 builds a v128 constant at every use.
 */
const TO_F16 = memory.data<u32>([0x7fffffff, 0x38000000 - 0xfff, 0x38800000, 0x3f000000, 0x47800000, 0x7c00, 0x7f800000, 0x200, 0x8000], 4);

/**
 * f32_to_f16 of four f32, in the low halves of i32 lanes. Inlined into a loop, it loads its
 * constants once.
 */
@inline
export function f32x4_to_f16x4(x: v128): v128 {
  const half = v128.load32_splat(TO_F16, 12);
  const infinite = v128.load32_splat(TO_F16, 20);
  const abs = v128.and(x, v128.load32_splat(TO_F16));
  const odd = i32x4.shr_u(i32x4.shl(abs, 18), 31);
  const normal = i32x4.shr_u(i32x4.add(i32x4.sub(abs, v128.load32_splat(TO_F16, 4)), odd), 13);
  const subnormal = i32x4.sub(f32x4.add(abs, half), half);
  let r = v128.bitselect(subnormal, normal, i32x4.lt_s(abs, v128.load32_splat(TO_F16, 8)));
  r = v128.bitselect(infinite, r, i32x4.ge_s(abs, v128.load32_splat(TO_F16, 16)));
  const quiet = v128.and(i32x4.gt_s(abs, v128.load32_splat(TO_F16, 24)), v128.load32_splat(TO_F16, 28));
  return v128.or(v128.or(r, quiet), v128.and(i32x4.shr_u(x, 16), v128.load32_splat(TO_F16, 32)));
}

/**
 * Loads four f16 at `p` (8 bytes) as f32x4. Exact for finite values; Inf and NaN stay Inf and NaN.
 */
@inline
export function load_f16x4(p: usize): v128 {
  return f16x4_to_f32x4(v128.load16x4_s(p));
}

/** Converts four sign-extended f16 in i32 lanes to f32x4. */
@inline
export function f16x4_to_f32x4(h: v128): v128 {
  const x = v128.and(i32x4.shl(h, 13), i32x4.splat(0x8fffe000));
  const scaled = f32x4.mul(x, f32x4.splat(reinterpret<f32>(0x77800000))); // 2^112
  const special = i32x4.gt_s(v128.and(x, i32x4.splat(0x7fffffff)), i32x4.splat(0x0f7fffff)); // exponent 31
  return v128.or(scaled, v128.and(special, i32x4.splat(0x7f800000)));
}

// ---- Integer products of the block formats: exact in every build ----

const SMALL = memory.data<u8>([
  0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36,
  37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63,
]);

const ONES = memory.data<i16>([1]);

/**
 * A number 0..63 in all sixteen bytes, for loops that keep it in a register. It is loaded from
 * memory because V8 builds a v128 constant at every use, in three instructions.
 */
@inline
export function splat_u6(byte: usize): v128 {
  return v128.load8_splat(SMALL + byte);
}

/** Eight i16 ones, for loops that keep them in a register. */
@inline
export function splat_ones(): v128 {
  return v128.load16_splat(ONES);
}

/**
 * a . b of sixteen i8 each, of any value, as four i32 sums. (The functions below differ in which
 * elements a lane sums.)
 */
@inline
export function dot_i8(a: v128, b: v128): v128 {
  return i32x4.add(
    i32x4.dot_i16x8_s(i16x8.extend_low_i8x16_s(a), i16x8.extend_low_i8x16_s(b)),
    i32x4.dot_i16x8_s(i16x8.extend_high_i8x16_s(a), i16x8.extend_high_i8x16_s(b)),
  );
}

/**
 * u0 . s0 + u1 . s1 as four i32 sums, u in 0..63. Relaxed: the sums of both pairs share one i16, 2
 * * 2 * 63 * 128 = 32256.
 */
@inline
export function dot2_u6(u0: v128, s0: v128, u1: v128, s1: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) {
    return i32x4.extadd_pairwise_i16x8_s(i16x8.add(i16x8.relaxed_dot_i8x16_i7x16_s(s0, u0), i16x8.relaxed_dot_i8x16_i7x16_s(s1, u1)));
  }
  return i32x4.add(dot_i8(u0, s0), dot_i8(u1, s1));
}

/**
 * (q0 - offset) . s0 + (q1 - offset) . s1 as four i32 sums, q and offset in 0..63.
 *
 * Relaxed: the dot multiplies the unsigned codes, and the offset's product is subtracted in i16,
 * where only the result has to fit (2 * 2 * 63 * 128).
 */
@inline
export function dot2_u6_offset(q0: v128, s0: v128, q1: v128, s1: v128, offset: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) {
    const dot = i16x8.add(i16x8.relaxed_dot_i8x16_i7x16_s(s0, q0), i16x8.relaxed_dot_i8x16_i7x16_s(s1, q1));
    const sum = i16x8.add(i16x8.relaxed_dot_i8x16_i7x16_s(s0, offset), i16x8.relaxed_dot_i8x16_i7x16_s(s1, offset));
    return i32x4.extadd_pairwise_i16x8_s(i16x8.sub(dot, sum));
  }
  return i32x4.add(dot_i8(i8x16.sub(q0, offset), s0), dot_i8(i8x16.sub(q1, offset), s1));
}

/** table[i] for sixteen indices 0..15; 0 for 128..255, undefined for 16..127. */
@inline
export function lookup16(table: v128, i: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) return i8x16.relaxed_swizzle(table, i);
  return i8x16.swizzle(table, i);
}

// ---- Products of the block formats with scales inside a block ----

/**
 * scale * (u . s) of sixteen elements as four i32 sums: u in 0..63, s any i8, scale one i16 of
 * -128..127 in all lanes. The instruction that adds the pairs also multiplies by the scale.
 */
@inline
export function dot_u6_scaled(u: v128, s: v128, scale: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) return i32x4.dot_i16x8_s(i16x8.relaxed_dot_i8x16_i7x16_s(s, u), scale);
  return i32x4.add(
    i32x4.dot_i16x8_s(i16x8.mul(i16x8.extend_low_i8x16_s(u), scale), i16x8.extend_low_i8x16_s(s)),
    i32x4.dot_i16x8_s(i16x8.mul(i16x8.extend_high_i8x16_s(u), scale), i16x8.extend_high_i8x16_s(s)),
  );
}

/**
 * scale * (u0 . s0 + u1 . s1), as dot_u6_scaled. Relaxed: the i16 sum of both is at most 2 * 2 * 63
 * * 128 = 32256.
 */
@inline
export function dot2_u6_scaled(u0: v128, s0: v128, u1: v128, s1: v128, scale: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) {
    return i32x4.dot_i16x8_s(i16x8.add(i16x8.relaxed_dot_i8x16_i7x16_s(s0, u0), i16x8.relaxed_dot_i8x16_i7x16_s(s1, u1)), scale);
  }
  return i32x4.add(dot_u6_scaled(u0, s0, scale), dot_u6_scaled(u1, s1, scale));
}
