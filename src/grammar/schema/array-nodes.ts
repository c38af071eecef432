/** Writes arrays as nodes: a state for each number of items that makes a difference. */
import { RETURN } from '../program.ts';
import type { ArrayShape } from './array-shape.ts';
import type { ValueWriter } from './rule.ts';

const OPEN = 0x5b;
const COMMA = 0x2c;
const CLOSE = 0x5d;

/** Items so far. */
interface Items {
  readonly length: number;
  /** Items that count for each `contains`. */
  readonly counts: readonly number[];
  /** Listed values that came, a bit each, if each may come once. */
  readonly used: bigint;
}

/** Writes an array and returns its first node. */
export function writeArray(values: ValueWriter, shape: ArrayShape): number {
  const { writer, style } = values;
  const { reach, contains, prefix, min } = shape;
  const closed = style.closed && prefix.length > 0 && !shape.asked && min <= prefix.length;
  const max = closed ? Math.min(reach, prefix.length) : reach;
  /** Largest length that makes a difference. */
  const most = max === Infinity ? Math.max(min, prefix.length) : max;
  const known = new Map<string, number>();

  const isComplete = ({ length, counts }: Items): boolean => length >= min && counts.every((count, i) => count >= contains[i].min);
  const fits = ({ length, counts }: Items): boolean =>
    counts.every((count, i) => count <= contains[i].max && length + Math.max(0, contains[i].min - count) <= max);

  function after(items: Items): number {
    const key = `${items.length},${items.counts.join('.')},${items.used}`;
    let node = known.get(key);
    if (node === undefined) {
      node = writer.lazy(() => {
        const next = itemsAfter(items);
        const edges = isComplete(items) ? [CLOSE, CLOSE, RETURN] : [];
        if (next.length > 0) edges.push(COMMA, COMMA, writer.call(writer.blanks, writer.split(next)));
        return writer.call(writer.blanks, writer.bytes(edges));
      });
      known.set(key, node);
    }
    return node;
  }

  /** The nodes of all items that may come next. */
  function itemsAfter({ length, counts, used }: Items): number[] {
    if (length >= max) return [];
    const longer = Math.min(length + 1, most);
    if (shape.texts)
      return shape.texts.flatMap((text, i) => {
        const bit = 1n << BigInt(i);
        return used & bit ? [] : [writer.text(text, after({ length: longer, counts, used: used | bit }))];
      });
    const nodes: number[] = [];
    for (const option of shape.at(length)) {
      const next: Items = {
        length: longer,
        counts: counts
          .map((count, i) => count + (option.counts[i] ? 1 : 0))
          .map((count, i) => (contains[i].max === Infinity ? Math.min(count, contains[i].min) : count)),
        used,
      };
      if (option.rule.productive && fits({ ...next, length: length + 1 })) nodes.push(writer.call(values.value(option.rule), after(next)));
    }
    return nodes;
  }

  const none: Items = { length: 0, counts: contains.map(() => 0), used: 0n };
  const inside = itemsAfter(none);
  if (isComplete(none)) inside.push(writer.bytes([CLOSE, CLOSE, RETURN]));
  return writer.bytes([OPEN, OPEN, writer.call(writer.blanks, writer.split(inside))]);
}
