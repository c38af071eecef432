/**
 * Exact numbers of a schema, because doubles round 9007199254740993 and decimals with thirty
 * digits.
 */
import { spellingOf } from '../chat/exact-json.ts';
import { schemaError } from './schema-error.ts';

/**
 * A decimal: `0.DIGITS` times 10^point. Digits neither begin nor end with 0; zero has no digits.
 */
export interface Decimal {
  readonly negative: boolean;
  readonly digits: string;
  readonly point: number;
}

/** Longest number in characters; real numbers have about twenty. */
const MAX_NUMBER = 400;

/** A number that a double cannot represent, or that JavaScript would print differently. */
export class WrittenNumber {
  readonly text: string;
  readonly decimal: Decimal;
  /** Its value as a double; undefined if no double is equal. */
  readonly double: number | undefined;
  /** A text that is the same for equal numbers. */
  readonly key: string;

  constructor(text: string) {
    this.text = text;
    this.decimal = parseDecimal(text);
    const double = Number(text);
    const same = Number.isFinite(double) && compareDecimals(decimalOf(double), this.decimal) === 0;
    this.double = same ? double : undefined;
    const { negative, digits, point } = this.decimal;
    this.key = same ? JSON.stringify(double) : `${negative ? '-' : ''}.${digits}e${point}`;
  }
}

function parseDecimal(text: string): Decimal {
  const [, sign, whole, fraction = '', exponent = '0'] = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([-+]?\d+))?$/.exec(text)!;
  const all = `${whole}${fraction}`.replace(/^0+/, '');
  const digits = all.replace(/0+$/, '');
  if (digits === '') return { negative: false, digits: '', point: 0 };
  return { negative: sign === '-', digits, point: all.length - fraction.length + Number(exponent) };
}

/** The shortest decimal of a double, or the decimal of a written number. */
export const decimalOf = (value: number | WrittenNumber): Decimal =>
  typeof value === 'number' ? parseDecimal(String(value)) : value.decimal;

/** True for JSON numbers. NaN and the infinities are not JSON. */
export const isNumber = (value: unknown): value is number | WrittenNumber => Number.isFinite(value) || value instanceof WrittenNumber;

/** Negative if a is less than b. */
export function compareDecimals(a: Decimal, b: Decimal): number {
  const sign = (decimal: Decimal): number => (decimal.digits === '' ? 0 : decimal.negative ? -1 : 1);
  if (sign(a) !== sign(b)) return sign(a) - sign(b);
  const size = a.point !== b.point ? a.point - b.point : a.digits < b.digits ? -1 : a.digits > b.digits ? 1 : 0;
  return a.negative ? -size : size;
}

export const isWhole = ({ digits, point }: Decimal): boolean => digits.length <= point || digits === '';

/** Converts a decimal of at most 1e21 to units of 10^-places, rounded down or up. */
export function unitsOf({ negative, digits, point }: Decimal, places: number, up: boolean): bigint {
  const kept = Math.max(0, point + places);
  const units = BigInt(digits.slice(0, kept).padEnd(kept, '0') || '0');
  const away = digits.length > kept && up !== negative ? 1n : 0n;
  return negative ? -(units + away) : units + away;
}

/** The bounds of a schema, as written. */
export interface Bounds {
  readonly minimum?: Decimal | undefined;
  readonly maximum?: Decimal | undefined;
  readonly exclusiveMinimum?: Decimal | undefined;
  readonly exclusiveMaximum?: Decimal | undefined;
}

/**
 * The least and the largest number within bounds, in units of 10^-places.
 * @param nextTo the nearest number above (1) or below (-1) an excluded bound, in these units
 */
export function rangeWithin(
  { minimum, maximum, exclusiveMinimum, exclusiveMaximum }: Bounds,
  places: number,
  nextTo: (bound: Decimal, direction: 1 | -1) => bigint,
): { readonly low: bigint | undefined; readonly high: bigint | undefined } {
  const strictLow = exclusiveMinimum && !(minimum && compareDecimals(exclusiveMinimum, minimum) < 0);
  const strictHigh = exclusiveMaximum && !(maximum && compareDecimals(exclusiveMaximum, maximum) > 0);
  return {
    low: strictLow ? nextTo(exclusiveMinimum, 1) : minimum && unitsOf(minimum, places, true),
    high: strictHigh ? nextTo(exclusiveMaximum, -1) : maximum && unitsOf(maximum, places, false),
  };
}

export const keepsBounds = (number: Decimal, { minimum, maximum, exclusiveMinimum, exclusiveMaximum }: Bounds): boolean =>
  (!minimum || compareDecimals(number, minimum) >= 0) &&
  (!maximum || compareDecimals(number, maximum) <= 0) &&
  (!exclusiveMinimum || compareDecimals(number, exclusiveMinimum) > 0) &&
  (!exclusiveMaximum || compareDecimals(number, exclusiveMaximum) < 0);

/** The nearest integer above (1) or below (-1) an excluded bound. */
export const integerNextTo = (bound: Decimal, direction: 1 | -1): bigint => unitsOf(bound, 0, direction < 0) + BigInt(direction);

/**
 * Replaces numbers in a schema by WrittenNumber, if JavaScript cannot hold them exactly or if they
 * are bigints.
 */
export function withWrittenNumbers<T>(schema: T): T {
  const one = (value: unknown, text: string | undefined): unknown => {
    if (text === undefined) return visit(value);
    if (text.length > MAX_NUMBER) throw schemaError('', `a number has ${text.length} characters; expected at most ${MAX_NUMBER}`);
    return new WrittenNumber(text);
  };
  const visit = (value: unknown): unknown => {
    if (typeof value !== 'object' || value === null) return value;
    let changed = false;
    const parts = Object.entries(value).map(([key, part]) => {
      const mine = one(part, spellingOf(value, key));
      changed ||= mine !== part;
      return [key, mine] as const;
    });
    if (!changed) return value;
    return Array.isArray(value) ? parts.map(([, part]) => part) : Object.fromEntries(parts);
  };
  return visit(schema) as T;
}

/** JSON text with the numbers as written. */
export function writtenJson(value: unknown): string {
  if (value instanceof WrittenNumber) return value.text;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(writtenJson).join()}]`;
  const fields = Object.entries(value).filter(([, part]) => part !== undefined);
  return `{${fields.map(([name, part]) => `${JSON.stringify(name)}:${writtenJson(part)}`).join()}}`;
}
