/** JSON numbers as languages of their texts. */
import {
  compareDecimals,
  decimalOf,
  integerNextTo,
  rangeWithin,
  unitsOf,
  writtenJson,
  type Bounds,
  type Decimal,
} from '../exact-number.ts';
import { either, holds, leastCommon, power, stepOf, ZEROS, type NumberFacts } from './number-facts.ts';
import type { Languages, Regex } from './regex.ts';

/** Digits that JavaScript writes before a point: larger numbers have an exponent. */
const WHOLE_DIGITS = 21;
/** Significant digits of the shortest decimal of a double. */
const SIGNIFICANT = 17;
/** Largest exponent that every mantissa may have. */
const LARGEST_EXPONENT = 307;
/** Number of digits after the decimal point. Bounds are rounded inwards to it. */
const FRACTION_DIGITS = SIGNIFICANT + ZEROS;

/** True for magnitudes that are always written with an exponent. */
const isLong = ({ point }: Decimal): boolean => point > WHOLE_DIGITS + 1;

/** True if all numbers from 1e21 on are multiples: their digits end with zeros. */
function dividesLarge(of: Decimal): boolean {
  const { step, places } = stepOf(of);
  return power(WHOLE_DIGITS - SIGNIFICANT + places) % step === 0n;
}

/** Writes languages of numbers. */
export class NumberLanguages {
  readonly #languages: Languages;
  readonly #digit: Regex;
  readonly #known = new Map<NumberFacts, Regex>();

  constructor(languages: Languages) {
    this.#languages = languages;
    this.#digit = this.#digits(0, 9);
  }

  /** The texts of all numbers with these facts. */
  of(facts: NumberFacts): Regex {
    let language = this.#known.get(facts);
    if (!language) this.#known.set(facts, (language = this.#write(facts)));
    return language;
  }

  #write(facts: NumberFacts): Regex {
    const languages = this.#languages;
    if (facts.values) return languages.words(facts.values.filter((value) => holds(decimalOf(value), facts)).map(writtenJson));
    const exact: Regex[] = [];
    if (facts.multiples.length > 0) exact.push(this.#multiples(leastCommon(facts.multiples)));
    for (const of of facts.notMultiples) exact.push(languages.not(this.#multiples(stepOf(of))));
    for (const value of facts.notValues) exact.push(languages.not(this.#spellings(decimalOf(value))));
    if (facts.whole === false) exact.push(this.#broken());
    const whole = facts.whole === true;
    const range = this.#between(facts, whole);
    if (exact.length === 0) return languages.choice([range, ...this.#exponents(facts, whole)]);
    // Exponents are left out where digits are looked at, but for large numbers that are multiples as a whole.
    const large = facts.multiples.length > 0 && exact.length === 1 && facts.multiples.every(dividesLarge);
    return languages.choice([languages.all([range, ...exact]), ...(large ? this.#exponents(facts, true) : [])]);
  }

  #digits(low: number, high: number): Regex {
    return this.#languages.chars([48 + low, 48 + high]);
  }

  #some(min: number, max: number): Regex {
    return this.#languages.repeat(this.#digit, min, max);
  }

  #optional(item: Regex): Regex {
    return this.#languages.repeat(item, 0, 1);
  }

  #join(...parts: Regex[]): Regex {
    return parts.reduceRight((rest, part) => this.#languages.sequence(part, rest), this.#languages.empty);
  }

  #text(text: string): Regex {
    return this.#languages.text(text);
  }

  #multiples({ step, places }: ReturnType<typeof stepOf>): Regex {
    return this.#join(this.#optional(this.#text('-')), this.#languages.multiple(step, places));
  }

  /** All spellings of a value without an exponent. */
  #spellings({ negative, digits, point }: Decimal): Regex {
    const whole = point <= 0 ? '0' : digits.slice(0, point).padEnd(point, '0');
    const fraction = point <= 0 ? digits && '0'.repeat(-point) + digits : digits.slice(point);
    const zeros = this.#languages.repeat(this.#text('0'), fraction === '' ? 1 : 0, Infinity);
    const sign = negative ? this.#text('-') : digits === '' ? this.#optional(this.#text('-')) : this.#languages.empty;
    const tail = this.#join(this.#text(`.${fraction}`), zeros);
    return this.#join(sign, this.#text(whole), fraction === '' ? this.#optional(tail) : tail);
  }

  /** Decimals with a digit other than 0 after the point. */
  #broken(): Regex {
    const any = this.#languages.anything;
    return this.#join(any, this.#text('.'), any, this.#digits(1, 9), any);
  }

  /** Numbers that JavaScript writes with an exponent: powers of ten that the bounds allow as a whole. */
  #exponents(facts: NumberFacts, whole: boolean): Regex[] {
    const { minimum, maximum, exclusiveMinimum, exclusiveMaximum } = facts;
    const low = either(compareDecimals, 1, minimum, exclusiveMinimum);
    const high = either(compareDecimals, -1, maximum, exclusiveMaximum);
    if (!low && !high && !whole) return [this.#anyExponent()];
    const opposite = (bound: Decimal | undefined): Decimal | undefined =>
      bound && { ...bound, negative: bound.digits !== '' && !bound.negative };
    const negative = this.#powers(opposite(high), opposite(low), whole);
    return [...this.#powers(low, high, whole), ...negative.map((item) => this.#join(this.#text('-'), item))];
  }

  #anyExponent(): Regex {
    const exponent = this.#languages.choice([this.#some(1, 2), this.#exponentsBetween(100, LARGEST_EXPONENT)]);
    const fraction = this.#join(this.#text('.'), this.#some(1, FRACTION_DIGITS));
    const plain = this.#join(this.#optional(this.#text('-')), this.#natural(), this.#optional(fraction));
    return this.#join(plain, this.#languages.chars([69, 69, 101, 101]), this.#optional(this.#languages.chars([43, 43, 45, 45])), exponent);
  }

  /** Positive numbers between the bounds, as far as whole powers of ten are. */
  #powers(low: Decimal | undefined, high: Decimal | undefined, whole: boolean): Regex[] {
    if (high && (high.negative || high.digits === '')) return [];
    // A number d.ddd times 10^n is at least 0.1 times 10^(n + 1), and less than 0.1 times 10^(n + 2).
    const least = low && !low.negative && low.digits !== '' ? low.point : -Infinity;
    const most = high ? high.point - 2 : Infinity;
    const options: Regex[] = [];
    const add = (sign: string, from: number, to: number): void => {
      if (from <= to) options.push(this.#join(this.#mantissa(), this.#text(`e${sign}`), this.#exponentsBetween(from, to)));
    };
    add('+', Math.max(WHOLE_DIGITS, least), Math.min(LARGEST_EXPONENT, most));
    if (!whole) add('-', Math.max(ZEROS + 1, -most), Math.min(LARGEST_EXPONENT, -least));
    return options;
  }

  #mantissa(): Regex {
    return this.#join(this.#digits(1, 9), this.#optional(this.#join(this.#text('.'), this.#some(1, SIGNIFICANT - 1))));
  }

  #exponentsBetween(from: number, to: number): Regex {
    return this.#naturals(BigInt(from), BigInt(to), this.#languages.empty);
  }

  #natural(): Regex {
    return this.#languages.choice([this.#text('0'), this.#join(this.#digits(1, 9), this.#some(0, WHOLE_DIGITS - 1))]);
  }

  /** Numbers without an exponent between the bounds. */
  #between(bounds: Bounds, whole: boolean): Regex {
    for (const bound of [bounds.minimum, bounds.exclusiveMinimum])
      if (bound && isLong(bound) && !bound.negative) return this.#languages.none;
    for (const bound of [bounds.maximum, bounds.exclusiveMaximum])
      if (bound && isLong(bound) && bound.negative) return this.#languages.none;
    const short = (bound: Decimal | undefined): Decimal | undefined => (bound && isLong(bound) ? undefined : bound);
    const near: Bounds = {
      minimum: short(bounds.minimum),
      maximum: short(bounds.maximum),
      exclusiveMinimum: short(bounds.exclusiveMinimum),
      exclusiveMaximum: short(bounds.exclusiveMaximum),
    };
    const { low, high } = whole ? rangeWithin(near, 0, integerNextTo) : rangeWithin(near, FRACTION_DIGITS, nextTo);
    if (low !== undefined && high !== undefined && low > high) return this.#languages.none;
    return whole ? this.#integers(low, high) : this.#decimals(low, high);
  }

  /** Digit strings of equal length from low to high. */
  #sameLength(low: string, high: string): Regex {
    if (low === '') return this.#languages.empty;
    if (/^0*$/.test(low) && /^9*$/.test(high)) return this.#some(low.length, low.length);
    const n = low.length - 1;
    const l = Number(low[0]);
    const h = Number(high[0]);
    if (l === h) return this.#join(this.#digits(l, l), this.#sameLength(low.slice(1), high.slice(1)));
    return this.#languages.choice([
      this.#join(this.#digits(l, l), this.#sameLength(low.slice(1), '9'.repeat(n))),
      l + 1 <= h - 1 ? this.#join(this.#digits(l + 1, h - 1), this.#some(n, n)) : this.#languages.none,
      this.#join(this.#digits(h, h), this.#sameLength('0'.repeat(n), high.slice(1))),
    ]);
  }

  /** Integers from low to high (0 <= low). Each is followed by `after`, or by after(its length). */
  #naturals(low: bigint, high: bigint, after: Regex | ((digits: number) => Regex)): Regex {
    const options: Regex[] = [];
    const lengthOf = (n: bigint): number => String(n).length;
    for (let length = lengthOf(low); low <= high && length <= lengthOf(high); length++) {
      const least = length === 1 ? 0n : power(length - 1);
      const most = power(length) - 1n;
      const isWhole = length > 1 && low <= least && high >= most;
      if (isWhole && typeof after !== 'function') {
        // All numbers of several lengths are one language.
        const longest = high === power(lengthOf(high)) - 1n ? lengthOf(high) : lengthOf(high) - 1;
        options.push(this.#join(this.#digits(1, 9), this.#some(length - 1, longest - 1), after));
        length = longest;
        continue;
      }
      const same = this.#sameLength(String(low > least ? low : least), String(high < most ? high : most));
      options.push(this.#join(same, typeof after === 'function' ? after(length) : after));
    }
    return this.#languages.choice(options);
  }

  /** Integers from low to high, inclusive; undefined is no bound. */
  #integers(low: bigint | undefined, high: bigint | undefined): Regex {
    const reach = (bound: bigint | undefined): bigint =>
      power(Math.max(WHOLE_DIGITS, bound === undefined ? 0 : String(bound).length + 1)) - 1n;
    const least = low ?? -reach(high);
    const most = high ?? reach(low);
    const { none, empty } = this.#languages;
    const negative = least < 0n ? this.#naturals(most < 0n ? -most : 1n, -least, empty) : none;
    const natural = most >= 0n ? this.#naturals(least > 0n ? least : 0n, most, empty) : none;
    return this.#languages.choice([this.#join(this.#text('-'), negative), natural]);
  }

  /**
   * Numbers from low to high, inclusive, in units of 10^-FRACTION_DIGITS; undefined is no bound.
   * The bounds also hold after a reader converts the number to a double, because that conversion
   * keeps the order.
   */
  #decimals(low: bigint | undefined, high: bigint | undefined): Regex {
    const { none } = this.#languages;
    const negative =
      low === undefined || low < 0n
        ? this.#positives(fixed(high !== undefined && high < 0n ? -high : 0n), low === undefined ? undefined : fixed(-low))
        : none;
    const positive =
      high === undefined || high >= 0n
        ? this.#positives(fixed(low !== undefined && low > 0n ? low : 0n), high === undefined ? undefined : fixed(high))
        : none;
    return this.#languages.choice([this.#join(this.#text('-'), negative), positive]);
  }

  /** Decimals from low (>= 0) to high; undefined is no upper bound. */
  #positives(low: Fixed, high: Fixed | undefined): Regex {
    const { whole, fraction } = low;
    const at = (w: bigint, l: string | undefined, h: string | undefined): Regex =>
      this.#join(this.#text(String(w)), this.#fraction(l, h, String(w).length, w === 0n));
    if (
      high &&
      (high.whole < whole || (high.whole === whole && high.fraction.padEnd(FRACTION_DIGITS, '0') < fraction.padEnd(FRACTION_DIGITS, '0')))
    )
      return this.#languages.none;
    if (high && high.whole === whole) return at(whole, fraction, high.fraction);
    const most = high ? high.whole - 1n : power(Math.max(WHOLE_DIGITS, String(whole).length + 1)) - 1n;
    return this.#languages.choice([
      at(whole, fraction, undefined),
      this.#naturals(whole + 1n, most, (length) => this.#fraction(undefined, undefined, length, false)),
      high ? at(high.whole, undefined, high.fraction) : this.#languages.none,
    ]);
  }

  /** A point and digits from .low to .high, or nothing if the whole part is allowed alone. */
  #fraction(low: string | undefined, high: string | undefined, wholeDigits: number, zero: boolean): Regex {
    const digits = Math.max(1, zero ? FRACTION_DIGITS : SIGNIFICANT - wholeDigits, low?.length ?? 0, high?.length ?? 0);
    const least = low !== undefined && /^0*$/.test(low) ? undefined : low;
    const some = this.#join(this.#text('.'), this.#tail(least, high, digits));
    return least === undefined ? this.#optional(some) : some;
  }

  /** Digits of a fraction from .low to .high, at least one; undefined is no bound. */
  #tail(low: string | undefined, high: string | undefined, digits: number): Regex {
    const { none } = this.#languages;
    if (digits === 0) return none;
    if (low !== undefined && /^0*$/.test(low)) low = undefined;
    if (high !== undefined && /^0*$/.test(high)) return low === undefined ? this.#languages.repeat(this.#text('0'), 1, digits) : none;
    if (low === undefined && high === undefined) return this.#some(1, digits);
    const least = Number(low?.[0] ?? 0);
    const most = high === undefined ? 9 : Number(high[0]);
    /** A first digit, with the digits after it; none is enough if the rest of `l` is zero. */
    const follow = (from: number, to: number, l: string | undefined, h: string | undefined): Regex => {
      if (from > to) return none;
      const rest = this.#tail(l, h, digits - 1);
      const alone = l === undefined || /^0*$/.test(l);
      return this.#join(this.#digits(from, to), alone ? this.#optional(rest) : rest);
    };
    if (least > most) return none;
    if (least === most) return follow(least, least, low?.slice(1), high?.slice(1));
    return this.#languages.choice([
      low === undefined ? none : follow(least, least, low.slice(1), undefined),
      follow(low === undefined ? least : least + 1, high === undefined ? most : most - 1, undefined, undefined),
      high === undefined ? none : follow(most, most, undefined, high.slice(1)),
    ]);
  }
}

/** A non-negative decimal: digits before and after the point, no trailing zeros. */
interface Fixed {
  readonly whole: bigint;
  readonly fraction: string;
}

/** A number >= 0 in units of 10^-FRACTION_DIGITS. */
function fixed(units: bigint): Fixed {
  const digits = String(units).padStart(FRACTION_DIGITS + 1, '0');
  return { whole: BigInt(digits.slice(0, -FRACTION_DIGITS)), fraction: digits.slice(-FRACTION_DIGITS).replace(/0+$/, '') };
}

const bigger = (a: bigint, b: bigint): bigint => (a > b ? a : b);

/**
 * The nearest allowed number above (1) or below (-1) an excluded bound, in units. The gap is wide
 * enough for doubles to differ from the bound.
 */
function nextTo(bound: Decimal, direction: 1 | -1): bigint {
  const units = unitsOf(bound, FRACTION_DIGITS, direction > 0);
  const size = units < 0n ? -units : units;
  return units + BigInt(direction) * bigger((size >> 52n) + 1n, 1n);
}
