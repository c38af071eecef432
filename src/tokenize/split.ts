/** Text cut into words by a pre-tokenizer's patterns. */
import type { PreTokenizer, Splitter } from './pre-tokenizers.ts';

/** A global regex with White_Space for \s and \S. */
const compile = (pattern: string): RegExp =>
  new RegExp(pattern.replaceAll('\\s', '\\p{White_Space}').replaceAll('\\S', '\\P{White_Space}'), 'gu');

/** Cuts one piece at the matches: the matches, and what lies between them, in order. */
const bySplitting = (regex: RegExp): Splitter => (piece) => {
  const parts: string[] = [];
  let from = 0;
  regex.lastIndex = 0;
  for (;;) {
    // exec, not matchAll: no iterator, and lastIndex stays ours.
    const match = regex.exec(piece);
    if (!match) break;
    if (match.index > from) parts.push(piece.slice(from, match.index));
    parts.push(match[0]);
    from = regex.lastIndex;
  }
  if (from < piece.length) parts.push(from ? piece.slice(from) : piece);
  return parts;
};

/** Cuts a text into the words that are merged each for itself: all patterns in turn, each on the pieces the one before left. */
export function createSplitter(pre: PreTokenizer): Splitter {
  const splitters = pre.split.map((part) => (typeof part === 'string' ? bySplitting(compile(part)) : part));
  if (splitters.length === 1) return splitters[0];
  return (text) => {
    let pieces = [text];
    for (const split of splitters) {
      const next: string[] = [];
      for (const piece of pieces) for (const part of split(piece)) next.push(part);
      pieces = next;
    }
    return pieces;
  };
}
