/** JSON schemas brought into one plain form: references followed, allOf and anyOf multiplied out. */
import { QuantletError } from '../errors.ts';

/** A JSON Schema: true (anything), false (nothing), or keywords. */
export type JsonSchema = boolean | { readonly [keyword: string]: unknown };

export type JsonType = 'null' | 'boolean' | 'object' | 'array' | 'number' | 'integer' | 'string';

/** A schema and where it stands in the document, as a JSON pointer. */
export interface Located { readonly schema: JsonSchema; readonly pointer: string }

/**
 * One way to satisfy a schema, with references and combinators resolved. Lists of Located all hold at once.
 */
export interface Plain {
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
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
}

/** Keywords that say something to people or tools, not about the text. */
const ANNOTATIONS = new Set(['$schema', '$id', '$comment', '$defs', 'definitions', 'title', 'description', 'default', 'examples', 'example', 'deprecated', 'readOnly', 'writeOnly', 'contentMediaType', 'contentEncoding', 'discriminator', 'strict', 'name']);
const COMBINATORS = new Set(['$ref', 'allOf', 'anyOf', 'oneOf']);
const NUMERIC_FORMATS = new Set(['int32', 'int64', 'float', 'double']);
const TYPES: readonly string[] = ['null', 'boolean', 'object', 'array', 'number', 'integer', 'string'];
const MAX_ALTERNATIVES = 2000;
/** References that lead on to further references. */
const MAX_CHAIN = 200;
/** Schemas that one may be made of, and all together: definitions that each refer twice to the next double with every one of them. */
const MAX_PARTS = 10_000, MAX_ALL_PARTS = 200_000;

export function schemaError(pointer: string, message: string): QuantletError {
  return new QuantletError('ERR_GRAMMAR', `schema ${pointer === '' ? '#' : `#${pointer}`}: ${message}`);
}

export const escapePointer = (part: string): string => part.replaceAll('~', '~0').replaceAll('/', '~1');

/** Turns lists of schemas into the ways to satisfy them. */
export type Expander = (all: readonly Located[]) => readonly Plain[];

/** @throws QuantletError ERR_GRAMMAR for keywords that cannot be kept, references that lead nowhere or to themselves */
export function createExpander(document: JsonSchema): Expander {
  let parts = 0, before = 0;
  return (all) => {
    before += parts;
    parts = 0;
    if (before > MAX_ALL_PARTS) throw schemaError('', `its references and combinations make more than ${MAX_ALL_PARTS} schemas together`);
    const nothing: Plain = { key: '', pointer: all[0]?.pointer ?? '', properties: new Map(), required: new Set(), prefix: [] };
    return all.reduce<readonly Plain[]>((ways, located) => product(ways, expand(located, new Set()), located.pointer), [nothing]);
  };

  function expand({ schema, pointer }: Located, followed: ReadonlySet<string>): readonly Plain[] {
    if (++parts > MAX_PARTS) throw schemaError(pointer, `its references and combinations make more than ${MAX_PARTS} schemas`);
    if (schema === false) return [];
    if (typeof schema !== 'object' && schema !== true) throw schemaError(pointer, `found ${JSON.stringify(schema)}, expected true, false or an object`);
    if (schema === null || Array.isArray(schema)) throw schemaError(pointer, 'found null or an array, expected a schema');
    let ways: readonly Plain[] = [plainOf(schema === true ? {} : schema, pointer)];
    if (schema === true) return ways;
    const at = (keyword: string, i: number): Located => ({ schema: (schema[keyword] as JsonSchema[])[i], pointer: `${pointer}/${keyword}/${i}` });
    for (const keyword of ['allOf', 'anyOf', 'oneOf']) {
      const list = schema[keyword];
      if (list === undefined) continue;
      if (!Array.isArray(list) || list.length === 0) throw schemaError(`${pointer}/${keyword}`, 'expected a list of schemas');
      const each = list.map((_, i) => expand(at(keyword, i), followed));
      if (keyword === 'allOf') for (const options of each) ways = product(ways, options, pointer);
      else ways = product(ways, each.flat(), pointer);
    }
    if (schema.$ref !== undefined) {
      const target = resolveReference(document, schema.$ref, pointer);
      if (followed.size >= MAX_CHAIN) throw schemaError(pointer, `$ref leads through more than ${MAX_CHAIN} further ones: expected it to lead to its schema`);
      if (followed.has(target.pointer)) throw schemaError(pointer, `$ref ${String(schema.$ref)} leads back to itself without anything in between`);
      ways = product(ways, expand(target, new Set([...followed, target.pointer])), pointer);
    }
    return ways;
  }
}

function product(a: readonly Plain[], b: readonly Plain[], pointer: string): readonly Plain[] {
  if (a.length * b.length > MAX_ALTERNATIVES) throw schemaError(pointer, `its combinations of allOf, anyOf and oneOf make more than ${MAX_ALTERNATIVES} alternatives`);
  return a.flatMap((x) => b.map((y) => both(x, y)));
}

export function resolveReference(document: JsonSchema, reference: unknown, pointer: string): Located {
  if (typeof reference !== 'string' || !/^#(\/|$)/.test(reference)) throw schemaError(`${pointer}/$ref`, `found ${JSON.stringify(reference)}, expected a reference within this document, as #/$defs/name`);
  const target = decodeURIComponent(reference.slice(1));
  let value: unknown = document;
  for (const part of target.split('/').slice(1)) {
    const key = part.replaceAll('~1', '/').replaceAll('~0', '~');
    value = typeof value === 'object' && value !== null && Object.hasOwn(value, key) ? (value as Record<string, unknown>)[key] : undefined;
  }
  if (value === undefined) throw schemaError(`${pointer}/$ref`, `${reference} does not exist in this document`);
  return { schema: value as JsonSchema, pointer: target };
}

/** The keywords of one schema object, those that combine schemas left aside. */
function plainOf(schema: { readonly [keyword: string]: unknown }, pointer: string): Plain {
  const plain: { -readonly [K in keyof Plain]: Plain[K] } = { key: '', pointer, properties: new Map(), required: new Set(), prefix: [] };
  const count = (keyword: string): number => {
    const value = schema[keyword];
    if (typeof value !== 'number' || !Number.isInteger(value) || value < 0) throw schemaError(`${pointer}/${keyword}`, `found ${JSON.stringify(value)}, expected an integer from 0 on`);
    return value;
  };
  const number = (keyword: string): number => {
    const value = schema[keyword];
    if (typeof value !== 'number' || !(Math.abs(value) <= 1e21)) throw schemaError(`${pointer}/${keyword}`, `found ${JSON.stringify(value)}, expected a number between -1e21 and 1e21`);
    return value;
  };
  for (const [keyword, value] of Object.entries(schema)) {
    if (value === undefined) continue;
    if (!COMBINATORS.has(keyword) && !ANNOTATIONS.has(keyword)) plain.key = `#${pointer}`;
    const sub = `${pointer}/${escapePointer(keyword)}`;
    switch (keyword) {
      case 'type': {
        const types = Array.isArray(value) ? value as unknown[] : [value];
        if (!types.every((type) => typeof type === 'string' && TYPES.includes(type))) throw schemaError(sub, `found ${JSON.stringify(value)}, expected ${TYPES.join(', ')} or a list of those`);
        plain.types = types as JsonType[];
        break;
      }
      case 'nullable': break; // OpenAPI's, see below
      case 'const': plain.values = [value]; break;
      case 'enum':
        if (!Array.isArray(value)) throw schemaError(sub, 'expected a list of values');
        plain.values = value;
        break;
      case 'properties':
        if (typeof value !== 'object' || value === null) throw schemaError(sub, 'expected an object of schemas');
        plain.properties = new Map(Object.entries(value).map(([name, schema]) => [name, [{ schema: schema as JsonSchema, pointer: `${sub}/${escapePointer(name)}` }]]));
        break;
      case 'required':
        if (!Array.isArray(value) || !value.every((name) => typeof name === 'string')) throw schemaError(sub, 'expected a list of property names');
        plain.required = new Set(value as string[]);
        break;
      case 'additionalProperties': plain.additional = [{ schema: value as JsonSchema, pointer: sub }]; break;
      case 'items':
        if (Array.isArray(value)) plain.prefix = value.map((schema, i) => [{ schema: schema as JsonSchema, pointer: `${sub}/${i}` }]);
        else plain.items = [{ schema: value as JsonSchema, pointer: sub }];
        break;
      case 'prefixItems':
        if (!Array.isArray(value)) throw schemaError(sub, 'expected a list of schemas');
        plain.prefix = value.map((schema, i) => [{ schema: schema as JsonSchema, pointer: `${sub}/${i}` }]);
        break;
      case 'additionalItems': if (Array.isArray(schema.items)) plain.items = [{ schema: value as JsonSchema, pointer: sub }]; break;
      case 'minItems': case 'maxItems': case 'minLength': case 'maxLength': plain[keyword] = count(keyword); break;
      case 'minimum': case 'maximum': plain[keyword] = number(keyword); break;
      case 'exclusiveMinimum': case 'exclusiveMaximum': {
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
      case 'uniqueItems': if (value !== false) throw unsupported(sub, keyword); break;
      default: if (!ANNOTATIONS.has(keyword) && !COMBINATORS.has(keyword) && !keyword.startsWith('x-')) throw unsupported(sub, keyword);
    }
  }
  if (schema.nullable === true && plain.types && !plain.types.includes('null')) plain.types = [...plain.types, 'null'];
  if (schema.const !== undefined && Array.isArray(schema.enum)) plain.values = schema.enum.filter((value) => sameJson(value, schema.const));
  return plain;
}

function unsupported(pointer: string, keyword: string): QuantletError {
  return schemaError(pointer, `the keyword ${keyword} cannot be turned into a grammar: expected a schema without it (annotations and x-... are ignored)`);
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
    if (a[keyword] !== undefined && b[keyword] !== undefined && a[keyword] !== b[keyword]) throw schemaError(b.pointer, `two different ${keyword}s at once: expected one`);
  }
  return {
    key: `${a.key}&${b.key}`,
    pointer: a.pointer.length <= b.pointer.length ? a.pointer : b.pointer,
    types: a.types && b.types ? commonTypes(a.types, b.types) : a.types ?? b.types,
    values: a.values && b.values ? a.values.filter((value) => b.values!.some((other) => sameJson(value, other))) : a.values ?? b.values,
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
    minimum: least(Math.max, a.minimum, b.minimum),
    maximum: least(Math.min, a.maximum, b.maximum),
    exclusiveMinimum: least(Math.max, a.exclusiveMinimum, b.exclusiveMinimum),
    exclusiveMaximum: least(Math.min, a.exclusiveMaximum, b.exclusiveMaximum),
  };
}

function least(choose: (a: number, b: number) => number, a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined ? b : b === undefined ? a : choose(a, b);
}

function commonTypes(a: readonly JsonType[], b: readonly JsonType[]): JsonType[] {
  const holds = (types: readonly JsonType[], type: JsonType): boolean => types.includes(type) || (type === 'integer' && types.includes('number'));
  return [...new Set([...a, ...b])].filter((type) => holds(a, type) && holds(b, type));
}

/** Equality of JSON values; the order of properties does not matter. */
export function sameJson(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null || Array.isArray(a) !== Array.isArray(b)) return false;
  const x = a as Record<string, unknown>, y = b as Record<string, unknown>;
  const names = Object.keys(x);
  return names.length === Object.keys(y).length && names.every((name) => Object.hasOwn(y, name) && sameJson(x[name], y[name]));
}
