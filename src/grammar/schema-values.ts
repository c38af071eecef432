/** Whether a given value (const, enum) satisfies a JSON schema. */
import { createAutomaton } from './automaton.ts';
import type { Automaton, State } from './automaton.ts';
import { compileGrammar } from './compile.ts';
import { parseGbnf } from './parse.ts';
import type { Expander, JsonType, Located, Plain } from './schema-plain.ts';
import { patternToGbnf } from './schema-pattern.ts';
import { SHARED_RULES, STRING_FORMATS } from './schema-string.ts';

const automata = new Map<string, Automaton>();
/** Patterns come from clients: no more of them are kept. */
const MAX_AUTOMATA = 32;

/**
 * Whether a text, as JSON writes it, is one that this GBNF for the content of a JSON string writes. A schema's pattern is asked in this way and not
 * by RegExp, which takes a time exponential in the text for some patterns ((a+)+$): the automaton looks at each byte once.
 */
function writes(content: string, text: string): boolean {
  let automaton = automata.get(content);
  if (!automaton) {
    const gbnf = `root ::= ${content}\nchar ::= ${SHARED_RULES.char}\nhex ::= ${SHARED_RULES.hex}\n`;
    automaton = createAutomaton(compileGrammar(parseGbnf(gbnf, () => undefined, 0), 'root'));
    if (automata.size >= MAX_AUTOMATA) automata.clear();
    automata.set(content, automaton);
  }
  let state: State | null = automaton.start;
  for (const byte of new TextEncoder().encode(JSON.stringify(text).slice(1, -1))) state = state && automaton.step(state, byte);
  return state !== null && state.complete;
}

/** Formats without a rule are refused elsewhere. */
const hasFormat = (text: string, format: string): boolean => STRING_FORMATS[format] === undefined || writes(STRING_FORMATS[format], text);

/** Whether a value of enum or const satisfies what stands beside it. */
export function acceptsValue(plain: Plain, value: unknown, expand: Expander): boolean {
  const all = (schemas: readonly Located[] | undefined, part: unknown): boolean => {
    if (!schemas || schemas.length === 0) return true;
    return expand(schemas).some((way) => (!way.values || way.values.some((v) => JSON.stringify(v) === JSON.stringify(part))) && acceptsValue(way, part, expand));
  };
  if (plain.types && !plain.types.some((type) => isOfType(value, type))) return false;
  if (typeof value === 'string') {
    const length = Array.from(value).length;
    return length >= (plain.minLength ?? 0) && length <= (plain.maxLength ?? Infinity) && (plain.pattern === undefined || writes(patternToGbnf(plain.pattern, 'char', `#${plain.pointer}/pattern`), value))
      && (plain.format === undefined || hasFormat(value, plain.format));
  }
  if (typeof value === 'number') {
    return !(value < (plain.minimum ?? -Infinity) || value > (plain.maximum ?? Infinity) || value <= (plain.exclusiveMinimum ?? -Infinity) || value >= (plain.exclusiveMaximum ?? Infinity));
  }
  if (Array.isArray(value)) {
    return value.length >= (plain.minItems ?? 0) && value.length <= (plain.maxItems ?? Infinity) && value.every((item, i) => all(plain.prefix[i] ?? plain.items, item));
  }
  if (typeof value === 'object' && value !== null) {
    return [...plain.required].every((name) => Object.hasOwn(value, name)) && Object.entries(value).every(([name, part]) => all(plain.properties.get(name) ?? plain.additional, part));
  }
  return true;
}

function isOfType(value: unknown, type: JsonType): boolean {
  switch (type) {
    case 'null': return value === null;
    case 'array': return Array.isArray(value);
    case 'object': return typeof value === 'object' && value !== null && !Array.isArray(value);
    case 'integer': return Number.isInteger(value);
    default: return typeof value === type;
  }
}
