import type { State } from './automaton.ts';

/** What a grammar needs to know of a tokenizer. */
export interface GrammarVocabulary {
  readonly nVocab: number;
  /** the bytes a token adds to the text; empty for one that adds none, which byte rules then never allow */
  pieceBytes(id: number): Uint8Array;
  /** whether the token ends the generation */
  isEog(id: number): boolean;
  /** the token with exactly this text, for references <text> */
  tokenId?(text: string): number | undefined;
}

/**
 * All tokens that have bytes, as a trie in preorder: node i reads bytes[i] at depth depths[i], its subtree ends before
 * ends[i], and the tokens spelled by the way to it are ids[tokens[i]] .. ids[tokens[i + 1] - 1].
 */
export interface TokenTrie {
  readonly bytes: Uint8Array;
  readonly depths: Uint16Array;
  readonly ends: Int32Array;
  readonly tokens: Int32Array;
  readonly ids: Int32Array;
  readonly maxDepth: number;
}

const tries = new WeakMap<GrammarVocabulary, TokenTrie>();

/** One trie for each vocabulary object, made at the first call. */
export function tokenTrie(vocabulary: GrammarVocabulary): TokenTrie {
  let trie = tries.get(vocabulary);
  if (!trie) tries.set(vocabulary, (trie = buildTrie(vocabulary)));
  return trie;
}

function buildTrie(vocabulary: GrammarVocabulary): TokenTrie {
  const spelled: { id: number; key: string }[] = [];
  for (let id = 0; id < vocabulary.nVocab; id++) {
    if (vocabulary.isEog(id)) continue;
    const piece = vocabulary.pieceBytes(id);
    if (piece.length > 0 && piece.length < 65536) spelled.push({ id, key: latin1(piece) });
  }
  spelled.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : a.id - b.id));

  const bytes: number[] = [], depths: number[] = [], ends: number[] = [], tokens: number[] = [];
  const ids = new Int32Array(spelled.length);
  const path: number[] = [];
  let previous = '';
  spelled.forEach(({ id, key }, at) => {
    ids[at] = id;
    if (key === previous) return;
    let shared = 0;
    while (shared < key.length && shared < previous.length && key.charCodeAt(shared) === previous.charCodeAt(shared)) shared++;
    while (path.length > shared) ends[path.pop()!] = bytes.length;
    for (let depth = shared; depth < key.length; depth++) {
      path.push(bytes.length);
      bytes.push(key.charCodeAt(depth));
      depths.push(depth);
      ends.push(0);
      tokens.push(at);
    }
    previous = key;
  });
  while (path.length > 0) ends[path.pop()!] = bytes.length;
  tokens.push(spelled.length);
  return {
    bytes: Uint8Array.from(bytes),
    depths: Uint16Array.from(depths),
    ends: Int32Array.from(ends),
    tokens: Int32Array.from(tokens),
    ids,
    maxDepth: depths.reduce((max, depth) => Math.max(max, depth + 1), 0),
  };
}

function latin1(bytes: Uint8Array): string {
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  return text;
}

/** Sets the bit of every token whose bytes lead somewhere from `state`: the trie and the automaton walked together. */
export function markTokens(trie: TokenTrie, state: State, step: (state: State, byte: number) => State | null, mask: Uint32Array): void {
  const { bytes, depths, ends, tokens, ids } = trie;
  const states: State[] = new Array<State>(trie.maxDepth + 1).fill(state);
  for (let i = 0; i < bytes.length;) {
    const depth = depths[i];
    const from = states[depth], byte = bytes[i];
    const known = from.next[byte];
    const to = known === undefined ? step(from, byte) : known;
    if (to === null) {
      i = ends[i];
      continue;
    }
    states[depth + 1] = to;
    for (let t = tokens[i]; t < tokens[i + 1]; t++) mask[ids[t] >> 5] |= 1 << (ids[t] & 31);
    i++;
  }
}
