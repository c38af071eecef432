/** Methods of Python's str. */
import { absent, flag, fn, int, text } from './args.ts';
import { isWide, sliceText, textLength } from './characters.ts';
import { iterate } from './operators.ts';
import { strFormat } from './str-format.ts';
import {
  Dict,
  isInt,
  isText,
  JinjaError,
  plain,
  Tuple,
  typeName,
  Undefined,
  type Args,
  type Value,
  type Runtime,
  type Fn,
} from './values.ts';

/** Characters that Python counts as white space. */
const blank = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/;
const blanks = new RegExp(`${blank.source}+`);
export const isBlank = (char: string): boolean => blank.test(char);

/** @param chars characters to remove; white space if absent */
export function strip(value: string, chars: string | undefined, left = true, right = true): string {
  const set = chars === undefined ? undefined : new Set(chars);
  const off = (char: string): boolean => (set ? set.has(char) : isBlank(char));
  const of = chars !== undefined && (isWide(value) || isWide(chars)) ? Array.from(value) : value;
  let start = 0;
  let end = of.length;
  while (left && start < end && off(of[start])) start++;
  while (right && end > start && off(of[end - 1])) end--;
  return typeof of === 'string' ? of.slice(start, end) : of.slice(start, end).join('');
}

const stripping = (left: boolean, right: boolean): Fn =>
  fn('chars?', (_, self: Value, chars?: Value) => strip(text(self), absent(chars) ? undefined : text(chars), left, right));

/** Splits at most `most` times; any number of times if `most` is negative. */
export function split(value: string, separator: string | undefined, most: number): string[] {
  if (separator === '') throw new JinjaError('empty separator');
  if (separator === undefined) {
    const start = strip(value, undefined, true, false);
    if (most < 0 || most >= value.length) return start === '' ? [] : strip(start, undefined).split(blanks);
    const parts: string[] = [];
    let rest = start;
    for (let match = blanks.exec(rest); rest !== '' && match && parts.length < most; match = blanks.exec(rest)) {
      parts.push(rest.slice(0, match.index));
      rest = rest.slice(match.index + match[0].length);
    }
    return rest === '' ? parts : [...parts, rest];
  }
  const parts = value.split(separator);
  return most < 0 || parts.length <= most + 1 ? parts : [...parts.slice(0, most), parts.slice(most).join(separator)];
}

/** Splits as split() does, but counts `most` from the right (rsplit). */
function splitRight(value: string, separator: string | undefined, most: number): string[] {
  if (most < 0) return split(value, separator, most);
  if (separator !== undefined) {
    const parts = split(value, separator, -1);
    const kept = Math.max(0, parts.length - most);
    return parts.length <= most + 1 ? parts : [parts.slice(0, kept).join(separator), ...parts.slice(kept)];
  }
  const reversed = Array.from(value).reverse().join('');
  return split(reversed, undefined, most)
    .map((part) => Array.from(part).reverse().join(''))
    .reverse();
}

const lineEnd = /\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]/g;

export function splitLines(value: string, keepEnds = false): string[] {
  const lines: string[] = [];
  let from = 0;
  for (const { index, 0: end } of value.matchAll(lineEnd)) {
    lines.push(value.slice(from, index + (keepEnds ? end.length : 0)));
    from = index + end.length;
  }
  if (from < value.length) lines.push(value.slice(from));
  return lines;
}

/**
 * Replaces at most `most` times; all if `most` is negative. Charged by the length of the result.
 */
export function replace(runtime: Runtime, value: string, old: string, by: string, most: number): string {
  runtime.read(value.length);
  const parts = old === '' ? ['', ...Array.from(value), ''] : value.split(old);
  const times = most < 0 ? parts.length - 1 : Math.min(most, parts.length - 1);
  runtime.read(times * by.length);
  if (times === parts.length - 1) return parts.join(by);
  return [...parts.slice(0, times), parts.slice(times).join(old)].join(by);
}

/** Python's title(): a letter is upper case if the character before it is not a letter. */
function title(value: string): string {
  return value.replace(/\p{L}[\p{L}\p{Mn}]*/gu, capitalize);
}

export function capitalize(value: string): string {
  const [first = ''] = value;
  // A digraph that is one character has its own titlecase form. For all other characters, titlecase
  // equals upper case.
  const upper = /[\u01c4-\u01cc\u01f1-\u01f3]/.test(first) ? titled[first.toUpperCase()] : first === 'ß' ? 'Ss' : first.toUpperCase();
  return upper + value.slice(first.length).toLowerCase();
}
const titled: Readonly<Record<string, string>> = { Ǆ: 'ǅ', Ǉ: 'ǈ', Ǌ: 'ǋ', Ǳ: 'ǲ' };

/** Range to search: the part of a text between two bounds, and the part's start. */
function within(value: string, start: Value | undefined, stop: Value | undefined): { part: string | undefined; from: number } {
  if (absent(start) && absent(stop)) return { part: value, from: 0 };
  const length = textLength(value);
  const bound = (at: number): number => Math.min(length, Math.max(0, at < 0 ? at + length : at));
  const from = bound(absent(start) ? 0 : int(start, 0));
  const to = bound(absent(stop) ? length : int(stop, length));
  return { part: from > to || (!absent(start) && int(start, 0) > length) ? undefined : sliceText(value, from, to), from };
}

/** Index of a part in code points, or -1. */
function find(self: Value, part: Value, start: Value | undefined, stop: Value | undefined, last: boolean): number {
  const { part: space, from } = within(text(self), start, stop);
  if (space === undefined) return -1;
  const at = last ? space.lastIndexOf(text(part)) : space.indexOf(text(part));
  return at < 0 ? -1 : from + textLength(space.slice(0, at));
}

const finding = (last: boolean, must: boolean): Fn =>
  fn('sub start? end?', (_, self: Value, part: Value, start?: Value, stop?: Value) => {
    const at = find(self, part, start, stop, last);
    if (must && at < 0) throw new JinjaError('substring not found');
    return at;
  });

const affix = (has: (value: string, part: string) => boolean): Fn =>
  fn('prefix start? end?', (_, self: Value, part: Value, start?: Value, stop?: Value) => {
    const parts = part instanceof Tuple ? part.items : [part];
    if (!(part instanceof Tuple) && !isText(part)) throw new JinjaError(`a str or a tuple of str is wanted, not '${typeName(part)}'`);
    const { part: space } = within(text(self), start, stop);
    return space !== undefined && parts.some((one) => has(space, text(one)));
  });

/** Pads a text to a width. `share` gives how much of the padding goes to the left. */
export function padded(
  runtime: Runtime,
  value: string,
  width: number,
  fill: string,
  share: (missing: number, width: number) => number,
): string {
  if (textLength(fill) !== 1) throw new JinjaError('the fill character must be exactly one character long');
  const missing = width - textLength(value);
  if (missing <= 0) return value;
  runtime.make(missing);
  const left = share(missing, width);
  return fill.repeat(left) + value + fill.repeat(missing - left);
}

const padding = (share: (missing: number, width: number) => number): Fn =>
  fn('width fillchar?', (runtime, self: Value, width: Value, fill?: Value) =>
    padded(runtime, text(self), int(width, 0), fill === undefined ? ' ' : text(fill), share),
  );

/** CPython's rule: if the padding is odd, the extra blank goes to the left if the width is odd. */
export const centered = (missing: number, width: number): number => Math.floor(missing / 2) + (missing & width & 1);

const parts = (self: Value, separator: Value, last: boolean): Tuple => {
  const value = text(self);
  const at = text(separator) === '' ? NaN : last ? value.lastIndexOf(text(separator)) : value.indexOf(text(separator));
  if (Number.isNaN(at)) throw new JinjaError('empty separator');
  if (at < 0) return new Tuple(last ? ['', '', value] : [value, '', '']);
  return new Tuple([value.slice(0, at), text(separator), value.slice(at + text(separator).length)]);
};

const every = (pattern: RegExp): Fn => tested((value) => pattern.test(value));
const mapped = (change: (value: string) => string): Fn => fn('', (_, self: Value) => change(text(self)));

const lettersOf = (value: string): string => value.replace(/[^\p{Cased}]+/gu, '');
export const isLower = (value: string): boolean => /^\p{Lowercase}+$/u.test(lettersOf(value));
export const isUpper = (value: string): boolean => /^\p{Uppercase}+$/u.test(lettersOf(value));

function isTitle(value: string): boolean {
  let cased = false;
  let any = false;
  for (const char of value) {
    const upper = /[\p{Lu}\p{Lt}]/u.test(char);
    const lower = /\p{Ll}/u.test(char);
    if ((upper && cased) || (lower && !cased)) return false;
    cased = upper || lower;
    any ||= cased;
  }
  return any;
}

const swapCase = (value: string): string =>
  value.replace(/\p{L}/gu, (char) => (char === char.toLowerCase() ? char.toUpperCase() : char.toLowerCase()));

function expandTabs(runtime: Runtime, value: string, size: number): string {
  let column = 0;
  return value.replace(/[^\t\n\r]+|[\t\n\r]/g, (part) => {
    if (part === '\n' || part === '\r') column = 0;
    if (part !== '\t') return ((column += part === '\n' || part === '\r' ? 0 : textLength(part)), part);
    const width = size > 0 ? size - (column % size) : 0;
    runtime.make(width);
    column += width;
    return ' '.repeat(width);
  });
}

function zeroFilled(runtime: Runtime, value: string, width: number): string {
  const sign = /^[-+]/.exec(value)?.[0] ?? '';
  return sign + padded(runtime, value.slice(sign.length), width - sign.length, '0', (missing) => missing);
}

function joinedBy(runtime: Runtime, self: Value, items: Value): string {
  const between = text(self);
  const all = Array.from(iterate(runtime, items), (item) => {
    if (!isText(item))
      throw new JinjaError(item instanceof Undefined ? item.message : `sequence item: expected str, ${typeName(item)} found`);
    runtime.read(between.length + plain(item).length);
    return plain(item);
  });
  return all.join(between);
}

/** str.translate(): replaces characters by a table from code points. */
function translated(self: Value, table: Value): string {
  if (!(table instanceof Dict)) throw new JinjaError('translate() wants a dictionary');
  return Array.from(text(self), (char) => {
    const by = table.get(char.codePointAt(0)!);
    if (by === undefined || by === null) return by === null ? '' : char;
    return isInt(by) ? String.fromCodePoint(Number(by)) : text(by);
  }).join('');
}

const formatMap: Fn = fn('mapping', (runtime, self: Value, mapping: Value) => {
  if (!(mapping instanceof Dict)) throw new JinjaError('format_map() wants a dictionary');
  const named = Array.from(mapping.entries()).flatMap(([key, value]): [string, Value][] => (isText(key) ? [[plain(key), value]] : []));
  return strFormat(runtime, text(self), { positional: [], named: new Map(named) });
});

const splitting = (by: typeof split): Fn =>
  fn('sep? maxsplit?', (runtime, self: Value, separator?: Value, most?: Value) => {
    runtime.read(text(self).length);
    const all = by(text(self), absent(separator) ? undefined : text(separator), int(most, -1));
    runtime.walk(all.length);
    return all;
  });

export const textMethods: Readonly<Record<string, Fn>> = {
  capitalize: mapped(capitalize),
  casefold: mapped((value) => value.toLowerCase().replaceAll('ß', 'ss').replaceAll('ς', 'σ')),
  center: padding(centered),
  count: fn('sub start? end?', (_, self: Value, part: Value, start?: Value, stop?: Value) => {
    const { part: space } = within(text(self), start, stop);
    if (space === undefined) return 0;
    return text(part) === '' ? textLength(space) + 1 : space.split(text(part)).length - 1;
  }),
  endswith: affix((value, part) => value.endsWith(part)),
  expandtabs: fn('tabsize?', (runtime, self: Value, size?: Value) => expandTabs(runtime, text(self), int(size, 8))),
  find: finding(false, false),
  format: fn('*', (runtime, self: Value, args: Args) => strFormat(runtime, text(self), args)),
  format_map: formatMap,
  index: finding(false, true),
  isalnum: every(/^[\p{L}\p{N}]+$/u),
  isalpha: every(/^\p{L}+$/u),
  isascii: every(/^[\0-\x7f]*$/),
  isdecimal: every(/^\p{Nd}+$/u),
  isdigit: every(/^[\p{Nd}\u00b2\u00b3\u00b9\u2070\u2074-\u2079\u2080-\u2089\u2460-\u2468\u2474-\u247c\u2488-\u2490]+$/u),
  isidentifier: every(/^[\p{XIDS}_]\p{XIDC}*$/u),
  islower: tested(isLower),
  isnumeric: every(/^\p{N}+$/u),
  isprintable: every(/^(?:[^\p{C}\p{Z}]| )*$/u),
  isspace: every(new RegExp(`^${blanks.source}$`)),
  istitle: tested(isTitle),
  isupper: tested(isUpper),
  join: fn('iterable', (runtime, self: Value, items: Value) => joinedBy(runtime, self, items)),
  ljust: padding(() => 0),
  lower: mapped((value) => value.toLowerCase()),
  lstrip: stripping(true, false),
  partition: fn('sep', (_, self: Value, separator: Value) => parts(self, separator, false)),
  removeprefix: fn('prefix', (_, self: Value, part: Value) =>
    text(self).startsWith(text(part)) ? text(self).slice(text(part).length) : text(self),
  ),
  removesuffix: fn('suffix', (_, self: Value, part: Value) =>
    text(part) !== '' && text(self).endsWith(text(part)) ? text(self).slice(0, -text(part).length) : text(self),
  ),
  replace: fn('old new count?', (runtime, self: Value, old: Value, by: Value, count?: Value) =>
    replace(runtime, text(self), text(old), text(by), int(count, -1)),
  ),
  rfind: finding(true, false),
  rindex: finding(true, true),
  rjust: padding((missing) => missing),
  rpartition: fn('sep', (_, self: Value, separator: Value) => parts(self, separator, true)),
  rsplit: splitting(splitRight),
  rstrip: stripping(false, true),
  split: splitting(split),
  splitlines: fn('keepends?', (_, self: Value, keep?: Value) => splitLines(text(self), flag(keep))),
  startswith: affix((value, part) => value.startsWith(part)),
  strip: stripping(true, true),
  swapcase: mapped(swapCase),
  title: mapped(title),
  translate: fn('table', (_, self: Value, table: Value) => translated(self, table)),
  upper: mapped((value) => value.toUpperCase()),
  zfill: fn('width', (runtime, self: Value, width: Value) => zeroFilled(runtime, text(self), int(width, 0))),
};

function tested(test: (value: string) => boolean): Fn {
  return fn('', (_, self: Value) => test(text(self)));
}
