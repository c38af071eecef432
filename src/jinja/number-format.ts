/** Formats of numbers in C's printf and in Python's format specifications. */
import { fixed, floatText } from './numbers.ts';
import { JinjaError } from './values.ts';

/** Limit of digits after the point. A double has no more that are useful. */
const MAX_PRECISION = 100;

function placesOf(precision: number): number {
  if (!(precision <= MAX_PRECISION)) throw new JinjaError(`a precision of more than ${MAX_PRECISION} digits`);
  return precision;
}

/**
 * Formats the magnitude of a float by a conversion e, f, g (or E, F, G).
 * @param keepPoint flag `#`: keeps the point and trailing zeros
 */
export function floatDigits(value: number, type: string, precision: number, keepPoint = false): string {
  const upper = type === type.toUpperCase();
  const text = lowerDigits(Math.abs(value), type.toLowerCase(), placesOf(precision), keepPoint);
  return upper ? text.toUpperCase() : text;
}

function lowerDigits(value: number, type: string, places: number, keepPoint: boolean): string {
  if (!Number.isFinite(value)) return floatText(value);
  if (type === 'f') return fixed(value, places) + (keepPoint && places === 0 ? '.' : '');
  if (type === 'e') return withExponent(value, places, keepPoint);
  const significant = places || 1;
  const exponent = Number(value.toExponential(significant - 1).split('e')[1]);
  const text =
    exponent < -4 || exponent >= significant ? withExponent(value, significant - 1, keepPoint) : fixed(value, significant - 1 - exponent);
  return keepPoint ? text : withoutZeros(text);
}

function withExponent(value: number, places: number, keepPoint: boolean): string {
  const [mantissa, exponent] = value.toExponential(places).split('e');
  return `${mantissa}${keepPoint && places === 0 ? '.' : ''}e${exponent[0]}${exponent.slice(1).padStart(2, '0')}`;
}

/** Removes zeros from the end of a fraction. */
function withoutZeros(text: string): string {
  const [mantissa, exponent] = text.split('e');
  if (!mantissa.includes('.')) return text;
  let end = mantissa.length;
  while (mantissa[end - 1] === '0') end--;
  if (mantissa[end - 1] === '.') end--;
  return mantissa.slice(0, end) + (exponent === undefined ? '' : `e${exponent}`);
}

/**
 * Formats the magnitude of an int in the base that the letter stands for.
 * @param prefixed adds 0x, 0o or 0b
 */
export function intDigits(value: number | bigint, type: string, prefixed: boolean): string {
  const base = { b: 2, o: 8, x: 16, X: 16 }[type] ?? 10;
  const digits = (value < 0 ? -value : value).toString(base);
  const text = (prefixed && base !== 10 ? `0${type}` : '') + (type === 'X' ? digits.toUpperCase() : digits);
  return text;
}

/** Inserts a separator after every `size` digits before the point. */
export function grouped(digits: string, separator: string, size = 3): string {
  const end = /^[0-9a-fA-F]*/.exec(digits)![0].length;
  const parts: string[] = [];
  for (let at = end; at > 0; at -= size) parts.unshift(digits.slice(Math.max(0, at - size), at));
  return parts.join(separator) + digits.slice(end);
}

export const signOf = (negative: boolean, flag: string): string => (negative ? '-' : flag === '+' || flag === ' ' ? flag : '');
export const isNegative = (value: number | bigint): boolean => value < 0 || Object.is(value, -0);
