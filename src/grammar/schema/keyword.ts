/** Readers of keywords' values, and the form of a keyword's meaning. */
import type { Work } from '../../slices.ts';
import { decimalOf, isNumber, WrittenNumber, type Decimal } from '../exact-number.ts';
import { escapePointer, shown, type JsonSchema } from '../schema.ts';
import type { Facts, Part } from './facts.ts';
import type { Languages, Regex } from './regex.ts';
import { Malformed, Unheld } from './relaxed.ts';

export type Keywords = Readonly<Record<string, unknown>>;

/** The parts of a compilation that keywords need. */
export interface Expansion {
  readonly languages: Languages;
  /** The alternatives of a schema, or of its negation. */
  expand(part: Part): Work<readonly Facts[]>;
  /** The alternatives that satisfy one of each list. @throws Unheld if there are too many */
  product(lists: readonly (readonly Facts[])[]): Work<readonly Facts[]>;
  /** The strings that satisfy a schema. */
  strings(part: Part): Work<Regex>;
  /** The schema that a reference leads to. */
  follow(reference: unknown, pointer: string): Part;
  /** The schema that $dynamicRef or $recursiveRef leads to. @throws Unheld */
  followDynamic(reference: unknown, pointer: string): Part;
  /** True if the document has unevaluatedProperties or unevaluatedItems. */
  readonly hasUnevaluated: boolean;
  /** Names a keyword that is held only in part. @throws QuantletError ERR_GRAMMAR in strict mode */
  relax(pointer: string, keyword: string, why: string): void;
}

/** A keyword in a schema. */
export interface Reading {
  readonly value: unknown;
  readonly keyword: string;
  readonly schema: Keywords;
  readonly pointer: string;
  readonly context: Expansion;
}

type Alternatives = readonly Facts[] | Work<readonly Facts[]>;

/** The alternatives in which a keyword is satisfied, and those in which it is not. */
export interface Meaning {
  yes(reading: Reading): Alternatives;
  no(reading: Reading): Alternatives;
  /** Adds a keyword that depends on the others of its schema, which are read before. */
  after?(alternatives: readonly Facts[], reading: Reading): readonly Facts[];
}

/** Pointer of a keyword's value, or of a part of it. */
export const placeOf = ({ pointer, keyword }: Reading, ...parts: (string | number)[]): string =>
  [pointer, keyword, ...parts].map((part, i) => (i === 0 ? part : escapePointer(String(part)))).join('/');

/** A part of a keyword's value. */
export const partAt = (reading: Reading, schema: unknown, ...parts: (string | number)[]): Part => ({
  schema: schema as JsonSchema,
  pointer: placeOf(reading, ...parts),
});

export const negate = (part: Part): Part => ({ ...part, negated: !part.negated });

const expected = (value: unknown, what: string): Malformed => new Malformed(`found ${shown(value)}; expected ${what}`);

export function recordOf(value: unknown, what: string): Keywords {
  if (typeof value !== 'object' || value === null || Array.isArray(value) || value instanceof WrittenNumber) throw expected(value, what);
  return value as Keywords;
}

export function listOf(value: unknown, what: string): readonly unknown[] {
  if (!Array.isArray(value)) throw expected(value, what);
  return value;
}

export function textOf(value: unknown, what: string): string {
  if (typeof value !== 'string') throw expected(value, what);
  return value;
}

export function namesOf(value: unknown): readonly string[] {
  const names = listOf(value, 'a list of property names');
  if (!names.every((name) => typeof name === 'string')) throw expected(value, 'a list of property names');
  return names;
}

/** No text has this many characters. */
const LARGEST_COUNT = 2 ** 31 - 1;

export function countOf(given: unknown): number {
  const value = given instanceof WrittenNumber ? given.double : given;
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 0) throw expected(given, 'an integer that is not negative');
  if (value > LARGEST_COUNT) throw new Unheld(`found ${shown(given)}; expected at most ${LARGEST_COUNT}`);
  return value;
}

export function decimalIn(value: unknown): Decimal {
  if (!isNumber(value)) throw expected(value, 'a number');
  return decimalOf(value);
}
