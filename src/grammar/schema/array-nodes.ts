/** Writes arrays as nodes. */
import { RETURN } from '../program.ts';
import type { ArrayShape } from './array-shape.ts';
import { ArrayStates, type Items } from './array-states.ts';
import type { ArrayForm, ValueWriter } from './rule.ts';

/** Writes an array and returns its first node. */
export function writeArray(values: ValueWriter, shape: ArrayShape, form: ArrayForm): number {
  const { writer, style } = values;
  const states = new ArrayStates(shape, style.closed);
  const known = new Map<Items, number>();

  function after(items: Items): number {
    let node = known.get(items);
    if (node === undefined) {
      node = writer.lazy(() => {
        const next = itemsAfter(items);
        const parts = states.isComplete(items) ? [form.close(RETURN)] : [];
        if (next.length > 0) parts.push(form.comma(writer.split(next)));
        return writer.call(writer.blanks, writer.split(parts));
      });
      known.set(items, node);
    }
    return node;
  }

  /** The nodes of all items that may come next. */
  const itemsAfter = (items: Items): number[] =>
    states
      .next(items)
      .filter(({ item }) => typeof item === 'string' || form.canWrite?.(item, items.length) !== false)
      .map(({ item, after: then }) =>
        typeof item === 'string' ? writer.text(form.listed(item), after(then)) : writer.call(form.item(item, items.length), after(then)),
      );

  const inside = itemsAfter(states.start);
  if (states.isComplete(states.start) && !form.nonEmpty) inside.push(form.close(RETURN));
  return form.open(writer.split(inside));
}
