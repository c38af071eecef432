/** Filters for text. */
import { absent, flag, fn, int, text } from '../args.ts';
import { sliceText, textLength } from '../characters.ts';
import { iterate, refuse, sizeOf, truth } from '../operators.ts';
import { printf } from '../printf.ts';
import { str } from '../repr.ts';
import { capitalize, centered, padded, replace, splitLines, strip } from '../text-methods.ts';
import { Dict, isText, JinjaError, Markup, Tuple, Undefined, type Args, type Value, type Runtime, type Table } from '../values.ts';
import { wrapped } from './wrap.ts';

/** A filter of texts. Other values are converted by str() first. */
const mapped = (change: (value: string) => string) => fn('', (runtime, value: Value) => change(str(runtime, value)));

/** title() of jinja2: words begin after blanks, hyphens and opening brackets. */
function title(value: string): string {
  return value
    .split(/([-\s({[<]+)/)
    .map(capitalize)
    .join('');
}

function indent(runtime: Runtime, value: Value, width?: Value, first?: Value, blank?: Value): Value {
  const by = isText(width) ? str(runtime, width) : spaces(runtime, int(width, 4));
  const lines = splitLines(`${text(value)}\n`);
  runtime.read(by.length * lines.length);
  const rest = lines.slice(1).map((line) => (line !== '' || flag(blank) ? by + line : line));
  const all = (flag(first) ? by : '') + [lines[0], ...rest].join('\n');
  return value instanceof Markup ? new Markup(all) : all;
}

function spaces(runtime: Runtime, width: number): string {
  runtime.make(width);
  return ' '.repeat(Math.max(0, width));
}

function truncate(_: Runtime, value: Value, length?: Value, killWords?: Value, end: Value = '...', leeway?: Value): Value {
  const most = int(length, 255);
  const tolerance = absent(leeway) ? 5 : int(leeway, 5);
  const kept = most - textLength(text(end));
  if (kept < 0) throw new JinjaError(`expected length >= ${textLength(text(end))}, got ${most}`);
  if (tolerance < 0) throw new JinjaError(`expected leeway >= 0, got ${tolerance}`);
  const size = sizeOf(value);
  if (size === undefined) throw refuse('object has no len()', value);
  if (size <= most + tolerance) return value;
  const cut = sliceText(text(value), 0, kept);
  const word = cut.lastIndexOf(' ');
  return (flag(killWords) || word < 0 ? cut : cut.slice(0, word)) + text(end);
}

function wordWrap(runtime: Runtime, value: Value, width?: Value, breakWords?: Value, wrapString?: Value, breakHyphens?: Value): Value {
  const most = int(width, 79);
  if (most <= 0) throw new JinjaError(`invalid width ${most} (must be > 0)`);
  const between = absent(wrapString) ? '\n' : text(wrapString);
  const lines = splitLines(text(value)).map((line) => wrapped(line, most, flag(breakWords, true), flag(breakHyphens, true)).join(between));
  runtime.read(between.length * textLength(text(value)));
  return lines.join(between);
}

const alwaysSafe = /[^A-Za-z0-9_.~/-]/gu;

/** @param inQuery quotes "/" as well, and writes a blank as "+" */
function urlQuoted(runtime: Runtime, value: string, inQuery: boolean): string {
  runtime.read(value.length);
  const quote = (char: string): string => {
    if (inQuery && char === ' ') return '+';
    const bytes = new TextEncoder().encode(char);
    return Array.from(bytes, (byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('');
  };
  const quoted = value.replace(alwaysSafe, quote);
  return inQuery ? quoted.replaceAll('/', '%2F') : quoted;
}

function urlEncode(runtime: Runtime, value: Value): Value {
  const pairs =
    value instanceof Dict ? Array.from(value.entries()) : isText(value) || !isIterable(value) ? undefined : iterate(runtime, value);
  if (!pairs) return urlQuoted(runtime, str(runtime, value), false);
  const parts = Array.from(pairs, (pair) => {
    const both = Array.isArray(pair) ? pair : pair instanceof Tuple ? pair.items : [];
    if (both.length !== 2) throw new JinjaError('urlencode wants pairs');
    return both.map((part) => urlQuoted(runtime, str(runtime, part), true)).join('=');
  });
  return parts.join('&');
}

export const isIterable = (value: Value): boolean =>
  typeof value === 'object' && value !== null && Symbol.iterator in value ? true : sizeOf(value) !== undefined;

export const textFilters: Table = {
  capitalize: mapped(capitalize),
  center: fn('width?', (runtime, value: Value, width?: Value) => padded(runtime, str(runtime, value), int(width, 80), ' ', centered)),
  default: fn('default_value? boolean?', orDefault),
  d: fn('default_value? boolean?', orDefault),
  format: fn('*', (runtime, value: Value, { positional, named }: Args) => {
    if (positional.length > 0 && named.size > 0) throw new JinjaError("can't handle positional and keyword arguments at the same time");
    return printf(runtime, str(runtime, value), named.size > 0 ? Dict.of(named) : new Tuple(positional));
  }),
  indent: fn('width? first? blank?', indent),
  lower: mapped((value) => value.toLowerCase()),
  replace: fn('old new count?', (runtime, value: Value, old: Value, by: Value, count?: Value) =>
    replace(runtime, str(runtime, value), str(runtime, old), str(runtime, by), absent(count) ? -1 : int(count, -1)),
  ),
  string: fn('', (runtime, value: Value) => (value instanceof Markup ? value : str(runtime, value))),
  title: mapped(title),
  trim: fn('chars?', (runtime, value: Value, chars?: Value) => strip(str(runtime, value), absent(chars) ? undefined : text(chars))),
  truncate: fn('length? killwords? end? leeway?', truncate),
  upper: mapped((value) => value.toUpperCase()),
  urlencode: fn('', urlEncode),
  wordcount: fn('', (runtime, value: Value) => str(runtime, value).match(/[\p{L}\p{N}_]+/gu)?.length ?? 0),
  wordwrap: fn('width? break_long_words? wrapstring? break_on_hyphens?', wordWrap),
};

function orDefault(_: Runtime, value: Value, otherwise: Value = '', boolean?: Value): Value {
  return value instanceof Undefined || (flag(boolean) && !truth(value)) ? otherwise : value;
}
