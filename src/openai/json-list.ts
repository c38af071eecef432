/** Long lists as JSON, written with pauses: half a million ids take JSON.stringify 30 ms, two thousand vectors a second. */
import type { Work } from '../slices.ts';

/** Elements between two places where writing may pause. */
const STRIDE = 2048;

/** The list of what `map` makes of each, as pieces of JSON. */
export function* jsonList<T>(list: readonly T[], map: (item: T, index: number) => unknown, stride = STRIDE): Work<string[]> {
  const pieces: string[] = [];
  for (let from = 0; from < list.length; from += stride) {
    const part = list.slice(from, from + stride).map((item, i) => map(item, from + i));
    pieces.push(JSON.stringify(part).slice(1, -1));
    yield;
  }
  return ['[', pieces.join(','), ']'];
}

export const jsonResponse = (before: string, list: readonly string[], after: string): Response =>
  new Response(before + list.join('') + after, { headers: { 'content-type': 'application/json' } });
