/** Tests given values (const, enum) against a JSON schema. */
import { QuantletError } from '../errors.ts';
import type { Work } from '../slices.ts';
import { Automaton, type State } from './automaton.ts';
import { compileGrammarWork } from './compile.ts';
import { decimalOf, isNumber, isWhole, keepsBounds } from './exact-number.ts';
import { parseGbnfWork } from './parse.ts';
import type { Plain } from './schema-keywords.ts';
import type { Expander } from './schema-plain.ts';
import { patternToGbnf } from './schema-pattern.ts';
import { SHARED_RULES, STRING_FORMATS } from './schema-string.ts';
import { jsonKey, type JsonType, type Located } from './schema.ts';

/** Number of cached automata, one per pattern. */
const MAX_AUTOMATA = 32;
/** Number of automaton places, and of values, between two pauses. */
const STRIDE = 4096;
const VALUES = 64;
/**
 * Limit of places visited for one text. A pattern with thousands of readings at every character
 * would take seconds.
 */
const MAX_PLACES = 1_000_000;

/** Makes the test for one schema: true if a value satisfies the keywords next to const or enum. */
export function createValueTest(expand: Expander): (plain: Plain, value: unknown) => Work<boolean> {
  const automata = new Map<string, Automaton>();
  /** The values of an enum as keys, because every element of a list may be looked up in them. */
  const keysOf = new Map<readonly unknown[], ReadonlySet<string>>();

  /**
   * True if a text, as JSON writes it, follows the GBNF of a JSON string's content. RegExp is not
   * used for patterns, because some take it exponential time ((a+)+$). The automaton reads each
   * byte once.
   */
  function* writes(content: string, text: string): Work<boolean> {
    let automaton = automata.get(content);
    if (!automaton) {
      const gbnf = `root ::= ${content}\nchar ::= ${SHARED_RULES.char}\nhex ::= ${SHARED_RULES.hex}\n`;
      automaton = new Automaton(yield* compileGrammarWork(yield* parseGbnfWork(gbnf, () => undefined, 0), 'root'));
      if (automata.size >= MAX_AUTOMATA) automata.clear();
      automata.set(content, automaton);
    }
    let state: State = automaton.start;
    let n = 0;
    let places = 0;
    let pause = STRIDE;
    for (const byte of new TextEncoder().encode(JSON.stringify(text).slice(1, -1))) {
      if (state.next[automaton.kindOf[byte]] === undefined) places += state.places.length;
      if (++n >= STRIDE || places >= pause) {
        n = 0;
        pause = places + STRIDE;
        if (places > MAX_PLACES)
          throw new QuantletError(
            'ERR_GRAMMAR',
            'schema: a value of const or enum fits its pattern in too many ways; expected a less ambiguous pattern',
          );
        yield;
      }
      const next = automaton.step(state, byte);
      if (next === null) return false;
      state = next;
    }
    return state.complete;
  }

  function* isAmong(values: readonly unknown[], value: unknown): Work<boolean> {
    let keys = keysOf.get(values);
    if (!keys) {
      const made = new Set<string>();
      for (const one of values) {
        if (made.add(jsonKey(one)).size % VALUES === 0) yield;
      }
      keysOf.set(values, (keys = made));
    }
    return keys.has(jsonKey(value));
  }

  function* all(schemas: readonly Located[] | undefined, part: unknown): Work<boolean> {
    if (!schemas || schemas.length === 0) return true;
    for (const alternative of yield* expand(schemas))
      if ((!alternative.values || (yield* isAmong(alternative.values, part))) && (yield* accepts(alternative, part))) return true;
    return false;
  }

  let tested = 0;
  function* accepts(plain: Plain, value: unknown): Work<boolean> {
    if (++tested % VALUES === 0) yield;
    if (plain.types && !plain.types.some((type) => isOfType(value, type))) return false;
    if (typeof value === 'string') {
      const { minLength = 0, maxLength = Infinity, pattern, format } = plain;
      if (minLength > 0 || maxLength < Infinity) {
        const length = Array.from(value).length;
        if (length < minLength || length > maxLength) return false;
      }
      if (pattern !== undefined && !(yield* writes(yield* patternToGbnf(pattern, 'char', `#${plain.pointer}/pattern`), value)))
        return false;
      // Unknown formats are refused when the grammar is written.
      return format === undefined || STRING_FORMATS[format] === undefined || (yield* writes(STRING_FORMATS[format], value));
    }
    if (isNumber(value)) return keepsBounds(decimalOf(value), plain);
    if (Array.isArray(value)) {
      if (value.length < (plain.minItems ?? 0) || value.length > (plain.maxItems ?? Infinity)) return false;
      for (const [i, item] of value.entries()) if (!(yield* all(plain.prefix[i] ?? plain.items, item))) return false;
      return true;
    }
    if (typeof value === 'object' && value !== null) {
      for (const name of plain.required) if (!Object.hasOwn(value, name)) return false;
      for (const [name, part] of Object.entries(value))
        if (!(yield* all(plain.properties.get(name) ?? plain.additional, part))) return false;
    }
    return true;
  }

  return accepts;
}

function isOfType(value: unknown, type: JsonType): boolean {
  switch (type) {
    case 'null':
      return value === null;
    case 'array':
      return Array.isArray(value);
    case 'object':
      return typeof value === 'object' && value !== null && !Array.isArray(value) && !isNumber(value);
    case 'integer':
      return isNumber(value) && isWhole(decimalOf(value));
    case 'number':
      return isNumber(value);
    default:
      return typeof value === type;
  }
}
