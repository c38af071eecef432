/** Places where a text from outside could be read as control tokens. */
import type { Work } from '../slices.ts';
import { createTrie } from './trie.ts';
import { attr } from './attr.ts';
import type { Vocab } from './vocab.ts';

/**
 * Finds offsets (for EncodeOptions.breaks) that keep control tokens in a text from being read, and
 * also those that begin or end in it and continue in the text before or after. Nearly all texts
 * have none. The work may pause at each yield.
 * @param keep texts of control tokens that may be read
 */
export type BreaksIn = (text: string, keep?: ReadonlySet<string>) => Work<readonly number[]>;

/** Characters between two points where the work may pause. */
const STRIDE = 8192;

/** Reversed by UTF-16 units, surrogates too. */
const reversed = (text: string): string => Array.from({ length: text.length }, (_, i) => text[text.length - 1 - i]).join('');

export function createBreaksIn({ tokens, attrs }: Vocab): BreaksIn {
  const ids = [...attrs.keys()].filter((id) => attrs[id] & (attr.control | attr.unknown | attr.turn) && tokens[id] !== '');
  const { edges, tokenAt } = createTrie(tokens, ids);
  /**
   * The same tokens reversed, to find texts that begin with the end of a token. Searching for the
   * tokens one by one would read the text once for each.
   */
  const backwards = createTrie(
    ids.map((id) => reversed(tokens[id])),
    [...ids.keys()],
  ).edges;
  const first = new Set(ids.map((id) => tokens[id].charCodeAt(0)));
  const last = new Set(ids.map((id) => tokens[id].charCodeAt(tokens[id].length - 1)));
  const all = ids.map((id) => tokens[id]).join('\n');
  let longest = 0;
  for (const id of ids) longest = Math.max(longest, tokens[id].length);

  /** Offset after the character at `at`. A surrogate pair is not cut. */
  const behind = (text: string, at: number): number => at + (text.codePointAt(at)! > 0xffff ? 2 : 1);

  /** True if the text begins with the end of a control token, or lies within one. */
  const endsToken = (text: string): boolean => {
    if (text === '') return false;
    if (text.length < longest && all.includes(text)) return true;
    for (let end = 1; end <= Math.min(text.length, longest - 1); end++) {
      if (!last.has(text.charCodeAt(end - 1))) continue;
      let node: number | undefined = 0;
      for (let at = end; at > 0 && node !== undefined;) node = backwards.get(node, text.charCodeAt(--at));
      if (node !== undefined) return true;
    }
    return false;
  };

  return function* (text, keep) {
    const breaks: number[] = [];
    let steps = 0;
    if (ids.length === 0) return breaks;
    if (endsToken(text)) breaks.push(0);
    for (let at = 0; at < text.length; at++) {
      if (++steps >= STRIDE) {
        steps = 0;
        yield;
      }
      if (!first.has(text.charCodeAt(at))) continue;
      let node: number | undefined = 0;
      let end = at;
      let found = false;
      let alone = false;
      while (end < text.length && !found) {
        node = edges.get(node, text.charCodeAt(end++));
        steps++;
        if (node === undefined) break;
        const id = tokenAt[node];
        if (id < 0 || keep?.has(tokens[id])) continue;
        found = true;
        alone = end === behind(text, at);
      }
      // The text ends within a token, which later text could complete.
      if (!found && node === undefined) continue;
      if (alone && breaks.at(-1) !== at) breaks.push(at);
      breaks.push(behind(text, at));
    }
    return breaks;
  };
}
