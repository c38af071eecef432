/**
 * One alternative of a schema in plain form: combinators multiplied out, so that all facts must
 * hold together. Facts about a type do not concern values of other types.
 */
import { compareDecimals, writtenJson, type Decimal } from '../exact-number.ts';
import { jsonKey, type JsonSchema } from '../schema.ts';
import { ANY_NUMBER, type NumberFacts } from './number-facts.ts';
import type { Regex } from './regex.ts';

/** Kinds of values, as bits. */
export const KIND = { null: 1, true: 2, false: 4, number: 8, string: 16, array: 32, object: 64 } as const;
export const ALL_KINDS = 127;

/** A schema, or its negation, and its JSON pointer in the document. */
export interface Part {
  readonly schema: JsonSchema;
  readonly pointer: string;
  readonly negated?: boolean;
}

/** A language of strings, and the keyword that asks for it. */
export interface StringFact {
  readonly language: Regex;
  readonly pointer: string;
  readonly keyword: string;
}

/** The keywords of one schema that give a property its schema. */
export interface ObjectSource {
  readonly properties: ReadonlyMap<string, Part>;
  readonly patterns: readonly { readonly language: Regex; readonly part: Part }[];
  /** For names that neither `properties` nor `patterns` have. */
  readonly others?: Part | undefined;
  /** True if these properties are evaluated ones for unevaluatedProperties. */
  readonly evaluates?: boolean;
}

/** Some property must have a name of this language and a value that satisfies `part`. */
export interface Witness {
  readonly names: Regex;
  readonly part: Part;
}

export interface ObjectFacts {
  readonly sources: readonly ObjectSource[];
  readonly required: ReadonlySet<string>;
  /** Names that a property requires. */
  readonly dependents: readonly { readonly name: string; readonly requires: readonly string[] }[];
  readonly min: number;
  readonly max: number;
  /** Languages that all names belong to. */
  readonly names: readonly Regex[];
  readonly witnesses: readonly Witness[];
}

/** The keywords of one schema that give an item its schema. */
export interface ArraySource {
  readonly prefix: readonly Part[];
  readonly rest?: Part | undefined;
  /** True if these items are evaluated ones for unevaluatedItems. */
  readonly evaluates?: boolean;
}

export interface Contains {
  readonly part: Part;
  readonly min: number;
  readonly max: number;
}

export interface ArrayFacts {
  readonly sources: readonly ArraySource[];
  readonly min: number;
  readonly max: number;
  readonly contains: readonly Contains[];
  /** Pointer of the schema whose uniqueItems applies. */
  readonly unique?: string | undefined;
}

export interface Facts {
  /** The kinds of values that are allowed. */
  readonly kinds: number;
  /** True if a keyword names the types. */
  readonly typed: boolean;
  readonly strings: readonly StringFact[];
  readonly numbers: NumberFacts;
  readonly objects: ObjectFacts;
  readonly arrays: ArrayFacts;
  /** True if a keyword was left out, so that more may be evaluated than these facts say. */
  readonly partial?: boolean;
}

export const ANY_OBJECT: ObjectFacts = {
  sources: [],
  required: new Set(),
  dependents: [],
  min: 0,
  max: Infinity,
  names: [],
  witnesses: [],
};
export const ANY_ARRAY: ArrayFacts = { sources: [], min: 0, max: Infinity, contains: [] };
export const ANYTHING: Facts = { kinds: ALL_KINDS, typed: false, strings: [], numbers: ANY_NUMBER, objects: ANY_OBJECT, arrays: ANY_ARRAY };

/** Facts about strings, numbers, objects or arrays alone. */
export const aboutStrings = (fact: StringFact): Facts => ({ ...ANYTHING, strings: [fact] });
export const aboutNumbers = (facts: Partial<NumberFacts>): Facts => ({ ...ANYTHING, numbers: { ...ANY_NUMBER, ...facts } });
export const aboutObjects = (facts: Partial<ObjectFacts>): Facts => ({ ...ANYTHING, objects: { ...ANY_OBJECT, ...facts } });
export const aboutArrays = (facts: Partial<ArrayFacts>): Facts => ({ ...ANYTHING, arrays: { ...ANY_ARRAY, ...facts } });
/** The same facts, of values of these kinds alone. */
export const only = (kinds: number, facts: Facts = ANYTHING): Facts => ({ ...facts, kinds, typed: true });

const higher = (a: Decimal, b: Decimal): Decimal => (compareDecimals(a, b) > 0 ? a : b);
const lower = (a: Decimal, b: Decimal): Decimal => (compareDecimals(a, b) < 0 ? a : b);

type ListedNumbers = NonNullable<NumberFacts['values']>;

function either<T>(choose: (a: T, b: T) => T, a: T | undefined, b: T | undefined): T | undefined {
  return a === undefined ? b : b === undefined ? a : choose(a, b);
}

/** The facts that hold if both do; undefined if no value has them. */
export function both(a: Facts, b: Facts): Facts | undefined {
  if (a === ANYTHING) return b;
  if (b === ANYTHING) return a;
  let kinds = a.kinds & b.kinds;
  if (a.numbers.whole !== undefined && b.numbers.whole !== undefined && a.numbers.whole !== b.numbers.whole) kinds &= ~KIND.number;
  const objects = bothObjects(a.objects, b.objects);
  const arrays = bothArrays(a.arrays, b.arrays);
  if (objects.min > objects.max || objects.required.size > objects.max) kinds &= ~KIND.object;
  if (arrays.min > arrays.max) kinds &= ~KIND.array;
  if (kinds === 0) return undefined;
  return {
    kinds,
    typed: a.typed || b.typed,
    strings: a.strings.length === 0 ? b.strings : [...a.strings, ...b.strings],
    numbers: bothNumbers(a.numbers, b.numbers),
    objects,
    arrays,
    ...(a.partial || b.partial ? { partial: true } : {}),
  };
}

/** Facts whose properties and items are not evaluated ones: of const, enum and not. */
export function unevaluating(facts: Facts): Facts {
  const without = <S extends { readonly evaluates?: boolean }>(sources: readonly S[]): S[] =>
    sources.map((source) => (source.evaluates ? { ...source, evaluates: false } : source));
  const { objects, arrays } = facts;
  if (![...objects.sources, ...arrays.sources].some(({ evaluates }) => evaluates)) return facts;
  return {
    ...facts,
    objects: { ...objects, sources: without(objects.sources) },
    arrays: { ...arrays, sources: without(arrays.sources) },
  };
}

function bothNumbers(a: NumberFacts, b: NumberFacts): NumberFacts {
  if (a === ANY_NUMBER) return b;
  if (b === ANY_NUMBER) return a;
  return {
    whole: a.whole ?? b.whole,
    minimum: either(higher, a.minimum, b.minimum),
    maximum: either(lower, a.maximum, b.maximum),
    exclusiveMinimum: either(higher, a.exclusiveMinimum, b.exclusiveMinimum),
    exclusiveMaximum: either(lower, a.exclusiveMaximum, b.exclusiveMaximum),
    multiples: [...a.multiples, ...b.multiples],
    notMultiples: [...a.notMultiples, ...b.notMultiples],
    values: either(sharedNumbers, a.values, b.values),
    notValues: [...a.notValues, ...b.notValues],
  };
}

/** Numbers by their values, for lists that are compared with others. */
const numbersByKey = new WeakMap<ListedNumbers, ReadonlyMap<string, ListedNumbers[number]>>();

function byKey(list: ListedNumbers): ReadonlyMap<string, ListedNumbers[number]> {
  let map = numbersByKey.get(list);
  if (!map) numbersByKey.set(list, (map = new Map(list.map((value) => [jsonKey(value), value]))));
  return map;
}

/** The numbers that both lists have, each in its shorter spelling. */
function sharedNumbers(a: ListedNumbers, b: ListedNumbers): ListedNumbers {
  const [few, many] = a.length <= b.length ? [a, b] : [b, a];
  const others = byKey(many);
  return few.flatMap((value) => {
    const other = others.get(jsonKey(value));
    return other === undefined ? [] : [writtenJson(other).length < writtenJson(value).length ? other : value];
  });
}

function bothObjects(a: ObjectFacts, b: ObjectFacts): ObjectFacts {
  if (a === ANY_OBJECT) return b;
  if (b === ANY_OBJECT) return a;
  return {
    sources: [...a.sources, ...b.sources],
    required: new Set([...a.required, ...b.required]),
    dependents: [...a.dependents, ...b.dependents],
    min: Math.max(a.min, b.min),
    max: Math.min(a.max, b.max),
    names: [...new Set([...a.names, ...b.names])],
    witnesses: [...a.witnesses, ...b.witnesses],
  };
}

function bothArrays(a: ArrayFacts, b: ArrayFacts): ArrayFacts {
  if (a === ANY_ARRAY) return b;
  if (b === ANY_ARRAY) return a;
  return {
    sources: [...a.sources, ...b.sources],
    min: Math.max(a.min, b.min),
    max: Math.min(a.max, b.max),
    contains: [...a.contains, ...b.contains],
    unique: a.unique ?? b.unique,
  };
}
