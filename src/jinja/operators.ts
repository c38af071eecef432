/**
 * Python's operators and protocols on values: truth, equality, order, membership, iteration, `+`,
 * `*`, `%`.
 */
import { textLength } from './characters.ts';
import { printf } from './printf.ts';
import { arithmetic, compareNumbers, indexOf } from './numbers.ts';
import { str } from './repr.ts';
import {
  Dict,
  DictView,
  Float,
  isNumber,
  isText,
  itemsOf,
  JinjaError,
  Lazy,
  Markup,
  Namespace,
  plain,
  Range,
  Tuple,
  typeName,
  Undefined,
  type Value,
  type Runtime,
} from './values.ts';

export function truth(value: Value): boolean {
  if (typeof value === 'boolean') return value;
  if (value === null || value instanceof Undefined) return false;
  if (isText(value)) return plain(value) !== '';
  if (isNumber(value)) return value instanceof Float ? value.value !== 0 : value != 0;
  return sizeOf(value) !== 0;
}

/** len(value), or undefined if it has no length. */
export function sizeOf(value: Value): number | undefined {
  if (isText(value)) return textLength(plain(value));
  const items = itemsOf(value);
  if (items) return items.length;
  if (value instanceof Dict) return value.size;
  if (value instanceof DictView) return value.dict.size;
  if (value instanceof Range) return value.length;
  return value instanceof Undefined ? 0 : undefined;
}

/**
 * Makes the error for an operation that a value does not support. For an undefined value, the
 * message is that value's own.
 */
export function refuse(what: string, ...values: Value[]): JinjaError {
  const missing = values.find((value) => value instanceof Undefined);
  return new JinjaError(missing ? missing.message : `${what}: '${values.map(typeName).join("' and '")}'`);
}

/**
 * Iterates over the items of a value.
 * @throws JinjaError for a value that is not iterable
 */
export function iterate(runtime: Runtime, value: Value): Iterable<Value> {
  const items = itemsOf(value);
  if (items) return (runtime.spend(items.length), items);
  if (isText(value)) return (runtime.spend(plain(value).length), plain(value));
  if (value instanceof Dict) return (runtime.spend(value.size), value.keys());
  if (value instanceof DictView) return (runtime.spend(value.dict.size), value);
  if (value instanceof Range) return rangeItems(runtime, value);
  if (value instanceof Lazy) return paid(runtime, value);
  if (value instanceof Undefined) return [];
  throw refuse('object is not iterable', value);
}

function* rangeItems(runtime: Runtime, range: Range): Generator<Value> {
  runtime.spend(range.length);
  for (let i = 0; i < range.length; i++) yield range.start + i * range.step;
}

function paid(runtime: Runtime, items: Lazy): Iterable<Value> {
  const from = items[Symbol.iterator]();
  const next = (): IteratorResult<Value> => (runtime.spend(1), from.next());
  return { [Symbol.iterator]: () => ({ next }) };
}

/** Remaining items of a generator, which are not consumed. */
export function left(runtime: Runtime, value: Lazy): Value[] {
  const items = value.rest();
  runtime.spend(items.length);
  return items;
}

export const listOf = (runtime: Runtime, value: Value): Value[] => Array.from(iterate(runtime, value));

export function equals(runtime: Runtime, left: Value, right: Value): boolean {
  if (typeof left === 'string' && typeof right === 'string') return left === right;
  runtime.spend(1);
  if (isNumber(left) && isNumber(right)) return compareNumbers(left, right) === 0;
  if (isText(left) && isText(right)) return plain(left) === plain(right);
  if (left instanceof Undefined) return right instanceof Undefined;
  if ((Array.isArray(left) && Array.isArray(right)) || (left instanceof Tuple && right instanceof Tuple)) {
    const [a, b] = [itemsOf(left)!, itemsOf(right)!];
    return a.length === b.length && a.every((item, i) => same(runtime, item, b[i]));
  }
  if (left instanceof Dict && right instanceof Dict) {
    if (left.size !== right.size) return false;
    for (const [key, value] of left.entries()) {
      const other = right.get(key);
      if (other === undefined || !same(runtime, value, other)) return false;
    }
    return true;
  }
  if (left instanceof Range && right instanceof Range)
    return left.length === right.length && left.at(0) === right.at(0) && (left.length < 2 || left.step === right.step);
  return left === right;
}

/** Equality of elements: the same value is equal to itself, even a NaN, as in Python's lists. */
const same = (runtime: Runtime, left: Value, right: Value): boolean => left === right || equals(runtime, left, right);

/**
 * Negative, zero or positive; NaN if neither value is less.
 * @throws JinjaError for values without an order
 */
export function compare(runtime: Runtime, left: Value, right: Value): number {
  runtime.spend(1);
  if (isNumber(left) && isNumber(right)) return compareNumbers(left, right);
  if (isText(left) && isText(right)) return compareText(plain(left), plain(right));
  if ((Array.isArray(left) && Array.isArray(right)) || (left instanceof Tuple && right instanceof Tuple)) {
    const [a, b] = [itemsOf(left)!, itemsOf(right)!];
    for (let i = 0; i < a.length && i < b.length; i++) if (!same(runtime, a[i], b[i])) return compare(runtime, a[i], b[i]);
    return a.length - b.length;
  }
  throw refuse('no order between instances of', left, right);
}

/** Order by code points. UTF-16 units would put code points beyond U+FFFF before U+E000. */
export function compareText(a: string, b: string): number {
  if (a === b) return 0;
  let at = 0;
  while (at < a.length && a.charCodeAt(at) === b.charCodeAt(at)) at++;
  return at < a.length && at < b.length ? rank(a.charCodeAt(at)) - rank(b.charCodeAt(at)) : a.length - b.length;
}

/** Rank of a UTF-16 unit that orders units like the code points they belong to. */
const rank = (unit: number): number => (unit >= 0xe000 ? unit - 0x800 : unit >= 0xd800 ? unit + 0x2000 : unit);

/** `left in right`. */
export function contains(runtime: Runtime, right: Value, left: Value): boolean {
  if (isText(right)) {
    if (!isText(left)) throw refuse("'in <string>' requires a string, not", left);
    runtime.read(plain(right).length);
    return plain(right).includes(plain(left));
  }
  if (right instanceof Dict) return right.has(left);
  if (right instanceof DictView && right.of === 'keys') return right.dict.has(left);
  if (right instanceof Range) return rangeHas(right, left);
  if (right instanceof Namespace) throw refuse('argument is not iterable', right);
  for (const item of iterate(runtime, right)) if (same(runtime, item, left)) return true;
  return false;
}

function rangeHas(range: Range, value: Value): boolean {
  if (!isNumber(value)) return false;
  const at = (Number(value instanceof Float ? value.value : value) - range.start) / range.step;
  return Number.isInteger(at) && at >= 0 && at < range.length;
}

/** `left + right` and the other binary operators. */
export function binary(runtime: Runtime, operator: string, left: Value, right: Value): Value {
  const number = arithmetic(operator, left, right);
  if (number !== undefined) return number;
  const result = operator === '+' ? joined(runtime, left, right) : operator === '*' ? repeated(runtime, left, right) : undefined;
  if (result !== undefined) return result;
  if (operator === '%' && isText(left)) return printf(runtime, plain(left), right);
  throw refuse(`unsupported operand types for ${operator}`, left, right);
}

function joined(runtime: Runtime, left: Value, right: Value): Value | undefined {
  // jinja2 escapes the other operand if one is Markup. Templates that write `tool | tojson | safe`
  // do not want that, and llama.cpp does not escape either.
  if (isText(left) && isText(right)) return plain(left) + plain(right);
  if (Array.isArray(left) && Array.isArray(right)) return (runtime.walk(left.length + right.length), [...left, ...right]);
  if (left instanceof Tuple && right instanceof Tuple)
    return (runtime.walk(left.items.length + right.items.length), new Tuple([...left.items, ...right.items]));
  return undefined;
}

function repeated(runtime: Runtime, left: Value, right: Value): Value | undefined {
  const [what, number] = indexOf(left) === undefined ? [left, right] : [right, left];
  const times = indexOf(number);
  if (times === undefined) return undefined;
  const count = Math.max(0, times);
  if (isText(what)) return (runtime.make(plain(what).length * count), plain(what).repeat(count));
  const items = itemsOf(what);
  if (!items) return undefined;
  runtime.make(items.length * count);
  runtime.walk(items.length * count);
  const all = Array.from({ length: count }, () => items).flat();
  return Array.isArray(what) ? all : new Tuple(all);
}

const entities: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', "'": '&#39;', '"': '&#34;' };
export const escapeText = (text: string): string => text.replace(/[&<>'"]/g, (char) => entities[char]);
/** Text of a value, escaped for HTML unless it is Markup. */
export const escaped = (runtime: Runtime, value: Value): string => (value instanceof Markup ? value.text : escapeText(str(runtime, value)));
