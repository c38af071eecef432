/** Cutting of text into words by a pre-tokenizer's patterns. */
import type { PreTokenizer, Splitter } from './pre-tokenizers.ts';

/** A global regex, with White_Space for \s and \S. */
const compile = (pattern: string): RegExp =>
  new RegExp(pattern.replaceAll('\\s', '\\p{White_Space}').replaceAll('\\S', '\\P{White_Space}'), 'gu');

/**
 * Maximum number of words of a batch, and UTF-16 units after which a batch ends. A batch takes a
 * few tenths of a millisecond, and the work may pause after it.
 */
const WORDS = 512;
const UNITS = 4096;

/** Words in batches. */
export type Batches = Generator<readonly string[], void>;

/**
 * Cuts pieces at the matches. Yields the matches and, unless `onlyMatches`, the text between them,
 * in order.
 */
function* bySplitting(regex: RegExp, onlyMatches: boolean, batches: Iterable<readonly string[]>): Batches {
  let parts: string[] = [];
  let units = 0;
  for (const batch of batches) {
    for (const piece of batch) {
      for (let from = 0; from < piece.length;) {
        // exec() needs no iterator, unlike matchAll(). lastIndex is set each time, since another
        // text may have used this pattern during a pause.
        regex.lastIndex = from;
        const match = regex.exec(piece);
        const end = regex.lastIndex;
        if (!match) {
          if (!onlyMatches) parts.push(from ? piece.slice(from) : piece);
          break;
        }
        if (match.index > from && !onlyMatches) parts.push(piece.slice(from, match.index));
        parts.push(match[0]);
        units += end - from;
        from = end;
        if (parts.length < WORDS && units < UNITS) continue;
        yield parts;
        parts = [];
        units = 0;
      }
    }
  }
  if (parts.length > 0) yield parts;
}

function* byFunction(split: Splitter, batches: Iterable<readonly string[]>): Batches {
  for (const batch of batches) for (const piece of batch) yield split(piece);
}

/**
 * Cuts a text into words, each of which is merged on its own: all patterns in turn, each on the
 * pieces that the one before left.
 */
export function createSplitter(pre: PreTokenizer): (text: string) => Iterable<readonly string[]> {
  const steps = pre.split.map((part) => {
    if (typeof part !== 'string') return (batches: Iterable<readonly string[]>) => byFunction(part, batches);
    const regex = compile(part);
    return (batches: Iterable<readonly string[]>) => bySplitting(regex, pre.onlyMatches === true, batches);
  });
  return (text) => steps.reduce<Iterable<readonly string[]>>((batches, step) => step(batches), [[text]]);
}
