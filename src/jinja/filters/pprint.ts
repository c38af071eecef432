/**
 * Python's pprint: one line if it fits, else a line for each item. Dictionaries are sorted by key.
 */
import { fn } from '../args.ts';
import { compare } from '../operators.ts';
import { repr } from '../repr.ts';
import { Dict, itemsOf, Tuple, type Value, type Runtime, type Table, WRITING } from '../values.ts';

const WIDTH = 80;

/**
 * Entries sorted by key. Keys of different types are sorted by the names of their types, as in
 * pprint.
 */
function sortedEntries(runtime: Runtime, dict: Dict): [Value, Value][] {
  const order = (a: Value, b: Value): number => {
    try {
      return compare(runtime, a, b);
    } catch {
      return String(typeof a) < String(typeof b) ? -1 : 1;
    }
  };
  return Array.from(dict.entries()).sort(([a], [b]) => order(a, b));
}

/** repr() with sorted dictionaries. */
function flat(runtime: Runtime, value: Value): string {
  runtime.spend(WRITING);
  const items = itemsOf(value);
  if (items) {
    const inner = items.map((item) => flat(runtime, item)).join(', ');
    return value instanceof Tuple ? `(${inner}${items.length === 1 ? ',' : ''})` : `[${inner}]`;
  }
  if (!(value instanceof Dict)) return repr(runtime, value);
  return `{${sortedEntries(runtime, value)
    .map(([key, item]) => `${flat(runtime, key)}: ${flat(runtime, item)}`)
    .join(', ')}}`;
}

/**
 * @param indent columns to the left of the value
 * @param after columns needed after the value
 */
function pretty(runtime: Runtime, value: Value, indent: number, after: number): string {
  const line = flat(runtime, value);
  const items = itemsOf(value);
  if (line.length <= WIDTH - indent - after || (!items && !(value instanceof Dict))) return line;
  runtime.make(indent);
  const between = `,\n${' '.repeat(indent + 1)}`;
  const room = (i: number, count: number): number => (i === count - 1 ? after + 1 : 1);
  if (items) {
    const parts = items.map((item, i) => pretty(runtime, item, indent + 1, room(i, items.length)));
    return value instanceof Tuple ? `(${parts.join(between)}${items.length === 1 ? ',' : ''})` : `[${parts.join(between)}]`;
  }
  const entries = sortedEntries(runtime, value as Dict);
  const parts = entries.map(([key, item], i) => {
    const name = `${flat(runtime, key)}: `;
    return name + pretty(runtime, item, indent + 1 + name.length, room(i, entries.length));
  });
  return `{${parts.join(between)}}`;
}

export const pprintFilters: Table = { pprint: fn('', (runtime, value: Value) => pretty(runtime, value, 0, 0)) };
