/** Characters with a property of Unicode (\p), as the runtime's RegExp knows them. */
import { MAX_CODE_POINT } from '../ranges.ts';
import type { Pairs } from './pattern-reader.ts';

/** Limit of properties in memory. A property takes up to 1,400 numbers. */
const MAX_KEPT = 64;
const kept = new Map<string, Pairs>();
/** Number of code points that are searched at once. */
const STRIDE = 0x10000;
const FIRST_SURROGATE = 0xd800;
const LAST_SURROGATE = 0xdfff;

/**
 * The characters with a property.
 * @param name such as `L` or `Script=Greek`
 * @returns undefined for an unknown property
 */
export function charactersWith(name: string): Pairs | undefined {
  let pairs = kept.get(name);
  if (pairs) return pairs;
  let run: RegExp;
  try {
    run = new RegExp(`\\p{${name}}+`, 'gu');
  } catch {
    return undefined;
  }
  pairs = [];
  for (let from = 0; from <= MAX_CODE_POINT; from += STRIDE) {
    for (const [first, end] of from === 0
      ? [
          [0, FIRST_SURROGATE - 1],
          [LAST_SURROGATE + 1, STRIDE - 1],
        ]
      : [[from, from + STRIDE - 1]]) {
      let text = '';
      for (let code = first; code <= end; code++) text += String.fromCodePoint(code);
      const width = from === 0 ? 1 : 2;
      for (const { 0: found, index } of text.matchAll(run)) pairs.push([first + index / width, first + (index + found.length) / width - 1]);
    }
  }
  if (kept.size >= MAX_KEPT) kept.delete(kept.keys().next().value!);
  kept.set(name, pairs);
  return pairs;
}
