/** JSON numbers between bounds as GBNF, for json-schema.ts. */
import { gbnfChoice, gbnfClass, gbnfRepeat } from './gbnf-text.ts';

/** JSON numbers within bounds, as GBNF. Every function returns undefined where no number is left. */

/** Digits of an integer, sign aside, where a bound does not ask for more: all are exact as a double. */
const INTEGER_DIGITS = 15;
/** Digits after the point. Bounds are rounded inwards to so many. */
const FRACTION_DIGITS = 20;

const digit = (low: number, high: number): string => gbnfClass([48 + low, 48 + high]);
const power = (n: number): bigint => 10n ** BigInt(n);

/** Digit strings of one length from low to high. */
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

/** Integers 0 <= low .. high without leading zeros, each length followed by `after(length)`. */
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

/** Integers from low to high, both included; undefined is no bound. */
export function integerRange(low: bigint | undefined, high: bigint | undefined): string | undefined {
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

/** The shortest decimal of a double >= 0, its fraction cut to FRACTION_DIGITS downwards or upwards. */
function decimal(value: number, up: boolean): Decimal {
  const [mantissa, exponent] = value.toExponential().split('e');
  const digits = mantissa.replace('.', '');
  const point = Number(exponent) + 1;
  const whole = point <= 0 ? '0' : digits.slice(0, point).padEnd(point, '0');
  const fraction = point <= 0 ? '0'.repeat(-point) + digits : digits.slice(point);
  let kept = BigInt(whole + fraction.slice(0, FRACTION_DIGITS).padEnd(FRACTION_DIGITS, '0'));
  if (up && /[1-9]/.test(fraction.slice(FRACTION_DIGITS))) kept += 1n;
  const scaled = String(kept).padStart(FRACTION_DIGITS + 1, '0');
  return { whole: BigInt(scaled.slice(0, -FRACTION_DIGITS)), fraction: scaled.slice(-FRACTION_DIGITS).replace(/0+$/, '') };
}

/** Which digits may follow a point so far: none at all, and some. */
interface Tail {
  readonly none: boolean;
  readonly some: string | undefined;
}

/** Fractions from .low to .high, both included; undefined is no bound. */
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

/** Decimals 0 <= low .. high; undefined is no upper bound. */
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
 * Numbers without exponent from low to high, both included; undefined is no bound. A text at least as large as the
 * shortest decimal of a double is read as at least that double, so every one of them keeps the bounds when parsed.
 */
export function numberRange(low: number | undefined, high: number | undefined): string | undefined {
  const negative =
    low === undefined || low < 0
      ? positives(decimal(high !== undefined && high < 0 ? -high : 0, true), low === undefined ? undefined : decimal(-low, false))
      : undefined;
  const positive =
    high === undefined || high >= 0
      ? positives(decimal(low !== undefined && low > 0 ? low : 0, true), high === undefined ? undefined : decimal(high, false))
      : undefined;
  return gbnfChoice([negative === undefined ? undefined : `"-" ${negative}`, positive]);
}
