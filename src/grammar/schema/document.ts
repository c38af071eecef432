/** References between the schemas of one document. */
import { shortJson } from '../../chat/json.ts';
import { escapePointer, valueAt, type JsonSchema } from '../schema.ts';
import { Malformed, Unheld } from './relaxed.ts';

/** Base of relative references in a document without a name. */
const NAMELESS = 'json-schema:///';
/** Keywords whose values are schemas, lists of schemas, or objects of schemas by name. */
const ONE =
  'not if then else items additionalItems additionalProperties contains propertyNames unevaluatedItems unevaluatedProperties'.split(' ');
const LISTS = 'allOf anyOf oneOf items prefixItems'.split(' ');
const NAMED = '$defs definitions properties patternProperties dependentSchemas dependencies'.split(' ');
/** The draft of JSON Schema that a keyword came with, if that was after draft 4. */
const SINCE: Readonly<Record<string, number>> = { const: 6, contains: 6, propertyNames: 6, if: 7, then: 7, else: 7 };

interface Target {
  readonly schema: JsonSchema;
  readonly pointer: string;
}

/** Finds the schemas of one document by their names and by pointers. */
export class SchemaDocument {
  readonly #root: Target;
  /** Schemas with a name, by URI without fragment. */
  readonly #resources = new Map<string, Target>();
  /** Schemas by URI and anchor. */
  readonly #anchors = new Map<string, Target>();
  /** Schemas with $dynamicAnchor by its name, and with $recursiveAnchor by an empty name. */
  readonly #dynamic = new Map<string, (Target & { readonly base: string })[]>();
  /** True if some schema has unevaluatedProperties or unevaluatedItems. */
  hasUnevaluated = false;
  /** URIs that schemas are relative to, where these differ from the root's. */
  readonly #bases = new Map<string, string>();
  /** The draft that the document names, if that is draft 7 or older. */
  readonly #draft: number;

  constructor(schema: JsonSchema) {
    this.#root = { schema, pointer: '' };
    const dialect = typeof schema === 'object' ? schema.$schema : undefined;
    this.#draft = Number((typeof dialect === 'string' && /draft-0([3-7])/.exec(dialect)?.[1]) || Infinity);
    this.#resources.set(NAMELESS, this.#root);
    this.#index(schema, '', NAMELESS);
  }

  /** True for keywords that the document's draft ignores: later ones, and those beside `$ref`. */
  ignores(keyword: string, schema: Readonly<Record<string, unknown>>): boolean {
    return this.#draft < (SINCE[keyword] ?? 0) || (this.#draft <= 7 && schema.$ref !== undefined && keyword !== '$ref');
  }

  #index(value: unknown, pointer: string, outer: string): void {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return;
    const schema = value as Record<string, unknown>;
    const base = this.#name(schema, pointer, outer);
    this.hasUnevaluated ||= schema.unevaluatedProperties !== undefined || schema.unevaluatedItems !== undefined;
    const inside = (keyword: string, all: boolean): void => {
      const parts = schema[keyword];
      const at = `${pointer}/${keyword}`;
      if (!all) this.#index(parts, at, base);
      else if (typeof parts === 'object' && parts !== null)
        for (const [key, part] of Object.entries(parts)) this.#index(part, `${at}/${escapePointer(key)}`, base);
    };
    for (const keyword of ONE) inside(keyword, false);
    for (const keyword of LISTS) if (Array.isArray(schema[keyword])) inside(keyword, true);
    for (const keyword of NAMED) inside(keyword, true);
  }

  /** Notes the names of a schema. Returns the URI that references in it are relative to. */
  #name(schema: Record<string, unknown>, pointer: string, outer: string): string {
    const { $id, id, $anchor, $dynamicAnchor } = schema;
    const given = typeof $id === 'string' ? $id : id;
    const name = typeof given === 'string' && !this.ignores('$id', schema) ? given : undefined;
    const target: Target = { schema, pointer };
    let base = outer;
    if (name?.startsWith('#')) this.#anchors.set(`${base}${name}`, target);
    else if (name !== undefined) {
      base = withoutFragment(resolved(name, outer) ?? outer);
      if (!this.#resources.has(base)) this.#resources.set(base, target);
      if (base !== NAMELESS) this.#bases.set(pointer, base);
    }
    const dynamic = schema.$recursiveAnchor === true ? '' : $dynamicAnchor;
    if (typeof dynamic === 'string') this.#dynamic.set(dynamic, [...(this.#dynamic.get(dynamic) ?? []), { ...target, base }]);
    for (const anchor of [$anchor, $dynamicAnchor]) if (typeof anchor === 'string') this.#anchors.set(`${base}#${anchor}`, target);
    return base;
  }

  /** The URI that references of a schema are relative to: its own name, or that of a schema around it. */
  #baseOf(pointer: string): string {
    for (let at = pointer; ; at = at.slice(0, at.lastIndexOf('/'))) {
      const base = this.#bases.get(at);
      if (base !== undefined) return base;
      if (at === '') return NAMELESS;
    }
  }

  /**
   * The schema that a reference leads to.
   * @param pointer the schema that contains the reference
   * @throws Unheld if the document does not contain it
   */
  follow(reference: unknown, pointer: string): Target {
    const target = typeof reference === 'string' ? this.#find(reference, pointer) : undefined;
    if (target) return target;
    const why = `${shortJson(reference)} does not exist in this document; expected a reference like #/$defs/name`;
    throw typeof reference === 'string' && !reference.startsWith('#') ? new Unheld(why) : new Malformed(why);
  }

  /**
   * The schema that $dynamicRef or $recursiveRef leads to. The outermost schema with the same anchor
   * is meant. That is the document itself if it has the anchor.
   * @throws Unheld if it depends on the way to the reference
   */
  followDynamic(reference: unknown, pointer: string): Target {
    const target = this.follow(reference, pointer);
    const name = typeof reference === 'string' ? (/#([^/]*)$/.exec(reference)?.[1] ?? '') : '';
    const all = this.#dynamic.get(name) ?? [];
    if (!all.some((one) => one.pointer === target.pointer)) return target;
    const root = this.#bases.get('') ?? NAMELESS;
    const outermost = all.length === 1 ? all[0] : all.find(({ base }) => base === root);
    if (!outermost) throw new Unheld('its target depends on the schemas around it; expected $ref');
    return { schema: outermost.schema, pointer: outermost.pointer };
  }

  #find(reference: string, pointer: string): Target | undefined {
    const uri = resolved(reference, this.#baseOf(pointer));
    if (uri === undefined) return undefined;
    const hash = uri.indexOf('#');
    const fragment = hash < 0 ? '' : uri.slice(hash + 1);
    const resource = this.#resources.get(withoutFragment(uri));
    if (fragment !== '' && !fragment.startsWith('/')) return this.#anchors.get(uri) ?? this.#anchors.get(decoded(uri) ?? uri);
    // Names of embedded schemas are often written without any thought of references.
    return (resource && at(resource, fragment)) ?? (reference.startsWith('#') ? at(this.#root, fragment) : undefined);
  }
}

const withoutFragment = (uri: string): string => uri.replace(/#.*$/s, '');

function resolved(reference: string, base: string): string | undefined {
  try {
    return new URL(reference, base).href;
  } catch {
    return undefined;
  }
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/** The value at a pointer of a resource. */
function at(resource: Target, fragment: string): Target | undefined {
  const pointer = decoded(fragment);
  if (pointer === undefined) return undefined;
  const value = valueAt(resource.schema, pointer);
  return value === undefined ? undefined : { schema: value as JsonSchema, pointer: `${resource.pointer}${pointer}` };
}
