/** Writes arrays as GBNF. */
import type { Work } from '../../slices.ts';
import { gbnfRepeat, gbnfSequence, gbnfText } from '../gbnf-text.ts';
import type { ArrayShape } from './array-shape.ts';
import { ArrayStates, type Items } from './array-states.ts';
import type { PartWriter } from './object-gbnf.ts';
import type { Rule } from './rule.ts';
import { writeStates, type Step } from './state-rules.ts';

export function* writeArray(parts: PartWriter, hint: string, shape: ArrayShape): Work<string | undefined> {
  const { book } = parts;
  const ws = book.share('ws');
  const states = new ArrayStates(shape, true);
  const { prefix, contains, texts, min } = shape;
  const isCounted = contains.length === 0 && !texts;
  const separated = (length: number, text: string): string => (length === 0 ? text : gbnfSequence(ws, '","', ws, text));

  function stepsOf(items: Items): Step<Items>[] {
    const { length } = items;
    const steps: Step<Items>[] = states.isComplete(items) ? [{ text: length === 0 ? '' : ws, to: undefined }] : [];
    const next = states.next(items);
    const [first] = next;
    if (isCounted && length === prefix.length && first) {
      // The items after the listed ones are alike, so their number is a repetition.
      const item = parts.refer(first.item as Rule);
      const more = (from: number): string => gbnfRepeat(separated(1, item), Math.max(0, min - from), states.max - from);
      if (length > 0) return [{ text: gbnfSequence(more(length), ws), to: undefined }];
      return [{ text: gbnfSequence(item, more(1), ws), to: undefined }, ...steps];
    }
    for (const { item, after } of next)
      steps.push({ text: separated(length, typeof item === 'string' ? gbnfText(item) : parts.refer(item)), to: after });
    return steps;
  }
  const items = yield* writeStates(book, hint, states.start, stepsOf);
  return items === undefined ? undefined : gbnfSequence('"["', ws, items, '"]"');
}
