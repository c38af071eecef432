/**
 * Conversions between numbers and the bits of f16 and bf16: from f64 in one rounding, to nearest
 * even.
 */

const f64 = new Float64Array(1);
const words = new Uint32Array(f64.buffer);
const f32 = new Float32Array(1);
const bits32 = new Uint32Array(f32.buffer);

/** Exponent of the largest power of two that is not above a positive number. */
const exponentOf = (x: number): number => {
  f64[0] = x;
  return (words[1] >>> 20) - 1023;
};

/** Adding and subtracting this rounds a number to a whole one, ties to even. */
const ROUND = 2 ** 52;
const roundEven = (x: number): number => x + ROUND - ROUND;

const F16_LEAST = -14;
const F16_MANTISSA = 10;
const F16_OVERFLOW = 65520;
const BF16_LEAST = -126;
const BF16_MANTISSA = 7;

/** The bits of the nearest f16. */
export function toF16(x: number): number {
  const a = Math.abs(x);
  const sign = x < 0 || Object.is(x, -0) ? 0x8000 : 0;
  if (!(a < F16_OVERFLOW)) return Number.isNaN(x) ? 0x7e00 : sign | 0x7c00;
  const e = Math.max(exponentOf(a), F16_LEAST);
  // A carry out of the mantissa increments the exponent. Subnormals have the exponent 0 and no
  // leading bit.
  return sign | ((e - F16_LEAST) * 2 ** F16_MANTISSA + roundEven(a * 2 ** (F16_MANTISSA - e)));
}

export function fromF16(h: number): number {
  const sign = h & 0x8000 ? -1 : 1;
  const e = (h >> F16_MANTISSA) & 31;
  const m = h & 1023;
  if (e === 31) return m ? NaN : sign * Infinity;
  return sign * (e === 0 ? m * 2 ** (F16_LEAST - F16_MANTISSA) : (1024 + m) * 2 ** (e - 15 - F16_MANTISSA));
}

/** The bits of the nearest bf16. */
export function toBf16(x: number): number {
  if (Number.isNaN(x)) return 0x7fc0;
  const a = Math.abs(x);
  const ulp = a === Infinity ? 1 : 2 ** (Math.max(exponentOf(a), BF16_LEAST) - BF16_MANTISSA);
  // The rounded number fits f32, or is infinite there.
  f32[0] = Math.sign(x) < 0 || Object.is(x, -0) ? -roundEven(a / ulp) * ulp : roundEven(a / ulp) * ulp;
  return bits32[0] >>> 16;
}

export function fromBf16(b: number): number {
  bits32[0] = b << 16;
  return f32[0];
}
