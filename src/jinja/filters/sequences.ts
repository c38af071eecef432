/** Filters for sequences. */
import { ownAttribute } from '../access.ts';
import { absent, callByName, flag, fn, int } from '../args.ts';
import { getter, getters, ignoringCase, type Getter } from '../attributes.ts';
import { characters } from '../characters.ts';
import { binary, compare, equals, iterate, left, listOf, refuse, sizeOf, truth } from '../operators.ts';
import { str } from '../repr.ts';
import {
  Dict,
  DictView,
  isText,
  itemsOf,
  JinjaError,
  Lazy,
  orElse,
  plain,
  Range,
  Tuple,
  Undefined,
  type Args,
  type Value,
  type Runtime,
  type Table,
  type Fn,
  WRITING,
} from '../values.ts';

const caseless = (caseSensitive: Value | undefined): Getter => (flag(caseSensitive) ? (value) => value : ignoringCase);

/** Stable sort, also if reversed. */
function sorted(runtime: Runtime, items: readonly Value[], key: Getter, reverse = false): Value[] {
  const keyed = items.map((item) => ({ item, key: key(item) }));
  const sign = reverse ? -1 : 1;
  keyed.sort((a, b) => sign * compare(runtime, a.key, b.key) || 0);
  return keyed.map(({ item }) => item);
}

function* batches(runtime: Runtime, value: Value, size: Value, fill: Value | undefined): Generator<Value> {
  let part: Value[] = [];
  for (const item of iterate(runtime, value)) {
    if (equals(runtime, part.length, size)) {
      yield part;
      part = [];
    }
    part.push(item);
  }
  if (part.length === 0) return;
  const missing = absent(fill) ? 0 : Math.max(0, int(size, 0) - part.length);
  runtime.make(missing);
  yield [...part, ...Array.from({ length: missing }, () => fill!)];
}

function* slices(runtime: Runtime, value: Value, count: number, fill: Value | undefined): Generator<Value[]> {
  const items = listOf(runtime, value);
  if (count === 0) throw new JinjaError('integer division or modulo by zero');
  runtime.make(count);
  const size = Math.floor(items.length / count);
  const longer = items.length % count;
  for (let i = 0, from = 0; i < count; i++) {
    const part = items.slice(from, (from += size + (i < longer ? 1 : 0)));
    yield absent(fill) || i < longer ? part : [...part, fill];
  }
}

function extreme(sign: number): Fn {
  return fn('case_sensitive? attribute?', (runtime, value: Value, caseSensitive?: Value, attribute?: Value) => {
    const key = getter(attribute, caseless(caseSensitive));
    let best: { item: Value; key: Value } | undefined;
    for (const item of iterate(runtime, value)) {
      const one = { item, key: key(item) };
      if (!best || sign * compare(runtime, one.key, best.key) > 0) best = one;
    }
    return best ? best.item : new Undefined('No aggregated item, sequence was empty.');
  });
}

/** Groups of items with equal keys, sorted by key. */
function groups(runtime: Runtime, value: Value, attribute: Value, otherwise: Value | undefined, caseSensitive: Value | undefined): Value[] {
  const key = getter(attribute, caseless(caseSensitive), otherwise);
  const shown = getter(attribute, undefined, otherwise);
  const found: { key: Value; items: Value[] }[] = [];
  for (const item of sorted(runtime, listOf(runtime, value), key)) {
    const last = found.at(-1);
    if (last && equals(runtime, last.key, key(item))) last.items.push(item);
    else found.push({ key: key(item), items: [item] });
  }
  return found.map(({ items }) => new Tuple([shown(items[0]), items], ['grouper', 'list']));
}

function* uniques(runtime: Runtime, value: Value, key: Getter): Generator<Value> {
  const seen = new Dict();
  for (const item of iterate(runtime, value)) {
    const one = key(item);
    runtime.spend(WRITING);
    if (seen.has(one)) continue;
    seen.set(one, true);
    yield item;
  }
}

/** The function that map() applies to each item. */
function mapper(runtime: Runtime, { positional, named }: Args): Getter {
  if (positional.length === 0 && named.has('attribute')) {
    const odd = [...named.keys()].find((name) => name !== 'attribute' && name !== 'default');
    if (odd !== undefined) throw new JinjaError(`map() got an unexpected keyword argument '${odd}'`);
    return getter(named.get('attribute'), undefined, named.get('default'));
  }
  if (positional.length === 0) throw new JinjaError('map requires a filter argument');
  const name = str(runtime, positional[0]);
  return (item) => callByName(runtime, 'filter', name, item, { positional: positional.slice(1), named });
}

function* mapped(runtime: Runtime, value: Value, args: Args): Generator<Value> {
  if (!truth(value)) return;
  const change = mapper(runtime, args);
  for (const item of iterate(runtime, value)) yield change(item);
}

/** Makes select, reject, selectattr and rejectattr. */
function selecting(keep: boolean, byAttribute: boolean): Fn {
  function* selected(runtime: Runtime, value: Value, { positional, named }: Args): Generator<Value> {
    if (!truth(value)) return;
    if (byAttribute && positional.length === 0) throw new JinjaError('Missing parameter for attribute name');
    const get = byAttribute ? getter(positional[0]) : (item: Value) => item;
    const [name, ...rest] = positional.slice(byAttribute ? 1 : 0);
    const args = { positional: rest, named };
    const passes = (item: Value): Value => (name === undefined ? item : callByName(runtime, 'test', str(runtime, name), item, args));
    for (const item of iterate(runtime, value)) if (truth(passes(get(item))) === keep) yield item;
  }
  return fn('*', (runtime, value: Value, args: Args) => new Lazy(selected(runtime, value, args)));
}

function reversed(runtime: Runtime, value: Value): Value {
  if (isText(value)) return Array.from(plain(value)).reverse().join('');
  const items = listOf(runtime, value).reverse();
  // Python's reversed() gives an iterator. A generator cannot be reversed, so jinja2 makes a list
  // of it.
  return value instanceof Lazy ? items : new Lazy(items);
}

function last(runtime: Runtime, value: Value): Value {
  if (value instanceof Lazy || sizeOf(value) === undefined) throw refuse('object is not reversible', value);
  const item = isText(value)
    ? characters(plain(value)).at(-1)
    : value instanceof Range
      ? value.at(-1)
      : (itemsOf(value) ?? listOf(runtime, value)).at(-1);
  return orElse(item, () => new Undefined('No last item, sequence was empty.'));
}

function dictSorted(runtime: Runtime, value: Value, caseSensitive?: Value, by?: Value, reverse?: Value): Value {
  const column = by === undefined || equals(runtime, by, 'key') ? 0 : equals(runtime, by, 'value') ? 1 : undefined;
  if (column === undefined) throw new JinjaError('You can only sort by either "key" or "value"');
  if (!(value instanceof Dict)) throw refuse('dictsort wants a dictionary, not', value);
  const then = caseless(caseSensitive);
  const entries = Array.from(value.entries(), (entry) => new Tuple(entry));
  return sorted(runtime, entries, (entry) => then((entry as Tuple).items[column]), flag(reverse));
}

function summed(runtime: Runtime, value: Value, attribute?: Value, start: Value = 0): Value {
  if (isText(start)) throw new JinjaError("sum() can't sum strings");
  const get = getter(attribute);
  let sum: Value = start;
  for (const item of iterate(runtime, value)) sum = binary(runtime, '+', sum, get(item));
  return sum;
}

function joined(runtime: Runtime, value: Value, separator?: Value, attribute?: Value): Value {
  const get = getter(attribute);
  const between = separator === undefined ? '' : str(runtime, separator);
  const parts = Array.from(iterate(runtime, value), (item) => {
    const part = str(runtime, get(item));
    runtime.read(between.length + part.length);
    return part;
  });
  return parts.join(between);
}

/**
 * Length, also of generators. Python's have no length, but in llama.cpp's engine they are lists,
 * and templates written for it count them.
 */
function lengthOf(runtime: Runtime, value: Value): number {
  const size = value instanceof Lazy ? left(runtime, value).length : sizeOf(value);
  if (size === undefined) throw refuse('object has no len()', value);
  return size;
}

function random(runtime: Runtime, value: Value): Value {
  const isSequence = isText(value) || value instanceof Undefined || value instanceof Range || itemsOf(value) !== undefined;
  if (!isSequence) throw refuse('random wants a sequence, not', value);
  const items = listOf(runtime, value);
  return items.length === 0 ? new Undefined('No random item, sequence was empty.') : items[Math.floor(Math.random() * items.length)];
}

function items(_: Runtime, value: Value): Value {
  if (value instanceof Undefined) return new Lazy([]);
  if (!(value instanceof Dict)) throw new JinjaError('Can only get item pairs from a mapping.');
  return new Lazy(new DictView(value, 'items'));
}

const first = (runtime: Runtime, value: Value): Value => {
  const { done, value: item } = iterate(runtime, value)[Symbol.iterator]().next();
  return done ? new Undefined('No first item, sequence was empty.') : item;
};

export const sequenceFilters: Table = {
  attr: fn('name', (runtime, value: Value, name: Value) => {
    if (value instanceof Undefined) throw new JinjaError(value.message);
    return orElse(ownAttribute(value, str(runtime, name)), () => new Undefined(`no attribute ${str(runtime, name)}`));
  }),
  batch: fn('linecount fill_with?', (runtime, value: Value, size: Value, fill?: Value) => new Lazy(batches(runtime, value, size, fill))),
  count: fn('', lengthOf),
  dictsort: fn('case_sensitive? by? reverse?', dictSorted),
  first: fn('', first),
  groupby: fn('attribute default? case_sensitive?', groups),
  items: fn('', items),
  join: fn('d? attribute?', joined),
  last: fn('', last),
  length: fn('', lengthOf),
  list: fn('', listOf),
  map: fn('*', (runtime, value: Value, args: Args) => new Lazy(mapped(runtime, value, args))),
  max: extreme(1),
  min: extreme(-1),
  random: fn('', random),
  reject: selecting(false, false),
  rejectattr: selecting(false, true),
  reverse: fn('', reversed),
  select: selecting(true, false),
  selectattr: selecting(true, true),
  slice: fn(
    'slices fill_with?',
    (runtime, value: Value, count: Value, fill?: Value) => new Lazy(slices(runtime, value, int(count, 0), fill)),
  ),
  sort: fn('reverse? case_sensitive? attribute?', (runtime, value: Value, reverse?: Value, caseSensitive?: Value, attribute?: Value) =>
    sorted(runtime, listOf(runtime, value), getters(attribute, caseless(caseSensitive)), flag(reverse)),
  ),
  sum: fn('attribute? start?', summed),
  unique: fn(
    'case_sensitive? attribute?',
    (runtime, value: Value, caseSensitive?: Value, attribute?: Value) =>
      new Lazy(uniques(runtime, value, getter(attribute, caseless(caseSensitive)))),
  ),
};
