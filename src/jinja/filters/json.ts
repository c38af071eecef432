/** tojson as in transformers: Python's json.dumps. */
import { absent, flag, fn } from '../args.ts';
import { floatText, indexOf } from '../numbers.ts';
import { compare, iterate, left, listOf, refuse } from '../operators.ts';
import { numberText } from '../repr.ts';
import {
  Dict,
  DictView,
  Float,
  isInt,
  isText,
  itemsOf,
  JinjaError,
  Lazy,
  plain,
  Range,
  toValue,
  type Value,
  type Runtime,
  type Table,
  WRITING,
} from '../values.ts';

interface Style {
  readonly ascii: boolean;
  /** Indentation of one level; undefined: everything is on one line. */
  readonly indent: string | undefined;
  readonly comma: string;
  readonly colon: string;
  readonly sorted: boolean;
}

function dumps(runtime: Runtime, value: Value, ascii?: Value, indent?: Value, separators?: Value, sorted?: Value): string {
  const step = indentOf(runtime, indent);
  const pair = absent(separators) ? undefined : Array.from(iterate(runtime, separators));
  if (pair && (pair.length !== 2 || !pair.every(isText))) throw new JinjaError('separators are two texts');
  const [comma, colon] = pair ? pair.map((part) => plain(part as string)) : [step === undefined ? ', ' : ',', ': '];
  return write(runtime, value, { ascii: flag(ascii), indent: step, comma, colon, sorted: flag(sorted) }, '\n');
}

function indentOf(runtime: Runtime, indent: Value | undefined): string | undefined {
  if (absent(indent)) return undefined;
  if (isText(indent)) return plain(indent);
  const width = indexOf(indent);
  if (width === undefined) throw refuse('indent is a number or a text, not', indent);
  runtime.make(width);
  return ' '.repeat(Math.max(0, width));
}

/** @param line line break and indentation of this value */
function write(runtime: Runtime, value: Value, style: Style, line: string): string {
  runtime.spend(WRITING);
  if (value === null) return 'null';
  if (typeof value === 'boolean') return String(value);
  if (isText(value)) return quoted(runtime, plain(value), style.ascii);
  if (isInt(value)) return String(value);
  if (value instanceof Float) return floatJson(value);
  const inner = style.indent === undefined ? '' : line + style.indent;
  const all = (open: string, parts: string[], close: string): string => {
    if (parts.length === 0) return open + close;
    runtime.spend(parts.length);
    runtime.read(parts.length * inner.length);
    return open + inner + parts.join(style.comma + inner) + (style.indent === undefined ? '' : line) + close;
  };
  const next = style.indent === undefined ? line : inner;
  const items = listed(runtime, value);
  if (items)
    return all(
      '[',
      items.map((item) => write(runtime, item, style, next)),
      ']',
    );
  if (!(value instanceof Dict)) throw refuse('Object of this type is not JSON serializable', value);
  const entries = Array.from(value.entries());
  if (style.sorted) entries.sort(([a], [b]) => compare(runtime, a, b));
  const fields = entries.map(([key, item]) => keyText(runtime, key, style.ascii) + style.colon + write(runtime, item, style, next));
  return all('{', fields, '}');
}

/**
 * Items of a list or tuple. Also of values that are lists in llama.cpp's engine, for which
 * templates write `tools | map(attribute='function') | tojson`.
 */
function listed(runtime: Runtime, value: Value): readonly Value[] | undefined {
  if (value instanceof Lazy) return left(runtime, value);
  return value instanceof DictView || value instanceof Range ? listOf(runtime, value) : itemsOf(value);
}

function floatJson(value: Float): string {
  if (Number.isNaN(value.value)) return 'NaN';
  if (!Number.isFinite(value.value)) return value.value < 0 ? '-Infinity' : 'Infinity';
  return value.text ?? floatText(value.value);
}

function keyText(runtime: Runtime, key: Value, ascii: boolean): string {
  if (isText(key)) return quoted(runtime, plain(key), ascii);
  if (key === null) return '"null"';
  if (typeof key === 'boolean') return `"${key}"`;
  if (key instanceof Float) return `"${floatJson(key)}"`;
  if (isInt(key)) return `"${numberText(key)}"`;
  throw refuse('keys must be str, int, float, bool or None, not', key);
}

function quoted(runtime: Runtime, text: string, ascii: boolean): string {
  runtime.read(text.length);
  const json = JSON.stringify(text);
  return ascii ? json.replace(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`) : json;
}

export const jsonFilters: Table = {
  tojson: fn('ensure_ascii? indent? separators? sort_keys?', dumps),
  /** An addition to jinja2: templates like DeepSeek's use it to read arguments. */
  from_json: fn('', (runtime, value: Value) => {
    if (!isText(value)) throw refuse('from_json wants a text, not', value);
    runtime.read(plain(value).length);
    return toValue(JSON.parse(plain(value)));
  }),
};
