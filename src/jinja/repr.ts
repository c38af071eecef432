/** str() and repr() of values. */
import { floatText, type Num } from './numbers.ts';
import type { Thing } from './values.ts';
import {
  Dict,
  DictView,
  Float,
  isText,
  Lazy,
  Markup,
  Namespace,
  plain,
  Range,
  Tuple,
  Undefined,
  type Value,
  type Runtime,
  WRITING,
} from './values.ts';

/** str(value), the text that `{{ value }}` writes. */
export function str(runtime: Runtime, value: Value): string {
  if (typeof value === 'string') return value;
  if (value instanceof Markup) return value.text;
  if (value instanceof Undefined) return '';
  return repr(runtime, value);
}

export function numberText(value: Num): string {
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  return value instanceof Float ? (value.text ?? floatText(value.value)) : String(value);
}

/**
 * repr(value). A part that occurs twice is charged twice, because a list that is doubled again and
 * again takes only a short template.
 */
export function repr(runtime: Runtime, value: Value): string {
  runtime.spend(WRITING);
  if (value === null) return 'None';
  if (isText(value)) {
    const text = reprText(plain(value));
    runtime.read(text.length);
    return value instanceof Markup ? `Markup(${text})` : text;
  }
  if (typeof value !== 'object' || value instanceof Float) return numberText(value);
  const list = (values: Iterable<Value>): string => Array.from(values, (item) => repr(runtime, item)).join(', ');
  if (Array.isArray(value)) return `[${list(value)}]`;
  if (value instanceof Tuple) return `(${list(value.items)}${value.items.length === 1 ? ',' : ''})`;
  if (value instanceof Dict) {
    const entries = Array.from(value.entries(), ([key, item]) => `${repr(runtime, key)}: ${repr(runtime, item)}`);
    return `{${entries.join(', ')}}`;
  }
  if (value instanceof DictView) return `dict_${value.of}([${list(value)}])`;
  if (value instanceof Range) return `range(${value.start}, ${value.stop}${value.step === 1 ? '' : `, ${value.step}`})`;
  if (value instanceof Namespace) return `<Namespace ${repr(runtime, value.attributes)}>`;
  if (value instanceof Undefined) return 'Undefined';
  if (value instanceof Lazy) return '<generator object>';
  return (value as Thing).shown();
}

const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' };
/**
 * Characters that repr() escapes: controls, characters without a glyph, blanks except the ASCII
 * one, lone surrogates.
 */
const unprintable = /[\\'"]|(?! )[\p{C}\p{Z}]/gu;

export function reprText(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escape = (char: string): string => {
    if (char === "'" || char === '"') return char === quote ? `\\${char}` : char;
    return escapes[char] ?? asciiEscape(char.codePointAt(0)!);
  };
  return quote + text.replace(unprintable, escape) + quote;
}

/** `\xe9`, `\u20ac` or `\U0001f44b`. */
export function asciiEscape(code: number): string {
  const hex = code.toString(16);
  return code < 0x100 ? `\\x${hex.padStart(2, '0')}` : code < 0x10000 ? `\\u${hex.padStart(4, '0')}` : `\\U${hex.padStart(8, '0')}`;
}

/** ascii(value): repr() with everything beyond ASCII escaped. */
export const ascii = (runtime: Runtime, value: Value): string =>
  repr(runtime, value).replace(/[^\0-\x7f]/gu, (char) => asciiEscape(char.codePointAt(0)!));
