/**
 * MXFP8 of the OCP Microscaling Formats specification 1.0: 32 elements of 8 bits and one E8M0 scale
 * in 33 bytes, x = 2^(e - 127) * element.
 *
 *   0       1                    33
 *   | e: u8 | qs: 32 elements    |       e = 255: all 32 are NaN
 *
 * Elements (section 5.3) are sign, exponent and mantissa. E4M3: up to 448; S.1111.111 is NaN, and
 * there is no Inf. E5M2: up to 57344, with Inf and NaN as in IEEE 754. One function serves both:
 * the number of mantissa bits decides the rest.
 *
 * Quantising is the conversion of section 6.3. The scale is 2^floor(log2(the largest magnitude))
 * divided by the largest power of two of an element. Elements are rounded to nearest, ties to even,
 * subnormal ones too; magnitudes above the largest element become the largest element. A NaN or Inf
 * in a block makes its scale NaN.
 */
import { hmax_f32 } from '../../simd';
import { low_bytes } from './words';

const BYTES: usize = 33;
const E8M0_NAN: u32 = 255;

/** Largest finite element, without its sign: S.1111.110 and S.11110.11. */
function largest(mantissa: i32): i32 {
  return mantissa == 3 ? 0x7e : 0x7b;
}

function bias(mantissa: i32): i32 {
  return mantissa == 3 ? 7 : 15;
}

/** 2^n, n in -126..127. */
@inline
function power(n: i32): f32 {
  return reinterpret<f32>((n + 127) << 23);
}

export function dequantize_mxfp8(x: usize, y: usize, k: i32, mantissa: i32): void {
  const shift = 23 - mantissa;
  // Elements are shifted into an f32's place, where their exponents are too small by this factor.
  // The product also normalises subnormal elements.
  const scale = f32x4.splat(power(127 - bias(mantissa)));
  const most = i32x4.splat(largest(mantissa));
  const special = i32x4.splat(0x7f800000);
  for (const end = y + (<usize>k << 2); y < end; x += BYTES) {
    const e = <u32>load<u8>(x);
    const d = f32x4.splat(reinterpret<f32>(e == E8M0_NAN ? 0x7fc00000 : max(e << 23, 0x00400000)));
    for (let i: usize = 1; i < BYTES; i += 4, y += 16) {
      const code = i32x4.extend_low_i16x8_u(i16x8.extend_low_i8x16_u(v128.load32_zero(x + i)));
      const magnitude = v128.and(code, i32x4.splat(0x7f));
      const bits = i32x4.shl(magnitude, shift);
      const value = v128.bitselect(v128.or(bits, special), f32x4.mul(bits, scale), i32x4.gt_s(magnitude, most));
      v128.store(y, f32x4.mul(v128.or(value, i32x4.shl(i32x4.sub(code, magnitude), 24)), d));
    }
  }
}

/** Elements for four f32 that are not NaN. */
function elements(x: v128, mantissa: i32): v128 {
  const shift = 23 - mantissa;
  const b = bias(mantissa);
  const bits = v128.and(x, i32x4.splat(0x7fffffff));
  // Adds half a step minus one, plus one if the last kept bit is odd: ties go to even.
  const odd = v128.and(i32x4.shr_u(bits, shift), i32x4.splat(1));
  const rounded = i32x4.add(i32x4.add(bits, i32x4.splat((1 << (shift - 1)) - 1)), odd);
  const normal = i32x4.sub(i32x4.shr_u(rounded, shift), i32x4.splat((127 - b) << mantissa));
  // Next to a number whose last bit is the smallest element, f32 addition rounds to multiples of
  // it.
  const magic = f32x4.splat(power(24 - b - mantissa));
  const subnormal = i32x4.sub(f32x4.add(bits, magic), magic);
  const magnitude = v128.bitselect(subnormal, normal, i32x4.lt_s(bits, i32x4.splat((128 - b) << 23)));
  return v128.or(i32x4.min_s(magnitude, i32x4.splat(largest(mantissa))), v128.and(i32x4.shr_u(x, 24), i32x4.splat(0x80)));
}

export function quantize_mxfp8(x: usize, y: usize, k: i32, mantissa: i32): void {
  for (const end = x + (<usize>k << 2); x < end; x += 128, y += BYTES) {
    let top = i32x4.splat(0);
    for (let i: usize = 0; i < 128; i += 16) top = i32x4.max_u(top, v128.and(v128.load(x + i), i32x4.splat(0x7fffffff)));
    if (v128.any_true(i32x4.ge_u(top, i32x4.splat(0x7f800000)))) {
      memory.fill(y, 0, BYTES);
      store<u8>(y, E8M0_NAN);
      continue;
    }
    // Exponent of the largest magnitude minus that of the largest element. Scales are at least
    // 2^-127.
    const e = max(<i32>(reinterpret<u32>(hmax_f32(top)) >> 23) - (largest(mantissa) >> mantissa) + bias(mantissa), 0);
    store<u8>(y, e);
    const by = f32x4.splat(power(127 - e));
    for (let i: usize = 0; i < 2; i++) {
      const p = x + (i << 6);
      v128.store(
        y + (i << 4),
        low_bytes(
          elements(f32x4.mul(v128.load(p), by), mantissa),
          elements(f32x4.mul(v128.load(p, 16), by), mantissa),
          elements(f32x4.mul(v128.load(p, 32), by), mantissa),
          elements(f32x4.mul(v128.load(p, 48), by), mantissa),
        ),
        1,
      );
    }
  }
}
