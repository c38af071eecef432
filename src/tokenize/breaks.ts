/** Where a text that somebody else wrote could be read as control tokens. */
import type { Work } from '../slices.ts';
import { createTrie } from './trie.ts';
import { attr } from './attr.ts';
import type { Vocab } from './vocab.ts';

/**
 * The offsets (for EncodeOptions.breaks) that keep every control token in a text from being read, and every one that begins or ends in it and
 * goes on in what is written before or after. None for nearly all texts. It may pause wherever it yields.
 * @param keep texts of control tokens that may be read
 */
export type BreaksIn = (text: string, keep?: ReadonlySet<string>) => Work<readonly number[]>;

/** Characters between two places where the work may pause. */
const STRIDE = 8192;

/** Unit by unit, surrogates too. */
const reversed = (text: string): string => Array.from({ length: text.length }, (_, i) => text[text.length - 1 - i]).join('');

export function createBreaksIn({ tokens, attrs }: Vocab): BreaksIn {
  const ids = [...attrs.keys()].filter((id) => attrs[id] & (attr.control | attr.unknown | attr.turn) && tokens[id] !== '');
  const { edges, tokenAt } = createTrie(tokens, ids);
  /** The same tokens from their ends, for texts that begin as a token ends: looked for one after the other, they would be read once for each. */
  const backwards = createTrie(
    ids.map((id) => reversed(tokens[id])),
    [...ids.keys()],
  ).edges;
  const first = new Set(ids.map((id) => tokens[id].charCodeAt(0)));
  const last = new Set(ids.map((id) => tokens[id].charCodeAt(tokens[id].length - 1)));
  const all = ids.map((id) => tokens[id]).join('\n');
  let longest = 0;
  for (const id of ids) longest = Math.max(longest, tokens[id].length);

  /** Behind the character at `at`: a surrogate pair is not cut. */
  const behind = (text: string, at: number): number => at + (text.codePointAt(at)! > 0xffff ? 2 : 1);

  /** Does the text begin as a control token ends, or is it all inside of one? */
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
      // The text ends within a token: what follows could complete it.
      if (!found && node === undefined) continue;
      if (alone && breaks.at(-1) !== at) breaks.push(at);
      breaks.push(behind(text, at));
    }
    return breaks;
  };
}
