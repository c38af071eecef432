/** Types that a JSON schema allows, for notations that write values as bare text. */
import { isRecord } from './json.ts';

export type ValueKind = 'string' | 'number' | 'boolean' | 'null' | 'object' | 'array';

/** Kinds of values that a schema allows, and the strings that it names (enum, const). */
export interface ValueTypes {
  readonly kinds: ReadonlySet<ValueKind>;
  readonly texts: ReadonlySet<string>;
}

/** A schema with its document, in which references are resolved. */
export interface Subschema {
  readonly schema: unknown;
  readonly root: unknown;
}

const ALL: readonly ValueKind[] = ['string', 'number', 'boolean', 'null', 'object', 'array'];

/** Keywords that tell the type of a schema without `type`. */
const IMPLIED: readonly (readonly [ValueKind, readonly string[]])[] = [
  ['object', ['properties', 'additionalProperties', 'required']],
  ['array', ['items', 'prefixItems']],
  ['string', ['pattern', 'format', 'minLength', 'maxLength']],
  ['number', ['minimum', 'maximum', 'multipleOf']],
];

/** Limit of nested references and combinations, which may refer to themselves. */
const MAX_DEPTH = 32;

export function kindOf(value: unknown): ValueKind {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  const type = typeof value;
  return type === 'string' || type === 'number' || type === 'boolean' ? type : 'object';
}

/** The schema that a reference within the document refers to. */
function referred(root: unknown, reference: unknown): unknown {
  if (typeof reference !== 'string' || !/^#(?:\/|$)/.test(reference)) return undefined;
  let value = root;
  for (const part of reference.slice(1).split('/').slice(1)) {
    const key = unescaped(part).replaceAll('~1', '/').replaceAll('~0', '~');
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Record<string, unknown>)[key];
  }
  return value;
}

function unescaped(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? (value as unknown[]) : []);

/** All kinds that a schema allows; every kind if it says nothing, or contradicts itself. */
export function typesOf({ schema, root }: Subschema): ValueTypes {
  const texts = new Set<string>();
  const kinds = kindsOf(schema, root, texts, 0);
  return { kinds: kinds && kinds.size > 0 ? kinds : new Set(ALL), texts };
}

/** Undefined: the schema says nothing about the type. */
function kindsOf(schema: unknown, root: unknown, texts: Set<string>, depth: number): Set<ValueKind> | undefined {
  if (!isRecord(schema) || depth > MAX_DEPTH) return undefined;
  const inner = (one: unknown): Set<ValueKind> | undefined => kindsOf(one, root, texts, depth + 1);
  const given = [schema.type].flat().filter((type) => typeof type === 'string');
  const rules: (Set<ValueKind> | undefined)[] = [];
  if (given.length > 0) {
    const named = given.map((type) => (type === 'integer' ? 'number' : type)).filter((type) => ALL.includes(type as ValueKind));
    rules.push(new Set([...named, ...(schema.nullable === true ? ['null'] : [])] as ValueKind[]));
  }
  const values = 'const' in schema ? [schema.const] : listOf(schema.enum);
  if (values.length > 0) {
    for (const value of values) if (typeof value === 'string') texts.add(value);
    rules.push(new Set(values.map(kindOf)));
  }
  if ('$ref' in schema) rules.push(inner(referred(root, schema.$ref)));
  for (const one of listOf(schema.allOf)) rules.push(inner(one));
  for (const choice of [schema.anyOf, schema.oneOf]) {
    const choices = listOf(choice).map(inner);
    if (choices.length > 0 && choices.every((one) => one !== undefined)) rules.push(new Set(choices.flatMap((one) => [...one])));
  }
  const known = rules.filter((rule) => rule !== undefined);
  if (known.length > 0) return known.reduce((all, rule) => new Set([...all].filter((kind) => rule.has(kind))));
  const implied = IMPLIED.filter(([, keywords]) => keywords.some((keyword) => keyword in schema)).map(([kind]) => kind);
  return implied.length === 1 ? new Set(implied) : undefined;
}

/** The schema of an object's member or a list's element, in whichever part of the schema names it. */
export function within({ schema, root }: Subschema, key: string | number, depth = 0): Subschema {
  if (!isRecord(schema) || depth > MAX_DEPTH) return { schema: undefined, root };
  const own = typeof key === 'string' ? memberOf(schema, key) : (listOf(schema.prefixItems)[key] ?? schema.items);
  if (own !== undefined) return { schema: own, root };
  const parts = [referred(root, schema.$ref), ...listOf(schema.allOf), ...listOf(schema.anyOf), ...listOf(schema.oneOf)];
  for (const part of parts) {
    const found = within({ schema: part, root }, key, depth + 1);
    if (found.schema !== undefined) return found;
  }
  return { schema: undefined, root };
}

function memberOf({ properties, additionalProperties }: Record<string, unknown>, key: string): unknown {
  if (isRecord(properties) && Object.hasOwn(properties, key)) return properties[key];
  return isRecord(additionalProperties) ? additionalProperties : undefined;
}
