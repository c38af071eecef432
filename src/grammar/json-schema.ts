/** A JSON schema as GBNF. */
import { atOnce, type Work } from '../slices.ts';
import { withWrittenNumbers, writtenJson } from './exact-number.ts';
import { gbnfChoice, gbnfRepeat, gbnfText } from './gbnf-text.ts';
import { boundedNumber } from './schema-number.ts';
import { patternToGbnf } from './schema-pattern.ts';
import { schemaError } from './schema-error.ts';
import { createExpander, resolveReference } from './schema-plain.ts';
import type { JsonSchema, JsonType, Located, Plain } from './schema-plain.ts';
import { keyExcept, quoted, SHARED_RULES, STRING_FORMATS } from './schema-string.ts';
import { createValueTest } from './schema-values.ts';

export type { JsonSchema } from './schema-plain.ts';

const MAX_DEPTH = 200;
/** Values in a schema, and characters of its texts: schemas come from clients, and what is made of them takes memory and time. Real ones have tens to hundreds, generated ones a few thousand. */
const MAX_VALUES = 50_000;
const MAX_CHARACTERS = 500_000;
/** Characters of the grammar: what is written out from a small schema again and again. */
const MAX_TEXT = 1_000_000;
/** Characters of a property's name: other names are told from it character by character, each with a rule. */
const MAX_NAME = 1000;
const ANYTHING: Located = { schema: true, pointer: '' };

/** Any JSON object: what `response_format: { type: 'json_object' }` asks for. */
export function jsonObjectGrammar(): string {
  return jsonSchemaToGrammar({ type: 'object' });
}

/**
 * A GBNF grammar whose texts are JSON that satisfies the schema: not always every such text. Properties come in the
 * order of the schema; objects and arrays are closed where the schema lists their parts and does not open them itself
 * (additionalProperties, items); numbers have bounded digits; oneOf is read as anyOf.
 * @throws QuantletError ERR_GRAMMAR naming the keyword and its JSON pointer, or the part that nothing satisfies
 */
export function jsonSchemaToGrammar(schema: JsonSchema): string {
  return atOnce(jsonSchemaWork(schema));
}

/** The same as work that pauses. */
export function* jsonSchemaWork(given: JsonSchema): Work<string> {
  refuseLarge(given);
  const schema = withWrittenNumbers(given);
  let written = 0;
  const expand = createExpander(schema);
  const accepts = createValueTest(expand);
  const rules = new Map<string, string>();
  const byBody = new Map<string, string>();
  const shared = new Set<string>();
  /** The next number for names that were taken. */
  const numbered = new Map<string, number>();
  const taken = new Set([...Object.keys(SHARED_RULES), 'root']);
  interface Known {
    readonly name: string;
    expression: string | undefined;
    done: boolean;
    used: boolean;
  }
  const known = new Map<string, Known>();

  function nameFor(pointer: string): string {
    const base =
      pointer
        .split('/')
        .filter((part) => part !== '' && part !== 'properties' && part !== '$defs')
        .join('-')
        .replace(/[^A-Za-z0-9_-]/g, '_')
        .slice(-60) || 'part';
    let name = base;
    for (let i = numbered.get(base) ?? 2; taken.has(name); i++) {
      name = `${base}-${i}`;
      numbered.set(base, i + 1);
    }
    taken.add(name);
    return name;
  }

  function write(name: string, body: string): void {
    if ((written += body.length) > MAX_TEXT)
      throw schemaError(
        '',
        `written as a grammar it has more than ${MAX_TEXT} characters: expected fewer properties, shorter lists or smaller counts`,
      );
    rules.set(name, body);
  }

  /** A rule for this body; equal bodies are one rule. */
  function rule(hint: string, body: string): string {
    let name = byBody.get(body);
    if (name === undefined) {
      name = nameFor(hint);
      byBody.set(body, name);
      write(name, body);
    }
    return name;
  }

  function share(name: string): string {
    if (!shared.has(name)) {
      shared.add(name);
      for (const [word] of SHARED_RULES[name].replace(/"(\\.|[^"\\])*"|\[(\\.|[^\]\\])*\]/g, ' ').matchAll(/[a-z-]+/g)) share(word);
    }
    return name;
  }

  /** References that stand alone are followed first, so that what they lead to becomes one rule. */
  function follow(located: Located): Located {
    const seen = new Set<string>();
    for (let at = located; ;) {
      if (typeof at.schema !== 'object' || at.schema === null || Object.keys(at.schema).length !== 1 || at.schema.$ref === undefined)
        return at;
      if (seen.has(at.pointer)) throw schemaError(located.pointer, '$ref leads back to itself without anything in between');
      seen.add(at.pointer);
      at = resolveReference(schema, at.schema.$ref, at.pointer);
    }
  }

  /** All of these at once, as a rule; undefined where no value satisfies them. */
  function* ruleFor(schemas: readonly Located[]): Work<string | undefined> {
    yield;
    const all = schemas.map(follow);
    const key = [...new Set(all.map(({ schema, pointer }) => (schema === true ? '' : `#${pointer}`)).filter((part) => part !== ''))].join(
      '&',
    );
    if (key === '') return share('value');
    const before = known.get(key);
    if (before) {
      before.used = true;
      return before.done ? before.expression : before.name;
    }
    const { pointer } = all[all.length - 1];
    const entry: Known = { name: pointer === '' ? 'root' : nameFor(pointer), expression: undefined, done: false, used: false };
    known.set(key, entry);
    const ways: (string | undefined)[] = [];
    for (const way of yield* expand(all)) ways.push(yield* plainExpression(way));
    const body = gbnfChoice(ways);
    if (body === undefined && entry.used) throw schemaError(pointer, 'nothing satisfies this schema, which refers to itself');
    entry.done = true;
    if (body !== undefined) {
      write(entry.name, body);
      entry.expression = entry.name;
    }
    return entry.expression;
  }

  function* plainExpression(plain: Plain): Work<string | undefined> {
    yield;
    if (plain.values) {
      const texts: string[] = [];
      for (const value of plain.values) {
        if (yield* accepts(plain, value)) texts.push(gbnfText(writtenJson(value)));
        yield;
      }
      return gbnfChoice(texts);
    }
    const types = plain.types ?? impliedTypes(plain);
    if (types.length === 0 && !plain.types) return share('value');
    const texts: (string | undefined)[] = [];
    for (const type of types) if (type !== 'integer' || !types.includes('number')) texts.push(yield* ofType(plain, type));
    return gbnfChoice(texts);
  }

  /** Keywords without a type speak about one: the others are left out. */
  function impliedTypes(plain: Plain): JsonType[] {
    const types: JsonType[] = [];
    if (plain.properties.size > 0 || plain.required.size > 0 || plain.additional) types.push('object');
    if (plain.prefix.length > 0 || plain.items || plain.minItems !== undefined || plain.maxItems !== undefined) types.push('array');
    if (plain.minLength !== undefined || plain.maxLength !== undefined || plain.pattern !== undefined || plain.format !== undefined)
      types.push('string');
    if (
      plain.minimum !== undefined ||
      plain.maximum !== undefined ||
      plain.exclusiveMinimum !== undefined ||
      plain.exclusiveMaximum !== undefined
    )
      types.push('number');
    return types;
  }

  function* ofType(plain: Plain, type: JsonType): Work<string | undefined> {
    // prettier-ignore
    switch (type) {
      case 'null': case 'boolean': return share(type);
      case 'integer': case 'number': return numeric(plain, type);
      case 'string': return yield* string(plain);
      case 'array': return yield* array(plain);
      case 'object': return yield* object(plain);
    }
  }

  function numeric(plain: Plain, type: 'integer' | 'number'): string | undefined {
    const { minimum, maximum, exclusiveMinimum, exclusiveMaximum } = plain;
    if (minimum === undefined && maximum === undefined && exclusiveMinimum === undefined && exclusiveMaximum === undefined)
      return share(type);
    return boundedNumber(type, plain);
  }

  function* string({ minLength, maxLength, pattern, format, pointer }: Plain): Work<string | undefined> {
    const sized = minLength !== undefined || maxLength !== undefined;
    if ((pattern !== undefined || format !== undefined) && (sized || (pattern !== undefined && format !== undefined))) {
      throw schemaError(
        pointer,
        'pattern, format and minLength or maxLength together: expected one of them (lengths can be written in the pattern)',
      );
    }
    if (pattern !== undefined) return quoted(yield* patternToGbnf(pattern, share('char'), `#${pointer}/pattern`));
    if (format !== undefined) {
      const content = STRING_FORMATS[format];
      if (content === undefined)
        throw schemaError(
          `${pointer}/format`,
          `the format ${JSON.stringify(format)} cannot be turned into a grammar: expected ${Object.keys(STRING_FORMATS).join(', ')}`,
        );
      return quoted(content);
    }
    const least = minLength ?? 0;
    const most = maxLength ?? Infinity;
    if (least === 0 && most === Infinity) return share('string');
    return least > most ? undefined : quoted(gbnfRepeat(share('char'), least, most));
  }

  function* array({ prefix, items, minItems = 0, maxItems = Infinity }: Plain): Work<string | undefined> {
    if (prefix.length === 0 && !items && minItems === 0 && maxItems === Infinity) return share('array');
    share('ws');
    // after listed items more may follow only where the schema says so, or asks for more than are listed
    const rest = items ?? (prefix.length === 0 || minItems > prefix.length ? [ANYTHING] : undefined);
    const restRule = rest && maxItems > prefix.length ? yield* ruleFor(rest) : undefined;
    const listed: string[] = [];
    for (const schemas of prefix.slice(0, maxItems)) {
      const item = yield* ruleFor(schemas);
      if (item === undefined) break;
      listed.push(item);
    }
    const open = restRule !== undefined && listed.length === prefix.length;
    if (minItems > maxItems || (!open && minItems > listed.length)) return undefined;
    const more = (min: number, max: number): string => (max <= 0 ? '' : ` ${gbnfRepeat(`(ws "," ws ${restRule})`, min, max)}`);
    let content = open && prefix.length > 0 ? more(Math.max(0, minItems - prefix.length), maxItems - prefix.length) : '';
    if (prefix.length === 0) {
      if (open && maxItems > 0)
        content = minItems === 0 ? `(${restRule}${more(0, maxItems - 1)})?` : `${restRule}${more(minItems - 1, maxItems - 1)}`;
    } else {
      for (let i = listed.length - 1; i >= 0; i--) {
        const item = `${i > 0 ? 'ws "," ws ' : ''}${listed[i]}${content === '' || content.startsWith(' ') ? content : ` ${content}`}`;
        // Groups within groups may be only so deep, and items are many: each is a rule.
        content = i >= minItems ? `${rule('items', item)}?` : item;
      }
    }
    return rule('array', `"[" ws ${content} ws "]"`);
  }

  function* object({ properties, required, additional, pointer }: Plain): Work<string | undefined> {
    if (properties.size === 0 && required.size === 0 && !additional) return share('object');
    share('ws');
    const entry = (key: string, value: string): string => `${key} ws ":" ws ${value}`;
    const names = [...properties.keys(), ...[...required].filter((name) => !properties.has(name))];
    const long = names.find((name) => name.length > MAX_NAME);
    if (long !== undefined) throw schemaError(pointer, `a property's name has ${long.length} characters: expected at most ${MAX_NAME}`);
    const others = additional ? yield* ruleFor(additional) : undefined;
    let rest = '';
    let first = '';
    if (others !== undefined) {
      share('key-char');
      const other = rule('other', entry(names.length === 0 ? share('string') : yield* keyExcept(names, rule), others));
      rest = `(ws "," ws ${other})*`;
      first = `(${other} ${rest})?`;
    }
    for (const name of names.reverse()) {
      yield;
      const schemas = properties.get(name) ?? additional ?? [];
      const value = schemas.length === 0 ? share('value') : yield* ruleFor(schemas);
      const mandatory = required.has(name);
      if (value === undefined) {
        if (mandatory) return undefined;
        continue;
      }
      const pair = rule(`${name}-entry`, entry(gbnfText(JSON.stringify(name)), value));
      // a rule of its own, since it is written twice: after this property and after those before it
      if (rest !== '' && !rules.has(rest)) rest = rule('rest', rest);
      // Groups within groups may be only so deep, and properties are many: each alternative is a rule.
      first = mandatory
        ? `${pair} ${rest}`
        : first === ''
          ? `(${pair} ${rest})?`
          : `(${pair} ${rest} | ${rules.has(first) ? first : rule('first', first)})`;
      rest = mandatory ? `ws "," ws ${pair} ${rest}` : `(ws "," ws ${pair})? ${rest}`;
    }
    return rule('object', `"{" ws ${first} ws "}"`);
  }

  const root = yield* ruleFor([{ schema, pointer: '' }]);
  if (root === undefined) throw schemaError('', 'nothing satisfies this schema');
  const lines = root === 'root' ? [] : [`root ::= ${root}`];
  for (const [name, body] of rules) lines.push(`${name} ::= ${body}`);
  for (const name of shared) lines.push(`${name} ::= ${SHARED_RULES[name]}`);
  return lines.join('\n') + '\n';
}

/** Deeper ones, and objects that contain themselves, would exhaust the stack; larger ones hold up everybody. */
function refuseLarge(schema: JsonSchema): void {
  let values = 0;
  let characters = 0;
  const visit = (part: unknown, depth: number): void => {
    if (depth > MAX_DEPTH)
      throw schemaError('', `the schema is nested more than ${MAX_DEPTH} deep (or contains itself): expected a flatter one, or $ref`);
    if (++values > MAX_VALUES) throw schemaError('', `the schema has more than ${MAX_VALUES} values: expected a smaller one`);
    if (typeof part === 'string') characters += part.length;
    else if (typeof part === 'object' && part !== null) {
      for (const [key, inner] of Object.entries(part)) {
        characters += key.length;
        visit(inner, depth + 1);
      }
    }
    if (characters > MAX_CHARACTERS)
      throw schemaError('', `the texts of the schema have more than ${MAX_CHARACTERS} characters: expected fewer or shorter ones`);
  };
  visit(schema, 0);
}
