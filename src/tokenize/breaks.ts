/** Where a text that somebody else wrote could be read as control tokens. */
import { createTrie } from './trie.ts';
import { attr, type Vocab } from './vocab.ts';

/**
 * The offsets (for EncodeOptions.breaks) that keep every control token in a text from being read, and every one that begins or ends in it and
 * goes on in what is written before or after. None for nearly all texts.
 * @param keep texts of control tokens that may be read
 */
export type BreaksIn = (text: string, keep?: ReadonlySet<string>) => readonly number[];

/** Separates the tokens in one long string; no token holds it, or only the part before it is looked for. */
const SEPARATOR = '\n';

export function createBreaksIn({ tokens, attrs }: Vocab): BreaksIn {
  const ids = [...attrs.keys()].filter((id) => attrs[id] & (attr.control | attr.unknown | attr.turn) && tokens[id] !== '');
  const { edges, tokenAt } = createTrie(tokens, ids);
  const first = new Set(ids.map((id) => tokens[id].charCodeAt(0))), last = new Set(ids.map((id) => tokens[id].charCodeAt(tokens[id].length - 1)));
  const all = `${ids.map((id) => tokens[id]).join(SEPARATOR)}${SEPARATOR}`;
  let longest = 0;
  for (const id of ids) longest = Math.max(longest, tokens[id].length);

  /** Behind the character at `at`: a surrogate pair is not cut. */
  const behind = (text: string, at: number): number => at + (text.codePointAt(at)! > 0xffff ? 2 : 1);

  /** Does the text begin as a control token ends, or is it all inside of one? */
  const endsToken = (text: string): boolean => {
    if (text === '') return false;
    if (text.length < longest && all.includes(text)) return true;
    for (let end = 1; end <= Math.min(text.length, longest - 1); end++) {
      if (last.has(text.charCodeAt(end - 1)) && all.includes(text.slice(0, end) + SEPARATOR)) return true;
    }
    return false;
  };

  return (text, keep) => {
    const breaks: number[] = [];
    if (ids.length === 0) return breaks;
    if (endsToken(text)) breaks.push(0);
    for (let at = 0; at < text.length; at++) {
      if (!first.has(text.charCodeAt(at))) continue;
      let node: number | undefined = 0, end = at, found = false, alone = false;
      while (end < text.length && !found) {
        node = edges.get(node, text.charCodeAt(end++));
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
