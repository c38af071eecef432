/** Python's string, list and dictionary methods, and Jinja's filters, for chat templates. */
import { Environment } from '@huggingface/jinja';

/** A value inside the interpreter: `type` names its class, `value` is the JavaScript value or a container of further values. */
export type JinjaValue = ReturnType<Environment['lookupVariable']>;

/*
 * The Python that chat templates lean on and @huggingface/jinja 0.5 does not have, or has without its arguments
 * (`'\n\n x'.lstrip('\n')` keeps the blank in Python). Reference: Python's str, list and dict methods; Jinja's built-in filters.
 */

/** Plain JavaScript data as the interpreter's value. */
export function toJinja(value: unknown): JinjaValue {
  scratch.variables.delete('value');
  return scratch.set('value', value);
}

/** A new one for each value would cost ten times as much. */
const scratch = new Environment();

type Fn = (args: JinjaValue[]) => JinjaValue;

const list = (value: JinjaValue): JinjaValue[] => value.value as JinjaValue[];
const dict = (value: JinjaValue): Map<string, JinjaValue> => value.value as Map<string, JinjaValue>;
export const isDict = (value: JinjaValue): boolean => value.type === 'ObjectValue' || value.type === 'KeywordArgumentsValue';
export const isList = (value: JinjaValue): boolean => value.type === 'ArrayValue';

/** How many values a text of this one writes: a list that stands twice in another counts twice, and doubling so needs no more than a line. Counts to `most`. */
export function expandedSize(value: JinjaValue, most: number): number {
  let size = 0;
  const work = [value];
  for (let next = work.pop(); next && size <= most; next = work.pop()) {
    size++;
    if (isList(next)) for (const item of list(next)) work.push(item);
    else if (isDict(next)) for (const item of dict(next).values()) work.push(item);
  }
  return size;
}

/** `x[key]`: what is not there, or is asked for by what is not there, is undefined. */
export function item([receiver, key]: JinjaValue[]): JinjaValue {
  const found = (): JinjaValue | string | undefined => {
    if (key.type === 'UndefinedValue' || key.type === 'NullValue') return undefined;
    if (isDict(receiver) || receiver.type === 'NamespaceValue') return dict(receiver).get(String(key.value));
    if (isList(receiver)) return list(receiver).at(key.value as number);
    if (receiver.type === 'StringValue') return (receiver.value as string).at(key.value as number);
    throw new Error(`${receiver.type} cannot be indexed`);
  };
  const value = found();
  return typeof value === 'object' ? value : toJinja(value);
}

/** Characters of a text that is repeated: an indentation, a row of placeholders. */
const MAX_REPEATED = 1_000_000;

/** Jinja's operators where their operands are no numbers: `'ab' * 2`, and `~`, which writes both as text. */
export const operators: Readonly<Record<string, Fn>> = {
  '*'([left, right]) {
    const [text, count] = left.type === 'StringValue' ? [left, right] : [right, left];
    if (text.type !== 'StringValue') return toJinja((left.value as number) * (right.value as number));
    const times = Math.max(0, Number(count.value));
    if (!((text.value as string).length * times <= MAX_REPEATED))
      throw new Error(`a text repeated to more than ${MAX_REPEATED} characters`);
    return toJinja((text.value as string).repeat(times));
  },
  '~': ([left, right]) => toJinja(str(left) + str(right)),
};

/** A method of strings only. Other receivers get the interpreter's message for a missing method. */
function ofString(name: string, fn: (text: string, args: JinjaValue[]) => unknown): Fn {
  return ([receiver, ...args]) => {
    if (receiver.type !== 'StringValue') throw new Error(`${receiver.type} has no method ${name}()`);
    return toJinja(fn(receiver.value as string, args));
  };
}

function strip(text: string, chars: JinjaValue | undefined, left: boolean, right: boolean): string {
  if (chars === undefined || chars.type !== 'StringValue') return left && right ? text.trim() : left ? text.trimStart() : text.trimEnd();
  const set = new Set(chars.value as string);
  let start = 0;
  let end = text.length;
  while (left && start < end && set.has(text[start])) start++;
  while (right && end > start && set.has(text[end - 1])) end--;
  return text.slice(start, end);
}

/** `'{} {name}'.format(...)`: positional, numbered and named fields without format specs. */
function format(text: string, args: JinjaValue[]): string {
  const last = args.at(-1);
  const named = last?.type === 'KeywordArgumentsValue' ? dict(last) : new Map<string, JinjaValue>();
  let next = 0;
  return text.replace(/\{\{|\}\}|\{(\w*)\}/g, (whole, field: string | undefined) => {
    if (field === undefined) return whole[0];
    const value = field === '' ? args[next++] : (named.get(field) ?? args[Number(field)]);
    if (value === undefined) throw new Error(`format() has no argument for ${whole}`);
    return str(value);
  });
}

/** A method of dictionaries, also of those that have a key of its name: `schema.items()` of a JSON schema of a list. */
function ofDict(name: string, fn: (entries: Map<string, JinjaValue>, args: JinjaValue[]) => JinjaValue): Fn {
  return ([receiver, ...args]) => {
    if (!isDict(receiver)) throw new Error(`${receiver.type} has no method ${name}()`);
    return fn(dict(receiver), args);
  };
}

/** Values of the interpreter as a list of it. */
function listOf(values: Iterable<JinjaValue>): JinjaValue {
  const result = toJinja([]);
  list(result).push(...values);
  return result;
}

export const methods: Readonly<Record<string, Fn>> = {
  strip: ofString('strip', (text, [chars]) => strip(text, chars, true, true)),
  lstrip: ofString('lstrip', (text, [chars]) => strip(text, chars, true, false)),
  rstrip: ofString('rstrip', (text, [chars]) => strip(text, chars, false, true)),
  format: ofString('format', format),
  removeprefix: ofString('removeprefix', (text, [part]) => (text.startsWith(str(part)) ? text.slice(str(part).length) : text)),
  removesuffix: ofString('removesuffix', (text, [part]) =>
    part.value !== '' && text.endsWith(str(part)) ? text.slice(0, -str(part).length) : text,
  ),
  splitlines: ofString('splitlines', (text) => text.replace(/\r?\n$/, '').split(/\r?\n/)),
  find: ofString('find', (text, [part]) => text.indexOf(str(part))),
  isdigit: ofString('isdigit', (text) => /^\d+$/.test(text)),
  join: ofString('join', (text, [items]) => list(items).map(str).join(text)),
  items: ofDict('items', (entries) => listOf([...entries].map(([key, value]) => listOf([toJinja(key), value])))),
  keys: ofDict('keys', (entries) => listOf([...entries.keys()].map(toJinja))),
  values: ofDict('values', (entries) => listOf(entries.values())),
  get: ofDict('get', (entries, [key, fallback]) => entries.get(String(key.value)) ?? fallback ?? toJinja(null)),
  append([receiver, item]) {
    if (!isList(receiver)) throw new Error(`${receiver.type} has no method append()`);
    list(receiver).push(item);
    return toJinja(null);
  },
  pop([receiver, key, fallback]) {
    if (isDict(receiver)) {
      const value = dict(receiver).get(String(key.value)) ?? fallback;
      if (value === undefined) throw new Error(`pop(): no key ${String(key.value)}`);
      dict(receiver).delete(String(key.value));
      return value;
    }
    if (!isList(receiver)) throw new Error(`${receiver.type} has no method pop()`);
    const at = key === undefined ? -1 : Number(key.value);
    const [item] = list(receiver).splice(at, 1);
    if (item === undefined) throw new Error('pop from an empty list or with an index out of range');
    return item;
  },
};

const iterables = new Set(['ArrayValue', 'TupleValue', 'StringValue', 'ObjectValue', 'KeywordArgumentsValue', 'UndefinedValue']);

/** Tests, `x is iterable`: what is undefined is an empty list to Jinja. */
export const tests: Readonly<Record<string, Fn>> = { iterable: ([value]) => toJinja(iterables.has(value.type)) };

/** What a loop walks: the characters of a text, nothing of what is undefined. */
export function iterated([value]: JinjaValue[]): JinjaValue {
  if (value.type === 'UndefinedValue') return toJinja([]);
  return value.type === 'StringValue' ? toJinja([...(value.value as string)]) : value;
}

function extreme(args: JinjaValue[], sign: number): JinjaValue {
  const items = list(args[0]);
  if (items.length === 0) return toJinja(undefined);
  const below = (a: JinjaValue, b: JinjaValue): boolean => (a.value as number) < (b.value as number);
  return items.reduce((best, item) => ((sign < 0 ? below(item, best) : below(best, item)) ? item : best));
}

export const filters: Readonly<Record<string, Fn>> = {
  min: (args) => extreme(args, -1),
  max: (args) => extreme(args, 1),
  sum: ([items]) => toJinja(list(items).reduce((sum, item) => sum + (item.value as number), 0)),
  string: ([value]) => toJinja(str(value)),
  from_json: ([text]) => toJinja(JSON.parse(String(text.value))),
  count: ([value]) => toJinja(isDict(value) ? dict(value).size : (value.value as { length: number }).length),
  dictsort: dictSort,
};

/** Pairs sorted by key, case-insensitively; `by`, `reverse` and `case_sensitive` as keywords or in Jinja's order. Keys that are all whole numbers are numbers again. */
function dictSort(args: JinjaValue[]): JinjaValue {
  if (!isDict(args[0])) throw new Error(`Cannot apply filter "dictsort" to type: ${args[0].type}`);
  const last = args.at(-1);
  const named = last?.type === 'KeywordArgumentsValue' ? dict(last) : new Map<string, JinjaValue>();
  const option = (name: string, index: number): unknown =>
    (named.get(name) ?? (args[index]?.type === 'KeywordArgumentsValue' ? undefined : args[index]))?.value;
  const entries = [...dict(args[0])];
  const whole = entries.length > 0 && entries.every(([key]) => /^(0|[1-9]\d{0,14})$/.test(key));
  const fold = (value: unknown): unknown =>
    typeof value === 'string' && option('case_sensitive', 1) !== true ? value.toLowerCase() : value;
  const rank = ([key, value]: [string, JinjaValue]): unknown =>
    option('by', 2) === 'value' ? fold(value.value) : whole ? Number(key) : fold(key);
  entries.sort((a, b) => compare(rank(a), rank(b)) * (option('reverse', 3) === true ? -1 : 1));
  return listOf(entries.map(([key, value]) => listOf([toJinja(whole ? Number(key) : key), value])));
}

const compare = (a: unknown, b: unknown): number => ((a as string) < (b as string) ? -1 : (a as string) > (b as string) ? 1 : 0);

/** Python's str(): strings as they are, everything else as repr() writes it. */
export function str(value: JinjaValue): string {
  return value.type === 'StringValue' ? (value.value as string) : repr(value);
}

function repr(value: JinjaValue): string {
  if (value.type === 'NullValue') return 'None';
  if (value.type === 'UndefinedValue') return '';
  if (value.type === 'BooleanValue') return value.value ? 'True' : 'False';
  if (value.type === 'StringValue') return reprText(value.value as string);
  if (isList(value)) return `[${list(value).map(repr).join(', ')}]`;
  if (isDict(value)) return `{${[...dict(value)].map(([key, item]) => `${reprText(key)}: ${repr(item)}`).join(', ')}}`;
  return value.toString();
}

function reprText(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t', [quote]: `\\${quote}` };
  return quote + text.replace(/[\\\n\r\t'"]/g, (char) => escapes[char] ?? char) + quote;
}
