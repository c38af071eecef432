/**
 * JSON numbers within bounds as GBNF. Every function returns undefined if no number is within the
 * bounds.
 */
import { integerNextTo, rangeWithin, unitsOf, type Bounds, type Decimal as Written } from './exact-number.ts';
import { gbnfChoice, gbnfClass, gbnfRepeat } from './gbnf-text.ts';

/**
 * Digits of an integer without its sign, unless a bound has more. Integers of 15 digits are exact
 * as doubles.
 */
const INTEGER_DIGITS = 15;
/** Number of digits after the decimal point. Bounds are rounded inwards to it. */
const FRACTION_DIGITS = 20;

const digit = (low: number, high: number): string => gbnfClass([48 + low, 48 + high]);
const power = (n: number): bigint => 10n ** BigInt(n);

/** Digit strings of equal length from low to high. */
function sameLength(low: string, high: string): string {
  if (/^0*$/.test(low) && /^9*$/.test(high)) return gbnfRepeat('[0-9]', low.length, low.length);
  if (low[0] === high[0]) return low.length === 1 ? `"${low}"` : `"${low[0]}" ${sameLength(low.slice(1), high.slice(1))}`;
  const n = low.length - 1;
  const l = Number(low[0]);
  const h = Number(high[0]);
  if (n === 0) return digit(l, h);
  return gbnfChoice([
    `"${low[0]}" ${sameLength(low.slice(1), '9'.repeat(n))}`,
    l + 1 <= h - 1 ? `${digit(l + 1, h - 1)} ${gbnfRepeat('[0-9]', n, n)}` : undefined,
    `"${high[0]}" ${sameLength('0'.repeat(n), high.slice(1))}`,
  ])!;
}

/**
 * Integers from low to high (0 <= low) without leading zeros. Each length is followed by
 * `after(length)`.
 */
function naturals(low: bigint, high: bigint, after: (digits: number) => string = () => ''): string | undefined {
  const options: string[] = [];
  for (let length = String(low).length; low <= high && length <= String(high).length; length++) {
    const least = length === 1 ? 0n : power(length - 1);
    const most = power(length) - 1n;
    const from = low > least ? low : least;
    const to = high < most ? high : most;
    options.push(`${sameLength(String(from), String(to))}${after(length)}`);
  }
  return gbnfChoice(options);
}

/** Integers from low to high, inclusive; undefined is no bound. */
function integerRange(low: bigint | undefined, high: bigint | undefined): string | undefined {
  const reach = (bound: bigint | undefined): bigint =>
    power(Math.max(INTEGER_DIGITS, bound === undefined ? 0 : String(bound).length + 1)) - 1n;
  const least = low ?? -reach(high);
  const most = high ?? reach(low);
  if (least > most) return undefined;
  const negative = least < 0n ? naturals(most < 0n ? -most : 1n, -least) : undefined;
  const natural = most >= 0n ? naturals(least > 0n ? least : 0n, most) : undefined;
  return gbnfChoice([negative === undefined ? undefined : `"-" ${negative}`, natural]);
}

/** A non-negative decimal: digits before and after the point, no trailing zeros. */
interface Decimal {
  readonly whole: bigint;
  readonly fraction: string;
}

/** A number >= 0 in units of 10^-FRACTION_DIGITS. */
function fixed(units: bigint): Decimal {
  const digits = String(units).padStart(FRACTION_DIGITS + 1, '0');
  return { whole: BigInt(digits.slice(0, -FRACTION_DIGITS)), fraction: digits.slice(-FRACTION_DIGITS).replace(/0+$/, '') };
}

/** The digits that may follow: none at all, and an expression for some. */
interface Tail {
  readonly none: boolean;
  readonly some: string | undefined;
}

/** Fractions from .low to .high, inclusive; undefined is no bound. */
function tail(low: string | undefined, high: string | undefined, digits: number): Tail {
  if (low !== undefined && /^0*$/.test(low)) low = undefined;
  const none = low === undefined;
  if (digits === 0) return { none, some: undefined };
  if (high !== undefined && /^0*$/.test(high)) return { none, some: none ? gbnfRepeat('"0"', 1, digits) : undefined };
  if (low === undefined && high === undefined) return { none, some: gbnfRepeat('[0-9]', 1, digits) };
  const least = Number(low?.[0] ?? 0);
  const most = high === undefined ? 9 : Number(high[0]);
  const options: (string | undefined)[] = [];
  const follow = (first: string, rest: Tail): void => {
    if (rest.some !== undefined) options.push(rest.none ? `${first} (${rest.some})?` : `${first} ${rest.some}`);
    else if (rest.none) options.push(first);
  };
  if (least === most) {
    follow(`"${least}"`, tail(low?.slice(1), high?.slice(1), digits - 1));
  } else if (least < most) {
    if (low !== undefined) follow(`"${least}"`, tail(low.slice(1), undefined, digits - 1));
    const from = low === undefined ? least : least + 1;
    const to = high === undefined ? most : most - 1;
    if (from <= to) follow(digit(from, to), tail(undefined, undefined, digits - 1));
    if (high !== undefined) follow(`"${most}"`, tail(undefined, high.slice(1), digits - 1));
  }
  return { none, some: gbnfChoice(options) };
}

function fractionBetween(low: string | undefined, high: string | undefined, wholeDigits: number): string | undefined {
  const digits = Math.max(INTEGER_DIGITS - wholeDigits, low?.length ?? 0, high?.length ?? 0);
  const { none, some } = tail(low, high, digits);
  if (some === undefined) return none ? '' : undefined;
  return none ? ` ("." ${some})?` : ` "." ${some}`;
}

/** Decimals from low (>= 0) to high; undefined is no upper bound. */
function positives(low: Decimal, high: Decimal | undefined): string | undefined {
  const { whole, fraction } = low;
  const start = String(whole).length;
  const at = (w: bigint, l: string | undefined, h: string | undefined): string | undefined => {
    const rest = fractionBetween(l, h, String(w).length);
    return rest === undefined ? undefined : `"${w}"${rest}`;
  };
  if (
    high &&
    (high.whole < whole || (high.whole === whole && high.fraction.padEnd(FRACTION_DIGITS, '0') < fraction.padEnd(FRACTION_DIGITS, '0')))
  )
    return undefined;
  if (high && high.whole === whole) return at(whole, fraction, high.fraction);
  const free = (length: number): string => fractionBetween(undefined, undefined, length)!;
  return gbnfChoice([
    at(whole, fraction, undefined),
    naturals(whole + 1n, high ? high.whole - 1n : power(Math.max(INTEGER_DIGITS, start + 1)) - 1n, free),
    high ? at(high.whole, undefined, high.fraction) : undefined,
  ]);
}

/**
 * Numbers without exponent from low to high, inclusive, in units of 10^-FRACTION_DIGITS; undefined
 * is no bound. The bounds also hold after a reader converts the number to a double, because that
 * conversion keeps the order.
 */
function numberRange(low: bigint | undefined, high: bigint | undefined): string | undefined {
  const negative =
    low === undefined || low < 0n
      ? positives(fixed(high !== undefined && high < 0n ? -high : 0n), low === undefined ? undefined : fixed(-low))
      : undefined;
  const positive =
    high === undefined || high >= 0n
      ? positives(fixed(low !== undefined && low > 0n ? low : 0n), high === undefined ? undefined : fixed(high))
      : undefined;
  return gbnfChoice([negative === undefined ? undefined : `"-" ${negative}`, positive]);
}

const bigger = (a: bigint, b: bigint): bigint => (a > b ? a : b);

/**
 * The nearest allowed number above (1) or below (-1) an excluded bound, in units. The gap is wide
 * enough for doubles to differ from the bound.
 */
function nextTo(bound: Written, direction: 1 | -1): bigint {
  const units = unitsOf(bound, FRACTION_DIGITS, direction > 0);
  const size = units < 0n ? -units : units;
  const least = units === 0n || size > power(FRACTION_DIGITS - 9) ? power(FRACTION_DIGITS - 15) : 1n;
  return units + BigInt(direction) * bigger((size >> 50n) + 1n, least);
}

export const isBounded = ({ minimum, maximum, exclusiveMinimum, exclusiveMaximum }: Bounds): boolean =>
  minimum !== undefined || maximum !== undefined || exclusiveMinimum !== undefined || exclusiveMaximum !== undefined;

/** Numbers or integers within a schema's bounds. */
export function boundedNumber(type: 'integer' | 'number', bounds: Bounds): string | undefined {
  const integer = type === 'integer';
  const { low, high } = integer ? rangeWithin(bounds, 0, integerNextTo) : rangeWithin(bounds, FRACTION_DIGITS, nextTo);
  if (low !== undefined && high !== undefined && low > high) return undefined;
  return integer ? integerRange(low, high) : numberRange(low, high);
}
