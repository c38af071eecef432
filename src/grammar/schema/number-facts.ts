/** The facts that a schema has about numbers, and whether some number has them. */
import { compareDecimals, decimalOf, isWhole, keepsBounds, unitsOf, WrittenNumber, type Bounds, type Decimal } from '../exact-number.ts';

/** Everything that a schema asks of numbers. */
export interface NumberFacts extends Bounds {
  /** True: integers alone; false: all but integers. */
  readonly whole?: boolean | undefined;
  readonly multiples: readonly Decimal[];
  readonly notMultiples: readonly Decimal[];
  readonly values?: readonly (number | WrittenNumber)[] | undefined;
  readonly notValues: readonly (number | WrittenNumber)[];
}

export const ANY_NUMBER: NumberFacts = { multiples: [], notMultiples: [], notValues: [] };

/** Zeros that JavaScript writes after `0.`: smaller numbers have an exponent. */
export const ZEROS = 6;

/** The tighter of two bounds of one side. */
export function either(
  compare: (a: Decimal, b: Decimal) => number,
  side: 1 | -1,
  a: Decimal | undefined,
  b: Decimal | undefined,
): Decimal | undefined {
  return a && b ? (compare(a, b) * side > 0 ? a : b) : (a ?? b);
}

export const power = (n: number): bigint => 10n ** BigInt(n);

/** The value of a decimal as an integer times 10^-places. */
export function stepOf({ digits, point }: Decimal): { readonly step: bigint; readonly places: number } {
  const places = Math.max(0, digits.length - point);
  return { step: BigInt(digits) * power(Math.max(0, point - digits.length)), places };
}

const isMultiple = (value: Decimal, of: Decimal): boolean => {
  const a = stepOf(value);
  const b = stepOf(of);
  const places = Math.max(a.places, b.places);
  return value.digits === '' || (a.step * power(places - a.places)) % (b.step * power(places - b.places)) === 0n;
};

/** True if a number has all that the facts ask. */
export function holds(value: Decimal, facts: NumberFacts): boolean {
  return (
    (facts.whole === undefined || isWhole(value) === facts.whole) &&
    keepsBounds(value, facts) &&
    facts.multiples.every((of) => isMultiple(value, of)) &&
    !facts.notMultiples.some((of) => isMultiple(value, of)) &&
    !facts.notValues.some((other) => compareDecimals(decimalOf(other), value) === 0)
  );
}

/** The sum of a decimal's units, as a decimal: units / 10^places. */
const decimalIn = (units: bigint, places: number): Decimal => decimalOf(new WrittenNumber(`${units}e-${places}`));

const gcd = (a: bigint, b: bigint): bigint => (b === 0n ? a : gcd(b, a % b));

/** The least number that is a multiple of all. */
export function leastCommon(of: readonly Decimal[]): { readonly step: bigint; readonly places: number } {
  const places = Math.max(0, ...of.map((one) => stepOf(one).places));
  const steps = of.map((one) => stepOf(one).step * power(places - stepOf(one).places));
  return { step: steps.reduce((a, b) => (a / gcd(a, b)) * b, 1n), places };
}

/** Number of candidates that are tried to find a number. */
const MAX_TRIED = 32n;
/** Longest period of multiples that is searched. */
const MAX_PERIOD = 2000n;
const ONE = decimalOf(1);
const HALF = decimalOf(0.5);
/** Largest power of ten of a candidate, which is then written without an exponent and exactly. */
const MAX_TRIED_POINT = 15;

/** True if some number has these facts, false if none has; undefined if that is not easily seen. */
export function hasNumber(facts: NumberFacts): boolean | undefined {
  if (facts === ANY_NUMBER) return true;
  const { values, whole, minimum, maximum, exclusiveMinimum, exclusiveMaximum } = facts;
  if (values) return values.some((value) => holds(decimalOf(value), facts));
  const low = either(compareDecimals, 1, minimum, exclusiveMinimum);
  const high = either(compareDecimals, -1, maximum, exclusiveMaximum);
  const multiples = whole === true ? [ONE, ...facts.multiples] : facts.multiples;
  const { step, places } = leastCommon(multiples.length > 0 ? multiples : [HALF]);
  if ([low, high].some((bound) => bound && bound.point > MAX_TRIED_POINT) || places > ZEROS) return undefined;
  const from = low ? unitsOf(low, places, true) / step - 1n : high ? unitsOf(high, places, false) / step + 1n : 0n;
  const direction = low || !high ? 1n : -1n;
  const holdsAt = (count: bigint, all: NumberFacts): boolean => {
    const candidate = decimalIn(count * step, places);
    return candidate.point <= MAX_TRIED_POINT && holds(candidate, all);
  };
  for (let i = 0n; i < MAX_TRIED; i++) if (holdsAt(from + direction * i, facts)) return true;
  if (multiples.length === 0) return undefined;
  // Multiples repeat with a period, so none is found if a whole period has none.
  const all = leastCommon([ONE, ...multiples, ...facts.notMultiples]);
  const period = all.step / (step * power(all.places - places));
  if (period > MAX_PERIOD || step * period > power(MAX_TRIED_POINT)) return undefined;
  const repeating: NumberFacts = { ...ANY_NUMBER, whole, multiples, notMultiples: facts.notMultiples };
  for (let i = 1n; i <= period; i++) if (holdsAt(i, repeating)) return undefined;
  return false;
}
