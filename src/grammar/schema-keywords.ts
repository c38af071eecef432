/** Converts the keywords of one JSON schema to the form from which grammars are written. */
import { shortJson } from '../chat/json.ts';
import type { QuantletError } from '../errors.ts';
import { compareDecimals, decimalOf, isNumber, WrittenNumber, type Bounds, type Decimal } from './exact-number.ts';
import { schemaError } from './schema-error.ts';
import { escapePointer, jsonKey, shown, type JsonSchema, type JsonType, type Located } from './schema.ts';

/**
 * One alternative of a schema, with references and combinators resolved. A list of Located means
 * that all its schemas must be satisfied.
 */
export interface Plain extends Bounds {
  /**
   * Identifies the schemas that it was made of. Equal keys mean equal schemas; empty if anything is
   * allowed.
   */
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

/** Keywords that change what is valid and that a grammar here does not hold. Others are annotations. */
const UNSUPPORTED = new Set([
  '$dynamicRef',
  '$recursiveRef',
  'contains',
  'dependencies',
  'dependentRequired',
  'dependentSchemas',
  'if',
  'maxProperties',
  'minProperties',
  'multipleOf',
  'not',
  'patternProperties',
  'propertyNames',
  'unevaluatedItems',
  'unevaluatedProperties',
]);
const NUMERIC_FORMATS = new Set(['int32', 'int64', 'float', 'double']);
/** Largest magnitude of a bound. */
const LARGEST = decimalOf(1e21);
const TYPES: readonly string[] = ['null', 'boolean', 'object', 'array', 'number', 'integer', 'string'];

type Draft = { -readonly [K in keyof Plain]: Plain[K] };
type Keywords = Readonly<Record<string, unknown>>;

/** A keyword's value and pointer, and the pointer and keywords of its schema. */
interface Keyword {
  readonly value: unknown;
  readonly at: string;
  readonly pointer: string;
  readonly schema: Keywords;
}

/** Writes a keyword into the plain form. */
type Reader = (plain: Draft, keyword: Keyword) => void;

const located = (schema: unknown, pointer: string): Located => ({ schema: schema as JsonSchema, pointer });

function listOf(value: unknown, at: string, expected = 'a list of schemas'): readonly unknown[] {
  if (!Array.isArray(value)) throw schemaError(at, `expected ${expected}`);
  return value;
}

function textOf(value: unknown, at: string, expected: string): string {
  if (typeof value !== 'string') throw schemaError(at, `expected ${expected}`);
  return value;
}

function countOf(given: unknown, at: string): number {
  const value = given instanceof WrittenNumber ? given.double : given;
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 0 || value >= 2 ** 31)
    throw schemaError(at, `found ${shown(given)}; expected an integer from 0 to 2^31 - 1`);
  return value;
}

function numberOf(value: unknown, at: string): Decimal {
  const decimal = isNumber(value) ? decimalOf(value) : undefined;
  if (!decimal || compareDecimals({ ...decimal, negative: false }, LARGEST) > 0)
    throw schemaError(at, `found ${shown(value)}; expected a number between -1e21 and 1e21`);
  return decimal;
}

const itemsAt = (list: readonly unknown[], at: string): (readonly Located[])[] => list.map((schema, i) => [located(schema, `${at}/${i}`)]);

const count =
  (name: 'minItems' | 'maxItems' | 'minLength' | 'maxLength'): Reader =>
  (plain, { value, at }) =>
    void (plain[name] = countOf(value, at));

const bound =
  (name: 'minimum' | 'maximum'): Reader =>
  (plain, { value, at }) =>
    void (plain[name] = numberOf(value, at));

/** In draft 4 this keyword is a boolean that makes minimum or maximum exclusive. */
const exclusiveBound =
  (name: 'exclusiveMinimum' | 'exclusiveMaximum', inclusive: 'minimum' | 'maximum'): Reader =>
  (plain, { value, at, schema, pointer }) => {
    if (value === true) plain[name] = numberOf(schema[inclusive], `${pointer}/${inclusive}`);
    else if (value !== false) plain[name] = numberOf(value, at);
  };

const READERS: Readonly<Record<string, Reader>> = {
  type(plain, { value, at }) {
    const types = Array.isArray(value) ? (value as unknown[]) : [value];
    if (!types.every((type) => typeof type === 'string' && TYPES.includes(type)))
      throw schemaError(at, `found ${shortJson(value)}; expected ${TYPES.join(', ')} or a list of those`);
    plain.types = types as JsonType[];
  },
  nullable() {}, // OpenAPI's keyword; plainOf() handles it, because it depends on the type.
  const: (plain, { value }) => void (plain.values = [value]),
  enum: (plain, { value, at }) => void (plain.values = listOf(value, at, 'a list of values')),
  properties(plain, { value, at }) {
    if (typeof value !== 'object' || value === null) throw schemaError(at, 'expected an object of schemas');
    plain.properties = new Map(Object.entries(value).map(([name, schema]) => [name, [located(schema, `${at}/${escapePointer(name)}`)]]));
  },
  required(plain, { value, at }) {
    const names = listOf(value, at, 'a list of property names');
    if (!names.every((name) => typeof name === 'string')) throw schemaError(at, 'expected a list of property names');
    plain.required = new Set(names);
  },
  additionalProperties: (plain, { value, at }) => void (plain.additional = [located(value, at)]),
  items(plain, { value, at }) {
    if (Array.isArray(value)) plain.prefix = itemsAt(value, at);
    else plain.items = [located(value, at)];
  },
  prefixItems: (plain, { value, at }) => void (plain.prefix = itemsAt(listOf(value, at), at)),
  additionalItems(plain, { value, at, schema }) {
    if (Array.isArray(schema.items)) plain.items = [located(value, at)];
  },
  minItems: count('minItems'),
  maxItems: count('maxItems'),
  minLength: count('minLength'),
  maxLength: count('maxLength'),
  minimum: bound('minimum'),
  maximum: bound('maximum'),
  exclusiveMinimum: exclusiveBound('exclusiveMinimum', 'minimum'),
  exclusiveMaximum: exclusiveBound('exclusiveMaximum', 'maximum'),
  pattern: (plain, { value, at }) => void (plain.pattern = textOf(value, at, 'a regular expression')),
  format(plain, { value, at }) {
    const format = textOf(value, at, 'the name of a format');
    if (!NUMERIC_FORMATS.has(format)) plain.format = format;
  },
  uniqueItems(_, { value, at }) {
    if (value !== false) throw unsupported(at, 'uniqueItems');
  },
};

/**
 * Reads the keywords of one schema object, except combinators.
 * @throws QuantletError ERR_GRAMMAR for keywords that a grammar cannot enforce
 */
export function plainOf(schema: Keywords, pointer: string): Plain {
  const plain: Draft = { key: '', pointer, properties: new Map(), required: new Set(), prefix: [] };
  for (const [keyword, value] of Object.entries(schema)) {
    if (value === undefined) continue;
    const isRead = Object.hasOwn(READERS, keyword);
    if (!isRead && !UNSUPPORTED.has(keyword)) continue;
    plain.key = `#${pointer}`;
    const at = `${pointer}/${escapePointer(keyword)}`;
    if (!isRead) throw unsupported(at, keyword);
    READERS[keyword](plain, { value, at, pointer, schema });
  }
  if (schema.nullable === true && plain.types && !plain.types.includes('null')) plain.types = [...plain.types, 'null'];
  if (schema.const !== undefined && Array.isArray(schema.enum)) {
    const key = jsonKey(schema.const);
    plain.values = schema.enum.filter((value) => jsonKey(value) === key);
  }
  return plain;
}

function unsupported(pointer: string, keyword: string): QuantletError {
  return schemaError(pointer, `the keyword ${keyword} cannot be turned into a grammar; expected a schema without it`);
}
