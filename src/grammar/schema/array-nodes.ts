/** Writes arrays as nodes. */
import { RETURN } from '../program.ts';
import type { ArrayShape } from './array-shape.ts';
import { ArrayStates, type Items } from './array-states.ts';
import type { ValueWriter } from './rule.ts';

const OPEN = 0x5b;
const COMMA = 0x2c;
const CLOSE = 0x5d;

/** Writes an array and returns its first node. */
export function writeArray(values: ValueWriter, shape: ArrayShape): number {
  const { writer, style } = values;
  const states = new ArrayStates(shape, style.closed);
  const known = new Map<Items, number>();

  function after(items: Items): number {
    let node = known.get(items);
    if (node === undefined) {
      node = writer.lazy(() => {
        const next = itemsAfter(items);
        const edges = states.isComplete(items) ? [CLOSE, CLOSE, RETURN] : [];
        if (next.length > 0) edges.push(COMMA, COMMA, writer.call(writer.blanks, writer.split(next)));
        return writer.call(writer.blanks, writer.bytes(edges));
      });
      known.set(items, node);
    }
    return node;
  }

  /** The nodes of all items that may come next. */
  const itemsAfter = (items: Items): number[] =>
    states
      .next(items)
      .map(({ item, after: then }) =>
        typeof item === 'string' ? writer.text(item, after(then)) : writer.call(values.value(item), after(then)),
      );

  const inside = itemsAfter(states.start);
  if (states.isComplete(states.start)) inside.push(writer.bytes([CLOSE, CLOSE, RETURN]));
  return writer.bytes([OPEN, OPEN, writer.call(writer.blanks, writer.split(inside))]);
}
