/** Python's arithmetic: ints of any size, floats, and the text of both. */
import { Float, isInt, isNumber, JinjaError, typeName, type Value } from './values.ts';

export type Num = number | bigint | boolean | Float;
type Int = number | bigint;

/** Limit of ints. Python writes and reads at most 4300 digits, which is about as many. */
const MAX_BITS = 16_384n;
const MAX_INT = 1n << MAX_BITS;

/**
 * The int in its canonical form: a number if that is exact, else a bigint.
 * @throws JinjaError beyond MAX_BITS, as arithmetic would take long
 */
export function intOf(value: bigint): Int {
  if (value > MAX_INT || value < -MAX_INT) throw new JinjaError(`an integer of more than ${MAX_BITS} bits`);
  const small = Number(value);
  return Number.isSafeInteger(small) ? small : value;
}

export function toFloat(value: Num): number {
  return value instanceof Float ? value.value : Number(value);
}

const divisor = (right: Num): Num => {
  if (toFloat(right) === 0) throw new JinjaError('division by zero');
  return right;
};

/** Applies an operation as floats if one operand is a float, else as ints. */
function both(left: Num, right: Num, floats: (a: number, b: number) => number, ints: (a: bigint, b: bigint) => bigint): Int | Float {
  if (left instanceof Float || right instanceof Float) return new Float(floats(toFloat(left), toFloat(right)));
  return intOf(ints(BigInt(left), BigInt(right)));
}

/** Floor division of ints that are exact as numbers. */
const floorDiv = (a: number, b: number): number => (a - floorMod(a, b)) / b;

/** Modulo with the sign of the divisor. */
function floorMod(a: number, b: number): number {
  if (!Number.isFinite(b) && Number.isFinite(a)) return a === 0 || a < 0 === b < 0 ? a : b;
  const rest = a % b;
  return rest !== 0 && rest < 0 !== b < 0 ? rest + b : rest === 0 && b < 0 ? -0 : rest + 0;
}

function bigFloorDiv(a: bigint, b: bigint): bigint {
  return a / b - (a % b !== 0n && a < 0n !== b < 0n ? 1n : 0n);
}

function power(left: Num, right: Num): Int | Float {
  if (left instanceof Float || right instanceof Float || Number(right) < 0) {
    const [a, b] = [toFloat(left), toFloat(right)];
    if (a === 0 && b < 0) throw new JinjaError('zero cannot be raised to a negative power');
    if (a < 0 && !Number.isInteger(b))
      throw new JinjaError('a negative number cannot be raised to a fraction: complex numbers are not supported');
    const result = a ** b;
    if (!Number.isFinite(result) && Number.isFinite(a) && Number.isFinite(b)) throw new JinjaError('the result is too large for a float');
    return new Float(result);
  }
  const [a, b] = [BigInt(left), BigInt(right)];
  const bits = BigInt((a < 0n ? -a : a).toString(2).length - 1);
  if (bits * b > MAX_BITS || (bits === 0n && b > MAX_INT)) throw new JinjaError(`an integer of more than ${MAX_BITS} bits`);
  return intOf(a ** b);
}

const operations: Readonly<Record<string, (left: Num, right: Num) => Int | Float>> = {
  '+': (a, b) =>
    both(
      a,
      b,
      (x, y) => x + y,
      (x, y) => x + y,
    ),
  '-': (a, b) =>
    both(
      a,
      b,
      (x, y) => x - y,
      (x, y) => x - y,
    ),
  '*': (a, b) =>
    both(
      a,
      b,
      (x, y) => x * y,
      (x, y) => x * y,
    ),
  '/': (a, b) => new Float(trueDivision(a, divisor(b))),
  '//': (a, b) => both(a, divisor(b), floatFloorDiv, bigFloorDiv),
  '%': (a, b) => both(a, divisor(b), floorMod, (x, y) => x - bigFloorDiv(x, y) * y),
  '**': power,
};

/** As in CPython, computed from the exact remainder, so that 1 // 0.1 is 9. */
function floatFloorDiv(a: number, b: number): number {
  const quotient = (a - floorMod(a, b)) / b;
  const floor = Math.floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

function trueDivision(left: Num, right: Num): number {
  if (left instanceof Float || right instanceof Float || (typeof left !== 'bigint' && typeof right !== 'bigint'))
    return toFloat(left) / toFloat(right);
  // Ints beyond 2^53 are divided exactly and rounded once: keep at least 65 bits of the quotient,
  // and a last bit that is 1 if there is a remainder.
  const [a, b] = [BigInt(left), BigInt(right)];
  const shift = BigInt(Math.max(0, 66 - (a.toString(2).length - b.toString(2).length)));
  const quotient = (a << shift) / b;
  const rest = (a << shift) % b === 0n ? 0n : 1n;
  const result = Number((quotient << 1n) | rest) / 2 ** (Number(shift) + 1);
  if (!Number.isFinite(result)) throw new JinjaError('integer division result too large for a float');
  return result;
}

/** @returns undefined if the operands are not both numbers */
export function arithmetic(operator: string, left: Value, right: Value): Value | undefined {
  if (typeof left === 'number' && typeof right === 'number' && right !== 0) {
    const result =
      operator === '+'
        ? left + right
        : operator === '-'
          ? left - right
          : operator === '*'
            ? left * right
            : operator === '//'
              ? floorDiv(left, right)
              : operator === '%'
                ? floorMod(left, right) + 0
                : NaN;
    if (Number.isSafeInteger(result)) return result + 0;
  }
  return isNumber(left) && isNumber(right) ? operations[operator](left, right) : undefined;
}

/** `+x` and `-x`. */
export function signed(operator: string, value: Value): Value {
  if (!isNumber(value)) throw new JinjaError(`bad operand type for unary ${operator}: '${typeName(value)}'`);
  if (operator === '+') return value instanceof Float ? value : intOf(BigInt(value));
  return value instanceof Float ? new Float(-value.value) : intOf(-BigInt(value));
}

/** Negative, zero or positive; NaN if the numbers have no order. */
export function compareNumbers(left: Num, right: Num): number {
  const [a, b] = [left instanceof Float ? left.value : left, right instanceof Float ? right.value : right];
  return a < b ? -1 : a > b ? 1 : a == b ? 0 : NaN;
}

/** An index or a count, as by Python's __index__. Beyond 2^53 its exact value does not matter. */
export function indexOf(value: Value): number | undefined {
  return isInt(value) ? Number(value) : undefined;
}

/** repr() of a float. */
export function floatText(value: number): string {
  if (Number.isNaN(value)) return 'nan';
  if (!Number.isFinite(value)) return value < 0 ? '-inf' : 'inf';
  const sign = value < 0 || Object.is(value, -0) ? '-' : '';
  const [mantissa, power] = Math.abs(value).toExponential().split('e');
  const digits = mantissa.replace('.', '');
  const exponent = Number(power);
  if (exponent < -4 || exponent >= 16) {
    const two = String(Math.abs(exponent)).padStart(2, '0');
    return `${sign}${digits[0]}${digits.length > 1 ? `.${digits.slice(1)}` : ''}e${exponent < 0 ? '-' : '+'}${two}`;
  }
  if (exponent < 0) return `${sign}0.${'0'.repeat(-exponent - 1)}${digits}`;
  const whole = digits.slice(0, exponent + 1).padEnd(exponent + 1, '0');
  return `${sign}${whole}.${digits.slice(exponent + 1) || '0'}`;
}

/** Converts a float to an int, dropping its fraction. */
export function truncated(value: number): Int {
  if (!Number.isFinite(value)) throw new JinjaError('cannot convert a float that is not finite to an integer');
  return intOf(BigInt(Math.trunc(value)));
}

/**
 * int(text, base).
 * @returns undefined if the text is not an int
 */
export function parseInt_(text: string, base: number): Int | undefined {
  const match = /^([-+]?)(?:0([xob])_?)?([0-9a-z]+(?:_[0-9a-z]+)*)$/i.exec(text.trim());
  if (!match || text.length > MAX_DIGITS) return undefined;
  const prefixes: Readonly<Record<string, number>> = { x: 16, o: 8, b: 2 };
  const [, sign, prefix, body] = match;
  const of = prefix ? prefixes[prefix.toLowerCase()] : undefined;
  // The prefix of another base can be digits of this one: '0b1' in base 16.
  const digits = (of !== undefined && base !== of && base !== 0 ? prefix + body : body).replaceAll('_', '').toLowerCase();
  const radix = base === 0 ? (of ?? 10) : base;
  let value = 0n;
  for (const digit of digits) {
    const n = Number.parseInt(digit, 36);
    if (n >= radix) return undefined;
    value = value * BigInt(radix) + BigInt(n);
  }
  if (base === 0 && !prefix && /^0/.test(digits) && value !== 0n) return undefined;
  return intOf(sign === '-' ? -value : value);
}

/** Maximum number of digits of an int that Python reads or writes. */
const MAX_DIGITS = 4300;

/**
 * float(text).
 * @returns undefined if the text is not a float
 */
export function parseFloat_(text: string): number | undefined {
  const trimmed = text.trim().replace(/(?<=\d)_(?=\d)/g, '');
  const named = /^([-+]?)(inf|infinity|nan)$/i.exec(trimmed);
  if (named) return (named[1] === '-' ? -1 : 1) * (named[2].toLowerCase() === 'nan' ? NaN : Infinity);
  return /^[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?$/i.test(trimmed) ? Number(trimmed) : undefined;
}

/** round(value, places) as in Python: by the exact decimal value, ties to even. */
export function rounded(value: number, places: number): number {
  if (!Number.isFinite(value) || places > 22 - Math.log10(Math.abs(value) || 1) || places > 100) return value;
  if (places < 0) {
    const unit = 10 ** -places;
    return -places > 308 ? 0 * value : halfEven(value / unit) * unit;
  }
  if (places === 0) return halfEven(value);
  return Number(fixed(value, places));
}

function halfEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  const up = rest > 0.5 || (rest === 0.5 && floor % 2 !== 0);
  const result = up ? floor + 1 : floor;
  return result === 0 && (value < 0 || Object.is(value, -0)) ? -0 : result;
}

/**
 * The nearest decimal with `places` digits after the point, ties to even, like C's %.*f.
 * JavaScript's toFixed rounds ties up.
 */
export function fixed(value: number, places: number): string {
  const near = Math.abs(value) < 1e21 ? value.toFixed(places) : BigInt(value).toString() + (places > 0 ? `.${'0'.repeat(places)}` : '');
  // In a tie, the exact decimal has a 5 after the last digit kept, and zeros after the 5.
  const exact = Math.abs(value) < 1e21 && places < 95 ? Math.abs(value).toFixed(Math.min(100, places + 5)) : '';
  const tie = exact !== '' && /^50*$/.test(exact.slice(exact.length - 5)) && isExact(Math.abs(value), exact);
  if (!tie) return near;
  const digits = BigInt(near.replace(/[-.]/g, ''));
  if (digits % 2n === 0n) return near;
  const even = String(digits - 1n).padStart(places + 1, '0');
  const text = places > 0 ? `${even.slice(0, -places)}.${even.slice(-places)}` : even;
  return value < 0 ? `-${text}` : text;
}

/**
 * True if a decimal is exactly this float. A decimal that ends within 100 places can be compared
 * with all digits of the float.
 */
function isExact(value: number, text: string): boolean {
  return Number(text) === value && Number(value.toFixed(100).slice(text.length) || '0') === 0;
}
