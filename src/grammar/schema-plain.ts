/** JSON schemas brought into one plain form: references followed, allOf and anyOf multiplied out. */
import { shortJson } from '../chat/json.ts';
import type { QuantletError } from '../errors.ts';
import type { Work } from '../slices.ts';
import { compareDecimals, decimalOf, isNumber, WrittenNumber, type Decimal } from './exact-number.ts';
import { schemaError } from './schema-error.ts';
import type { Bounds } from './schema-number.ts';

/** A JSON Schema: true (anything), false (nothing), or keywords. */
export type JsonSchema = boolean | { readonly [keyword: string]: unknown };

export type JsonType = 'null' | 'boolean' | 'object' | 'array' | 'number' | 'integer' | 'string';

/** A schema and where it stands in the document, as a JSON pointer. */
export interface Located {
  readonly schema: JsonSchema;
  readonly pointer: string;
}

/**
 * One way to satisfy a schema, with references and combinators resolved. Lists of Located all hold at once.
 */
export interface Plain extends Bounds {
  /** names the schemas it was made of: equal keys, equal meaning; empty where anything is allowed */
  readonly key: string;
  readonly pointer: string;
  readonly types?: readonly JsonType[];
  readonly values?: readonly unknown[];
  readonly properties: ReadonlyMap<string, readonly Located[]>;
  readonly required: ReadonlySet<string>;
  readonly additional?: readonly Located[];
  readonly prefix: readonly (readonly Located[])[];
  readonly items?: readonly Located[];
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly format?: string;
}

/** Keywords that say something to people or tools, not about the text. */
const ANNOTATIONS = new Set([
  '$schema',
  '$id',
  '$comment',
  '$defs',
  'definitions',
  'title',
  'description',
  'default',
  'examples',
  'example',
  'deprecated',
  'readOnly',
  'writeOnly',
  'contentMediaType',
  'contentEncoding',
  'discriminator',
  'strict',
  'name',
]);
const COMBINATORS = new Set(['$ref', 'allOf', 'anyOf', 'oneOf']);
const NUMERIC_FORMATS = new Set(['int32', 'int64', 'float', 'double']);
const TYPES: readonly string[] = ['null', 'boolean', 'object', 'array', 'number', 'integer', 'string'];
/** Bounds of bounds. */
const LARGEST = decimalOf(1e21);
const MAX_ALTERNATIVES = 2000;
/** References that lead on to further references. */
const MAX_CHAIN = 200;
/** Schemas that one may be made of, and all together: definitions that each refer twice to the next double with every one of them. */
const MAX_PARTS = 10_000;
const MAX_ALL_PARTS = 200_000;
/** Schemas, and properties and values that are written down again, between two places where the work may pause. */
const STRIDE = 256;
/** Properties and values that combining schemas writes down again, all together: two thousand alternatives of ten thousand properties would fill the memory. */
const MAX_COPIED = 500_000;

/** A value for a message. */
const shown = (value: unknown): string => (value instanceof WrittenNumber ? value.text.slice(0, 80) : shortJson(value));

export const escapePointer = (part: string): string => part.replaceAll('~', '~0').replaceAll('/', '~1');

/** Turns lists of schemas into the ways to satisfy them, with pauses. */
export type Expander = (all: readonly Located[]) => Work<readonly Plain[]>;

/** @throws QuantletError ERR_GRAMMAR for keywords that cannot be kept, references that lead nowhere or to themselves */
export function createExpander(document: JsonSchema): Expander {
  let parts = 0;
  let before = 0;
  let copied = 0;
  let steps = 0;
  return function* (all) {
    before += parts;
    parts = 0;
    if (before > MAX_ALL_PARTS) throw schemaError('', `its references and combinations make more than ${MAX_ALL_PARTS} schemas together`);
    let ways: readonly Plain[] = [{ key: '', pointer: all[0]?.pointer ?? '', properties: new Map(), required: new Set(), prefix: [] }];
    for (const located of all) ways = yield* product(ways, yield* expand(located, new Set()), located.pointer);
    return ways;
  };

  function* product(a: readonly Plain[], b: readonly Plain[], pointer: string): Work<readonly Plain[]> {
    if (a.length * b.length > MAX_ALTERNATIVES)
      throw schemaError(pointer, `its combinations of allOf, anyOf and oneOf make more than ${MAX_ALTERNATIVES} alternatives`);
    const ways: Plain[] = [];
    for (const x of a) {
      for (const y of b) {
        const size = x.key === '' || y.key === '' ? 0 : sizeOf(x) + sizeOf(y);
        copied += size;
        steps += size;
        if (copied > MAX_COPIED)
          throw schemaError(pointer, `its combinations of allOf, anyOf and oneOf repeat more than ${MAX_COPIED} properties and values`);
        ways.push(both(x, y));
        // (Not at every one: each pause goes through all the schemas that this one is in.)
        if (++steps >= STRIDE) {
          steps = 0;
          yield;
        }
      }
    }
    return ways;
  }

  function* expand({ schema, pointer }: Located, followed: ReadonlySet<string>): Work<readonly Plain[]> {
    if (++parts > MAX_PARTS) throw schemaError(pointer, `its references and combinations make more than ${MAX_PARTS} schemas`);
    if (schema === false) return [];
    if ((typeof schema !== 'object' && schema !== true) || schema instanceof WrittenNumber)
      throw schemaError(pointer, `found ${shown(schema)}, expected true, false or an object`);
    if (schema === null || Array.isArray(schema)) throw schemaError(pointer, 'found null or an array, expected a schema');
    let ways: readonly Plain[] = [plainOf(schema === true ? {} : schema, pointer)];
    if (schema === true) return ways;
    const at = (keyword: string, i: number): Located => ({
      schema: (schema[keyword] as JsonSchema[])[i],
      pointer: `${pointer}/${keyword}/${i}`,
    });
    for (const keyword of ['allOf', 'anyOf', 'oneOf']) {
      const list = schema[keyword];
      if (list === undefined) continue;
      if (!Array.isArray(list) || list.length === 0) throw schemaError(`${pointer}/${keyword}`, 'expected a list of schemas');
      const options: Plain[] = [];
      for (let i = 0; i < list.length; i++) {
        const each = yield* expand(at(keyword, i), followed);
        if (keyword === 'allOf') ways = yield* product(ways, each, pointer);
        else options.push(...each);
        if (++steps >= STRIDE) {
          steps = 0;
          yield;
        }
      }
      if (keyword !== 'allOf') ways = yield* product(ways, options, pointer);
    }
    if (schema.$ref !== undefined) {
      const target = resolveReference(document, schema.$ref, pointer);
      if (followed.size >= MAX_CHAIN)
        throw schemaError(pointer, `$ref leads through more than ${MAX_CHAIN} further ones: expected it to lead to its schema`);
      if (followed.has(target.pointer))
        throw schemaError(pointer, `$ref ${String(schema.$ref)} leads back to itself without anything in between`);
      ways = yield* product(ways, yield* expand(target, new Set([...followed, target.pointer])), pointer);
    }
    return ways;
  }
}

/** What combining a schema writes down again. */
const sizeOf = ({ properties, required, prefix, values = [] }: Plain): number =>
  properties.size + required.size + prefix.length + values.length;

export function resolveReference(document: JsonSchema, reference: unknown, pointer: string): Located {
  if (typeof reference !== 'string' || !/^#(\/|$)/.test(reference))
    throw schemaError(`${pointer}/$ref`, `found ${shortJson(reference)}, expected a reference within this document, as #/$defs/name`);
  const target = decoded(reference.slice(1), pointer);
  let value: unknown = document;
  for (const part of target.split('/').slice(1)) {
    const key = part.replaceAll('~1', '/').replaceAll('~0', '~');
    value = typeof value === 'object' && value !== null && Object.hasOwn(value, key) ? (value as Record<string, unknown>)[key] : undefined;
  }
  if (value === undefined) throw schemaError(`${pointer}/$ref`, `${reference} does not exist in this document`);
  return { schema: value as JsonSchema, pointer: target };
}

function decoded(reference: string, pointer: string): string {
  try {
    return decodeURIComponent(reference);
  } catch {
    throw schemaError(
      `${pointer}/$ref`,
      `found ${shortJson(reference)}, in which a % does not begin the code of a character, expected a reference as #/$defs/name`,
    );
  }
}

/** The keywords of one schema object, those that combine schemas left aside. */
function plainOf(schema: { readonly [keyword: string]: unknown }, pointer: string): Plain {
  const plain: { -readonly [K in keyof Plain]: Plain[K] } = { key: '', pointer, properties: new Map(), required: new Set(), prefix: [] };
  const count = (keyword: string): number => {
    const given = schema[keyword];
    const value = given instanceof WrittenNumber ? given.double : given;
    if (typeof value !== 'number' || !Number.isInteger(value) || value < 0 || value >= 2 ** 31)
      throw schemaError(`${pointer}/${keyword}`, `found ${shown(given)}, expected an integer from 0 to 2^31 - 1`);
    return value;
  };
  const number = (keyword: string): Decimal => {
    const value = schema[keyword];
    const decimal = isNumber(value) ? decimalOf(value) : undefined;
    if (!decimal || compareDecimals({ ...decimal, negative: false }, LARGEST) > 0)
      throw schemaError(`${pointer}/${keyword}`, `found ${shown(value)}, expected a number between -1e21 and 1e21`);
    return decimal;
  };
  for (const [keyword, value] of Object.entries(schema)) {
    if (value === undefined) continue;
    if (!COMBINATORS.has(keyword) && !ANNOTATIONS.has(keyword)) plain.key = `#${pointer}`;
    const sub = `${pointer}/${escapePointer(keyword)}`;
    switch (keyword) {
      case 'type': {
        const types = Array.isArray(value) ? (value as unknown[]) : [value];
        if (!types.every((type) => typeof type === 'string' && TYPES.includes(type)))
          throw schemaError(sub, `found ${shortJson(value)}, expected ${TYPES.join(', ')} or a list of those`);
        plain.types = types as JsonType[];
        break;
      }
      case 'nullable':
        break; // OpenAPI's, see below
      case 'const':
        plain.values = [value];
        break;
      case 'enum':
        if (!Array.isArray(value)) throw schemaError(sub, 'expected a list of values');
        plain.values = value;
        break;
      case 'properties':
        if (typeof value !== 'object' || value === null) throw schemaError(sub, 'expected an object of schemas');
        plain.properties = new Map(
          Object.entries(value).map(([name, schema]) => [
            name,
            [{ schema: schema as JsonSchema, pointer: `${sub}/${escapePointer(name)}` }],
          ]),
        );
        break;
      case 'required':
        if (!Array.isArray(value) || !value.every((name) => typeof name === 'string'))
          throw schemaError(sub, 'expected a list of property names');
        plain.required = new Set(value as string[]);
        break;
      case 'additionalProperties':
        plain.additional = [{ schema: value as JsonSchema, pointer: sub }];
        break;
      case 'items':
        if (Array.isArray(value)) plain.prefix = value.map((schema, i) => [{ schema: schema as JsonSchema, pointer: `${sub}/${i}` }]);
        else plain.items = [{ schema: value as JsonSchema, pointer: sub }];
        break;
      case 'prefixItems':
        if (!Array.isArray(value)) throw schemaError(sub, 'expected a list of schemas');
        plain.prefix = value.map((schema, i) => [{ schema: schema as JsonSchema, pointer: `${sub}/${i}` }]);
        break;
      case 'additionalItems':
        if (Array.isArray(schema.items)) plain.items = [{ schema: value as JsonSchema, pointer: sub }];
        break;
      case 'minItems':
      case 'maxItems':
      case 'minLength':
      case 'maxLength':
        plain[keyword] = count(keyword);
        break;
      case 'minimum':
      case 'maximum':
        plain[keyword] = number(keyword);
        break;
      case 'exclusiveMinimum':
      case 'exclusiveMaximum': {
        // draft 4 has a boolean that makes minimum or maximum exclusive
        const inclusive = keyword === 'exclusiveMinimum' ? 'minimum' : 'maximum';
        if (value === true) plain[keyword] = number(inclusive);
        else if (value !== false) plain[keyword] = number(keyword);
        break;
      }
      case 'pattern':
        if (typeof value !== 'string') throw schemaError(sub, 'expected a regular expression');
        plain.pattern = value;
        break;
      case 'format':
        if (typeof value !== 'string') throw schemaError(sub, 'expected the name of a format');
        if (!NUMERIC_FORMATS.has(value)) plain.format = value;
        break;
      case 'uniqueItems':
        if (value !== false) throw unsupported(sub, keyword);
        break;
      default:
        if (!ANNOTATIONS.has(keyword) && !COMBINATORS.has(keyword) && !keyword.startsWith('x-')) throw unsupported(sub, keyword);
    }
  }
  if (schema.nullable === true && plain.types && !plain.types.includes('null')) plain.types = [...plain.types, 'null'];
  if (schema.const !== undefined && Array.isArray(schema.enum)) {
    const key = jsonKey(schema.const);
    plain.values = schema.enum.filter((value) => jsonKey(value) === key);
  }
  return plain;
}

function unsupported(pointer: string, keyword: string): QuantletError {
  return schemaError(
    pointer,
    `the keyword ${keyword} cannot be turned into a grammar: expected a schema without it (annotations and x-... are ignored)`,
  );
}

/** What satisfies a and b. */
function both(a: Plain, b: Plain): Plain {
  if (a.key === '') return b;
  if (b.key === '') return a;
  const properties = new Map<string, readonly Located[]>();
  for (const name of new Set([...a.properties.keys(), ...b.properties.keys()])) {
    // a property that one side does not name falls under its additionalProperties
    properties.set(name, [...(a.properties.get(name) ?? a.additional ?? []), ...(b.properties.get(name) ?? b.additional ?? [])]);
  }
  const at = (plain: Plain, i: number): readonly Located[] => plain.prefix[i] ?? plain.items ?? [];
  for (const keyword of ['pattern', 'format'] as const) {
    if (a[keyword] !== undefined && b[keyword] !== undefined && a[keyword] !== b[keyword])
      throw schemaError(b.pointer, `two different ${keyword}s at once: expected one`);
  }
  return {
    key: `${a.key}&${b.key}`,
    pointer: a.pointer.length <= b.pointer.length ? a.pointer : b.pointer,
    types: a.types && b.types ? commonTypes(a.types, b.types) : (a.types ?? b.types),
    values: a.values && b.values ? shared(a.values, b.values) : (a.values ?? b.values),
    properties,
    required: new Set([...a.required, ...b.required]),
    additional: a.additional || b.additional ? [...(a.additional ?? []), ...(b.additional ?? [])] : undefined,
    prefix: Array.from({ length: Math.max(a.prefix.length, b.prefix.length) }, (_, i) => [...at(a, i), ...at(b, i)]),
    items: a.items || b.items ? [...(a.items ?? []), ...(b.items ?? [])] : undefined,
    minItems: least(Math.max, a.minItems, b.minItems),
    maxItems: least(Math.min, a.maxItems, b.maxItems),
    minLength: least(Math.max, a.minLength, b.minLength),
    maxLength: least(Math.min, a.maxLength, b.maxLength),
    pattern: a.pattern ?? b.pattern,
    format: a.format ?? b.format,
    minimum: least(higher, a.minimum, b.minimum),
    maximum: least(lower, a.maximum, b.maximum),
    exclusiveMinimum: least(higher, a.exclusiveMinimum, b.exclusiveMinimum),
    exclusiveMaximum: least(lower, a.exclusiveMaximum, b.exclusiveMaximum),
  };
}

const higher = (a: Decimal, b: Decimal): Decimal => (compareDecimals(a, b) > 0 ? a : b);
const lower = (a: Decimal, b: Decimal): Decimal => (compareDecimals(a, b) < 0 ? a : b);

function least<T>(choose: (a: T, b: T) => T, a: T | undefined, b: T | undefined): T | undefined {
  return a === undefined ? b : b === undefined ? a : choose(a, b);
}

function commonTypes(a: readonly JsonType[], b: readonly JsonType[]): JsonType[] {
  const holds = (types: readonly JsonType[], type: JsonType): boolean =>
    types.includes(type) || (type === 'integer' && types.includes('number'));
  return [...new Set([...a, ...b])].filter((type) => holds(a, type) && holds(b, type));
}

function shared(a: readonly unknown[], b: readonly unknown[]): unknown[] {
  const keys = new Set(b.map(jsonKey));
  return a.filter((value) => keys.has(jsonKey(value)));
}

/** A text that equal JSON values have in common, and others have not: the order of properties does not matter. */
export function jsonKey(value: unknown): string {
  if (value instanceof WrittenNumber) return value.key;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(jsonKey).join()}]`;
  const names = Object.keys(value).sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${jsonKey((value as Record<string, unknown>)[name])}`).join()}}`;
}
