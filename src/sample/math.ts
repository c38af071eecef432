/**
 * exp and log from additions, multiplications and divisions only. ECMAScript does not specify the
 * last bits of Math.exp and Math.log, so a seed could give different texts in V8 and
 * JavaScriptCore. IEEE 754 specifies every bit of the basic operations.
 */

const LN2 = 0.6931471805599453;
/**
 * LN2 in two parts; the first has 20 trailing zero bits, so that k * LN2_HIGH is exact for every
 * exponent k.
 */
const LN2_HIGH = Math.floor(LN2 * 2 ** 32) / 2 ** 32;
/** ln 2 - LN2_HIGH, from the decimal expansion of ln 2 beyond double precision. */
const LN2_LOW = LN2 - LN2_HIGH + 2.3190468138462996e-17;

/** 2^(k - 1074) for k = 0 .. 2097. Doubling is exact, also of subnormals. */
const POWERS_OF_TWO = /* @__PURE__ */ (() => {
  const powers = new Float64Array(2098);
  for (let k = 0, v = Number.MIN_VALUE; k < powers.length; k++, v *= 2) powers[k] = v;
  return powers;
})();

/** e^r for |r| <= ln2/2 by its series up to r^13/13!. The error is below 5e-18. */
function expSeries(r: number): number {
  let sum = 1;
  for (let n = 13; n > 0; n--) sum = 1 + (sum * r) / n;
  return sum;
}

/** 2^(j/32), j = 0 .. 31. */
const ROOTS_OF_TWO = /* @__PURE__ */ Float64Array.from({ length: 32 }, (_, j) =>
  j <= 16 ? expSeries((j * LN2) / 32) : 2 * expSeries(((j - 32) * LN2) / 32),
);

/**
 * e^x to within 2 ulp, with the same bits on every engine; 0 below -745.2, Infinity above 709.78,
 * NaN for NaN. x = (32 e + j) ln2/32 + r gives a power of two, a root of two from a table, and a
 * short series in r, |r| < 0.011. The table makes it about as fast as Math.exp in V8.
 */
export function exp(x: number): number {
  if (!(x > -745.2)) return x === x ? 0 : NaN;
  if (x > 709.78) return Infinity;
  const k = Math.floor(x * (32 / LN2) + 0.5);
  const r = x - k * (LN2_HIGH / 32) - k * (LN2_LOW / 32);
  const series = r * (1 + r * (1 / 2 + r * (1 / 6 + r * (1 / 24 + r * (1 / 120 + r * (1 / 720))))));
  const root = ROOTS_OF_TWO[k & 31];
  const scale = (k >> 5) + 1074;
  const scaled = root + root * series;
  return scale < 53 ? scaled * POWERS_OF_TWO[scale + 54] * 2 ** -54 : scaled * POWERS_OF_TWO[scale];
}

const bits = new DataView(new ArrayBuffer(8));

/**
 * Natural logarithm to within 2 ulp, with the same bits on every engine; -Infinity for 0, NaN for
 * negative numbers.
 */
export function log(x: number): number {
  if (!(x > 0)) return x === 0 ? -Infinity : NaN;
  if (x === Infinity) return Infinity;
  let k = 0;
  if (x < 2.2250738585072014e-308) {
    x *= 2 ** 54;
    k = -54;
  }
  bits.setFloat64(0, x);
  const high = bits.getUint32(0);
  k += (high >>> 20) - 1023;
  bits.setUint32(0, (high & 0xfffff) | 0x3ff00000);
  let m = bits.getFloat64(0);
  if (m > Math.SQRT2) {
    m *= 0.5;
    k++;
  }
  // log m = 2 artanh(s), |s| <= 0.172: the 12th power of s^2 is below 1e-18
  const s = (m - 1) / (m + 1);
  const z = s * s;
  const tail =
    z *
    (1 / 3 +
      z *
        (1 / 5 +
          z * (1 / 7 + z * (1 / 9 + z * (1 / 11 + z * (1 / 13 + z * (1 / 15 + z * (1 / 17 + z * (1 / 19 + z * (1 / 21 + z / 23))))))))));
  return k * LN2_HIGH + (2 * s + (2 * s * tail + k * LN2_LOW));
}

/** base^n for base >= 0, computed as exp(n log base); 0^0 is 1. */
export function pow(base: number, n: number): number {
  if (n === 0 || base === 1) return 1;
  return base === 0 ? 0 : exp(n * log(base));
}
