/** Converts a JSON schema to GBNF. */
import { atOnce, type Work } from '../slices.ts';
import { withWrittenNumbers, writtenJson } from './exact-number.ts';
import { gbnfChoice, gbnfRepeat, gbnfText } from './gbnf-text.ts';
import { RuleBook } from './rule-book.ts';
import { boundedNumber, isBounded } from './schema-number.ts';
import { patternToGbnf } from './schema-pattern.ts';
import type { Plain } from './schema-keywords.ts';
import { createExpander, type Expander } from './schema-plain.ts';
import { keyExcept, quoted, STRING_FORMATS } from './schema-string.ts';
import { schemaError } from './schema-error.ts';
import { refuseLarge } from './schema-size.ts';
import { resolveReference, type JsonSchema, type JsonType, type Located } from './schema.ts';
import { createValueTest } from './schema-values.ts';

export type { JsonSchema } from './schema.ts';

/** Real schemas have tens to hundreds of values, generated ones a few thousand. */
const MOST = { values: 50_000, characters: 500_000 };
/**
 * Longest property name in characters. If other properties are allowed too, the grammar of all
 * other names needs a rule for each character of the listed ones.
 */
const MAX_NAME = 1000;
const ANYTHING: Located = { schema: true, pointer: '' };

/** Grammar of any JSON object, for `response_format: { type: 'json_object' }`. */
export function jsonObjectGrammar(): string {
  return jsonSchemaToGrammar({ type: 'object' });
}

/**
 * Makes a GBNF grammar for JSON that satisfies the schema, though not for every such text.
 * Properties come in the order of the schema. Objects and arrays are closed if the schema lists
 * their parts and does not open them itself (additionalProperties, items). Numbers have a bounded
 * number of digits. oneOf is read as anyOf.
 * @throws QuantletError ERR_GRAMMAR naming the keyword and its JSON pointer, or the part that
 * nothing satisfies
 */
export function jsonSchemaToGrammar(schema: JsonSchema): string {
  return atOnce(jsonSchemaWork(schema));
}

/** jsonSchemaToGrammar() as a generator that pauses. */
export function* jsonSchemaWork(schema: JsonSchema): Work<string> {
  refuseLarge(schema, MOST);
  return yield* new SchemaGrammar(withWrittenNumbers(schema)).text();
}

/**
 * A rule for values that satisfy several schemas together. It may refer to itself while it is being
 * written.
 */
interface SchemaRule {
  readonly name: string;
  /**
   * The rule's name after it is written; undefined before, and if no value satisfies the schemas.
   */
  expression: string | undefined;
  done: boolean;
  /** True if another rule refers to this one. */
  used: boolean;
}

/**
 * Writes the grammar of one schema. Methods return an expression, or undefined if no value
 * satisfies the given schemas.
 */
class SchemaGrammar {
  readonly #document: JsonSchema;
  readonly #expand: Expander;
  readonly #accepts: ReturnType<typeof createValueTest>;
  readonly #book = new RuleBook();
  /** Rules by the pointers of their schemas. */
  readonly #known = new Map<string, SchemaRule>();

  constructor(document: JsonSchema) {
    this.#document = document;
    this.#expand = createExpander(document);
    this.#accepts = createValueTest(this.#expand);
  }

  *text(): Work<string> {
    const root = yield* this.#ruleFor([{ schema: this.#document, pointer: '' }]);
    if (root === undefined) throw schemaError('', 'no value satisfies this schema');
    return this.#book.text(root);
  }

  /** The rule for values that satisfy all of these schemas. */
  *#ruleFor(schemas: readonly Located[]): Work<string | undefined> {
    yield;
    const all = schemas.map((located) => follow(this.#document, located));
    const pointers = all.filter(({ schema }) => schema !== true).map(({ pointer }) => `#${pointer}`);
    if (pointers.length === 0) return this.#book.share('value');
    const key = [...new Set(pointers)].join('&');
    const known = this.#known.get(key);
    if (known) {
      known.used = true;
      return known.done ? known.expression : known.name;
    }
    const { pointer } = all[all.length - 1];
    const rule: SchemaRule = {
      name: pointer === '' ? 'root' : this.#book.nameFor(pointer),
      expression: undefined,
      done: false,
      used: false,
    };
    this.#known.set(key, rule);
    const alternatives: (string | undefined)[] = [];
    for (const plain of yield* this.#expand(all)) alternatives.push(yield* this.#plain(plain));
    const body = gbnfChoice(alternatives);
    if (body === undefined && rule.used) throw schemaError(pointer, 'no value satisfies this schema, because it refers to itself');
    rule.done = true;
    if (body !== undefined) {
      this.#book.write(rule.name, body);
      rule.expression = rule.name;
    }
    return rule.expression;
  }

  *#plain(plain: Plain): Work<string | undefined> {
    yield;
    if (plain.values) return yield* this.#values(plain, plain.values);
    const types = plain.types ?? impliedTypes(plain);
    if (types.length === 0 && !plain.types) return this.#book.share('value');
    const texts: (string | undefined)[] = [];
    for (const type of types) if (type !== 'integer' || !types.includes('number')) texts.push(yield* this.#ofType(plain, type));
    return gbnfChoice(texts);
  }

  /** The listed values that also satisfy the other keywords. */
  *#values(plain: Plain, values: readonly unknown[]): Work<string | undefined> {
    const texts: string[] = [];
    for (const value of values) {
      if (yield* this.#accepts(plain, value)) texts.push(gbnfText(writtenJson(value)));
      yield;
    }
    return gbnfChoice(texts);
  }

  *#ofType(plain: Plain, type: JsonType): Work<string | undefined> {
    // prettier-ignore
    switch (type) {
      case 'null': case 'boolean': return this.#book.share(type);
      case 'integer': case 'number': return isBounded(plain) ? boundedNumber(type, plain) : this.#book.share(type);
      case 'string': return yield* this.#string(plain);
      case 'array': return yield* this.#array(plain);
      case 'object': return yield* this.#object(plain);
    }
  }

  *#string({ minLength, maxLength, pattern, format, pointer }: Plain): Work<string | undefined> {
    const sized = minLength !== undefined || maxLength !== undefined;
    if ((pattern !== undefined || format !== undefined) && (sized || (pattern !== undefined && format !== undefined))) {
      throw schemaError(
        pointer,
        'pattern, format and minLength or maxLength are combined; expected only one of them (a pattern can limit the length)',
      );
    }
    if (pattern !== undefined) return quoted(yield* patternToGbnf(pattern, this.#book.share('char'), `#${pointer}/pattern`));
    if (format !== undefined) return quoted(contentOfFormat(format, pointer));
    const least = minLength ?? 0;
    const most = maxLength ?? Infinity;
    if (least === 0 && most === Infinity) return this.#book.share('string');
    return least > most ? undefined : quoted(gbnfRepeat(this.#book.share('char'), least, most));
  }

  *#array({ prefix, items, minItems = 0, maxItems = Infinity }: Plain): Work<string | undefined> {
    const book = this.#book;
    if (prefix.length === 0 && !items && minItems === 0 && maxItems === Infinity) return book.share('array');
    book.share('ws');
    // More items may follow the listed ones only if the schema says so or requires more than it
    // lists.
    const rest = items ?? (prefix.length === 0 || minItems > prefix.length ? [ANYTHING] : undefined);
    const restRule = rest && maxItems > prefix.length ? yield* this.#ruleFor(rest) : undefined;
    const listed: string[] = [];
    for (const schemas of prefix.slice(0, maxItems)) {
      const item = yield* this.#ruleFor(schemas);
      if (item === undefined) break;
      listed.push(item);
    }
    const open = restRule !== undefined && listed.length === prefix.length;
    if (minItems > maxItems || (!open && minItems > listed.length)) return undefined;
    const content =
      prefix.length > 0
        ? this.#listed(listed, minItems, open ? moreItems(restRule, minItems - prefix.length, maxItems - prefix.length) : '')
        : open
          ? allItems(restRule, minItems, maxItems)
          : '';
    return book.rule('array', `"[" ws ${content} ws "]"`);
  }

  /** The listed items, optional from `minItems` on, then `rest`. */
  #listed(items: readonly string[], minItems: number, rest: string): string {
    let content = rest;
    for (let i = items.length - 1; i >= 0; i--) {
      const item = `${i > 0 ? 'ws "," ws ' : ''}${items[i]}${content === '' || content.startsWith(' ') ? content : ` ${content}`}`;
      // Each item is a rule instead of a nested group, because groups have a limit of depth.
      content = i >= minItems ? `${this.#book.rule('items', item)}?` : item;
    }
    return content;
  }

  *#object({ properties, required, additional, pointer }: Plain): Work<string | undefined> {
    const book = this.#book;
    if (properties.size === 0 && required.size === 0 && !additional) return book.share('object');
    book.share('ws');
    const names = [...properties.keys(), ...[...required].filter((name) => !properties.has(name))];
    const long = names.find((name) => name.length > MAX_NAME);
    if (long !== undefined) throw schemaError(pointer, `a property's name has ${long.length} characters; expected at most ${MAX_NAME}`);
    const others = additional ? yield* this.#otherProperties(names, additional) : undefined;
    const members = new Members(book, others);
    for (const name of names.reverse()) {
      yield;
      const schemas = properties.get(name) ?? additional ?? [];
      const value = schemas.length === 0 ? book.share('value') : yield* this.#ruleFor(schemas);
      if (value !== undefined) members.addBefore(name, value, required.has(name));
      else if (required.has(name)) return undefined;
    }
    return book.rule('object', `"{" ws ${members.text} ws "}"`);
  }

  /**
   * The rule for a property with a name not in `names`; undefined if no value is allowed for it.
   */
  *#otherProperties(names: readonly string[], schemas: readonly Located[]): Work<string | undefined> {
    const value = yield* this.#ruleFor(schemas);
    if (value === undefined) return undefined;
    const book = this.#book;
    book.share('key-char');
    const key = names.length === 0 ? book.share('string') : yield* keyExcept(names, (hint, body) => book.rule(hint, body));
    return book.rule('other', property(key, value));
  }
}

/** Writes the members of an object, from the last property to the first. */
class Members {
  readonly #book: RuleBook;
  /** Members so far in the case that another one precedes: begins with a comma. */
  #after: string;
  /** Members so far in the case that they come first. */
  #first: string;

  constructor(book: RuleBook, others: string | undefined) {
    this.#book = book;
    this.#after = others === undefined ? '' : `(ws "," ws ${others})*`;
    this.#first = others === undefined ? '' : `(${others} ${this.#after})?`;
  }

  get text(): string {
    return this.#first;
  }

  addBefore(name: string, value: string, required: boolean): void {
    const book = this.#book;
    const pair = book.rule(`${name}-entry`, property(gbnfText(JSON.stringify(name)), value));
    // A rule, because the text is used twice: after this property and after earlier ones.
    if (this.#after !== '' && !book.has(this.#after)) this.#after = book.rule('rest', this.#after);
    const after = this.#after;
    if (required) this.#first = `${pair} ${after}`;
    else if (this.#first === '') this.#first = `(${pair} ${after})?`;
    // Each alternative is a rule instead of a nested group, because groups have a limit of depth.
    else this.#first = `(${pair} ${after} | ${book.has(this.#first) ? this.#first : book.rule('first', this.#first)})`;
    this.#after = required ? `ws "," ws ${pair} ${after}` : `(ws "," ws ${pair})? ${after}`;
  }
}

const property = (key: string, value: string): string => `${key} ws ":" ws ${value}`;

/** From `min` to `max` further items, each after a comma. */
const moreItems = (rule: string, min: number, max: number): string =>
  max <= 0 ? '' : ` ${gbnfRepeat(`(ws "," ws ${rule})`, Math.max(0, min), max)}`;

/** From `min` to `max` items of one kind. */
function allItems(rule: string, min: number, max: number): string {
  if (max <= 0) return '';
  return min === 0 ? `(${rule}${moreItems(rule, 0, max - 1)})?` : `${rule}${moreItems(rule, min - 1, max - 1)}`;
}

function contentOfFormat(format: string, pointer: string): string {
  const content = STRING_FORMATS[format];
  if (content === undefined)
    throw schemaError(
      `${pointer}/format`,
      `the format ${JSON.stringify(format)} cannot be turned into a grammar; expected ${Object.keys(STRING_FORMATS).join(', ')}`,
    );
  return content;
}

/** Types implied by the keywords of a schema without `type`. Other types are excluded. */
function impliedTypes(plain: Plain): JsonType[] {
  const types: JsonType[] = [];
  if (plain.properties.size > 0 || plain.required.size > 0 || plain.additional) types.push('object');
  if (plain.prefix.length > 0 || plain.items || plain.minItems !== undefined || plain.maxItems !== undefined) types.push('array');
  if (plain.minLength !== undefined || plain.maxLength !== undefined || plain.pattern !== undefined || plain.format !== undefined)
    types.push('string');
  if (isBounded(plain)) types.push('number');
  return types;
}

/** Follows a schema that consists of a `$ref` alone, so that equal targets become one rule. */
function follow(document: JsonSchema, located: Located): Located {
  const seen = new Set<string>();
  for (let at = located; ;) {
    if (typeof at.schema !== 'object' || at.schema === null || Object.keys(at.schema).length !== 1 || at.schema.$ref === undefined)
      return at;
    if (seen.has(at.pointer)) throw schemaError(located.pointer, '$ref leads back to itself with no other schema in between');
    seen.add(at.pointer);
    at = resolveReference(document, at.schema.$ref, at.pointer);
  }
}
