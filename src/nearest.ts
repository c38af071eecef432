/** Finds the known word that a misspelt word most likely means. */

/**
 * Number of edits that turn one word into the other: change, add or remove a letter, or swap
 * neighbours (optimal string alignment).
 */
function distance(a: string, b: string): number {
  let before: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 0; i < a.length; i++) {
    const next = [i + 1];
    for (let j = 0; j < b.length; j++) {
      const swapped = i > 0 && j > 0 && a[i] === b[j - 1] && a[i - 1] === b[j];
      next.push(Math.min(row[j + 1] + 1, next[j] + 1, row[j] + (a[i] === b[j] ? 0 : 1), swapped ? before[j - 1] + 1 : Infinity));
    }
    before = row;
    row = next;
  }
  return row[b.length];
}

/**
 * Up to `most` known words that begin with the spelling or are within `within` edits; nearest
 * first, of equals those with the same first letter.
 */
export function nearest(spelling: string, known: readonly string[], within: number, most = 1): string[] {
  const far = (word: string): number => (word.startsWith(spelling) ? 0 : distance(spelling, word));
  return known
    .map((word) => [word, far(word)] as const)
    .filter(([, n]) => n <= within)
    .sort(([a, n], [b, m]) => n - m || Number(b[0] === spelling[0]) - Number(a[0] === spelling[0]))
    .slice(0, most)
    .map(([word]) => word);
}

/** Names shorter than this allow only one edit, because two would change too much of the name. */
const SHORT = 5;

/**
 * The known name that a misspelt one means, ignoring case and underscores; undefined if none is
 * near.
 */
export function meant(name: string, known: readonly string[]): string | undefined {
  const plain = (text: string): string => text.toLowerCase().replaceAll('_', '');
  const [near] = nearest(plain(name), known.map(plain), name.length < SHORT ? 1 : 2);
  return near === undefined ? undefined : known.find((one) => plain(one) === near);
}

/**
 * Part of a message about an unknown name, before the expected names:
 * `did you mean "NAME"? Expected` if a known name is near, else `expected`.
 */
export function hintOf(name: unknown, known: readonly string[]): string {
  const near = typeof name === 'string' ? meant(name, known) : undefined;
  return near === undefined ? 'expected' : `did you mean "${near}"? Expected`;
}
