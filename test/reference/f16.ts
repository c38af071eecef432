/**
 * IEEE half in plain arithmetic, for tests: slow, obvious, independent of the kernels' bit tricks.
 */

export function f16ToNumber(h: number): number {
  const sign = h & 0x8000 ? -1 : 1;
  const exponent = (h >> 10) & 31;
  const mantissa = h & 1023;
  if (exponent === 31) return mantissa ? NaN : sign * Infinity;
  return sign * (exponent === 0 ? mantissa * 2 ** -24 : (1024 + mantissa) * 2 ** (exponent - 25));
}

const roundTiesToEven = (x: number): number => {
  const below = Math.floor(x);
  const rest = x - below;
  return rest > 0.5 || (rest === 0.5 && below % 2 === 1) ? below + 1 : below;
};

/**
 * Nearest f16 bits, ties to even. Every NaN becomes 0x7e00 with its sign, which JavaScript cannot
 * see: pass `negative`.
 */
export function numberToF16(x: number, negative = x < 0 || Object.is(x, -0)): number {
  const sign = negative ? 0x8000 : 0;
  if (Number.isNaN(x)) return sign | 0x7e00;
  const a = Math.abs(x);
  if (a === Infinity) return sign | 0x7c00;
  const exponent = a === 0 ? -14 : Math.max(-14, Math.floor(Math.log2(a)));
  // 1024 .. 2048, or below 1024 for subnormals
  const steps = roundTiesToEven(a / 2 ** (exponent - 10));
  // a carry out of the mantissa increments the exponent
  const bits = (exponent + 14) * 1024 + steps;
  return sign | Math.min(bits, 0x7c00);
}
