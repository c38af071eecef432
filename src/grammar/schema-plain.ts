/** Converts JSON schemas to plain form: references followed, allOf and anyOf multiplied out. */
import type { Work } from '../slices.ts';
import { compareDecimals, WrittenNumber, type Decimal } from './exact-number.ts';
import { schemaError } from './schema-error.ts';
import { plainOf, type Plain } from './schema-keywords.ts';
import { jsonKey, resolveReference, shown, type JsonSchema, type JsonType, type Located } from './schema.ts';

const MAX_ALTERNATIVES = 2000;
/** Longest chain of references. */
const MAX_CHAIN = 200;
/**
 * Limits of schemas combined, for one list and in total. Definitions that each refer twice to the
 * next double this number at each definition.
 */
const MAX_PARTS = 10_000;
const MAX_ALL_PARTS = 200_000;
/**
 * Limit of properties and values copied by combinations, in total. 2,000 alternatives of 10,000
 * properties would fill the memory.
 */
const MAX_COPIED = 500_000;
/**
 * Number of schemas, copied properties and copied values between two pauses. A pause costs a step
 * through all enclosing generators.
 */
const STRIDE = 256;

/** Returns the alternatives that satisfy all schemas of a list. */
export type Expander = (all: readonly Located[]) => Work<readonly Plain[]>;

/**
 * @throws QuantletError ERR_GRAMMAR for keywords that a grammar cannot enforce, and for references
 * that lead nowhere or to themselves
 */
export function createExpander(document: JsonSchema): Expander {
  const expansion = new Expansion(document);
  return (all) => expansion.alternatives(all);
}

/** Expands schemas of one document, within limits per list of schemas and in total. */
class Expansion {
  readonly #document: JsonSchema;
  /** Number of schemas combined for the current list, and for all earlier lists. */
  #parts = 0;
  #partsBefore = 0;
  /** Number of properties and values copied by combinations. */
  #copied = 0;
  /** Steps since the last pause. */
  #steps = 0;

  constructor(document: JsonSchema) {
    this.#document = document;
  }

  *alternatives(all: readonly Located[]): Work<readonly Plain[]> {
    this.#partsBefore += this.#parts;
    this.#parts = 0;
    if (this.#partsBefore > MAX_ALL_PARTS)
      throw schemaError('', `references and combinations expand to more than ${MAX_ALL_PARTS} schemas`);
    let plains: readonly Plain[] = [{ key: '', pointer: all[0]?.pointer ?? '', properties: new Map(), required: new Set(), prefix: [] }];
    for (const located of all) plains = yield* this.#product(plains, yield* this.#expand(located, new Set()), located.pointer);
    return plains;
  }

  *#pause(steps: number): Work<void> {
    this.#steps += steps;
    if (this.#steps < STRIDE) return;
    this.#steps = 0;
    yield;
  }

  /** Combines every alternative of a with every alternative of b. */
  *#product(a: readonly Plain[], b: readonly Plain[], pointer: string): Work<readonly Plain[]> {
    if (a.length * b.length > MAX_ALTERNATIVES)
      throw schemaError(pointer, `combinations of allOf, anyOf and oneOf expand to more than ${MAX_ALTERNATIVES} alternatives`);
    const plains: Plain[] = [];
    for (const x of a) {
      for (const y of b) {
        const size = x.key === '' || y.key === '' ? 0 : sizeOf(x) + sizeOf(y);
        this.#copied += size;
        if (this.#copied > MAX_COPIED)
          throw schemaError(pointer, `combinations of allOf, anyOf and oneOf repeat more than ${MAX_COPIED} properties and values`);
        plains.push(both(x, y));
        yield* this.#pause(size + 1);
      }
    }
    return plains;
  }

  /** @param followed pointers of the references that led here */
  *#expand({ schema, pointer }: Located, followed: ReadonlySet<string>): Work<readonly Plain[]> {
    if (++this.#parts > MAX_PARTS) throw schemaError(pointer, `references and combinations expand to more than ${MAX_PARTS} schemas`);
    if (schema === false) return [];
    if (schema === true) return [plainOf({}, pointer)];
    if (typeof schema !== 'object' || schema instanceof WrittenNumber)
      throw schemaError(pointer, `found ${shown(schema)}; expected true, false or an object`);
    if (schema === null || Array.isArray(schema)) throw schemaError(pointer, 'found null or an array; expected a schema');
    let plains: readonly Plain[] = [plainOf(schema, pointer)];
    for (const keyword of ['allOf', 'anyOf', 'oneOf']) {
      const list: unknown = schema[keyword];
      if (list === undefined) continue;
      const at = `${pointer}/${keyword}`;
      if (!Array.isArray(list) || list.length === 0) throw schemaError(at, 'expected a list of schemas');
      const options: Plain[] = [];
      for (const [i, part] of (list as JsonSchema[]).entries()) {
        const each = yield* this.#expand({ schema: part, pointer: `${at}/${i}` }, followed);
        if (keyword === 'allOf') plains = yield* this.#product(plains, each, pointer);
        else options.push(...each);
        yield* this.#pause(1);
      }
      if (keyword !== 'allOf') plains = yield* this.#product(plains, options, pointer);
    }
    if (schema.$ref === undefined) return plains;
    return yield* this.#product(plains, yield* this.#follow(schema.$ref, pointer, followed), pointer);
  }

  *#follow(reference: unknown, pointer: string, followed: ReadonlySet<string>): Work<readonly Plain[]> {
    const target = resolveReference(this.#document, reference, pointer);
    if (followed.size >= MAX_CHAIN)
      throw schemaError(pointer, `$ref leads through more than ${MAX_CHAIN} other references; expected a reference to the schema itself`);
    if (followed.has(target.pointer))
      throw schemaError(pointer, `$ref ${String(reference)} leads back to itself with no other schema in between`);
    return yield* this.#expand(target, new Set([...followed, target.pointer]));
  }
}

/** Number of properties and values that a combination copies. */
const sizeOf = ({ properties, required, prefix, values = [] }: Plain): number =>
  properties.size + required.size + prefix.length + values.length;

/** The schema for values that satisfy both a and b. */
function both(a: Plain, b: Plain): Plain {
  if (a.key === '') return b;
  if (b.key === '') return a;
  const properties = new Map<string, readonly Located[]>();
  for (const name of new Set([...a.properties.keys(), ...b.properties.keys()])) {
    // A property that only one side names must satisfy the other side's additionalProperties.
    properties.set(name, [...(a.properties.get(name) ?? a.additional ?? []), ...(b.properties.get(name) ?? b.additional ?? [])]);
  }
  const at = (plain: Plain, i: number): readonly Located[] => plain.prefix[i] ?? plain.items ?? [];
  for (const keyword of ['pattern', 'format'] as const) {
    if (a[keyword] !== undefined && b[keyword] !== undefined && a[keyword] !== b[keyword])
      throw schemaError(b.pointer, `two different values of ${keyword} apply at once; expected one`);
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
  const covers = (types: readonly JsonType[], type: JsonType): boolean =>
    types.includes(type) || (type === 'integer' && types.includes('number'));
  return [...new Set([...a, ...b])].filter((type) => covers(a, type) && covers(b, type));
}

function shared(a: readonly unknown[], b: readonly unknown[]): unknown[] {
  const keys = new Set(b.map(jsonKey));
  return a.filter((value) => keys.has(jsonKey(value)));
}
