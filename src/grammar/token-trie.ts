/**
 * The vocabulary as a trie over bytes, walked together with a grammar to find all tokens that fit.
 */
import type { Automaton, State } from './automaton.ts';

/** The parts of a tokenizer's vocabulary that a grammar needs. */
export interface GrammarVocabulary {
  readonly nVocab: number;
  /** Bytes that a token adds to the text. A token without bytes never fits a byte rule. */
  pieceBytes(id: number): Uint8Array;
  /** True if the token ends the generation. */
  isEog(id: number): boolean;
  /** The token with exactly this text, for references <text>. */
  tokenId?(text: string): number | undefined;
}

/**
 * All tokens with bytes, as a trie in preorder. Node i reads bytes[i] at depth depths[i], and its
 * subtree ends before ends[i]. The tokens spelled by the path to it are ids[tokens[i]] ..
 * ids[tokens[i + 1] - 1].
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

/** Number of tokens or nodes between two pauses: a fraction of a millisecond. */
const STRIDE = 2048;

/** The trie of a vocabulary object, built at the first call. */
export function* tokenTrie(vocabulary: GrammarVocabulary): Generator<void, TokenTrie> {
  let trie = tries.get(vocabulary);
  if (!trie) tries.set(vocabulary, (trie = yield* buildTrie(vocabulary)));
  return trie;
}

/**
 * Inserts the tokens into linked nodes, found by a hash of (parent, byte), then lays them out in
 * preorder.
 */
function* buildTrie(vocabulary: GrammarVocabulary): Generator<void, TokenTrie> {
  const { nVocab } = vocabulary;
  const pieces: Uint8Array[] = [];
  let total = 1;
  for (let id = 0; id < nVocab; id++) {
    const piece = vocabulary.isEog(id) ? NO_BYTES : vocabulary.pieceBytes(id);
    pieces.push(piece.length < 65536 ? piece : NO_BYTES);
    total += pieces[id].length;
    if (id % STRIDE === 0) yield;
  }

  const bytes = new Uint8Array(total);
  const child = new Int32Array(total);
  const sibling = new Int32Array(total);
  const firstToken = new Int32Array(total).fill(-1);
  const nextToken = new Int32Array(nVocab).fill(-1);
  const slots = 2 ** Math.ceil(Math.log2(2 * total));
  yield;
  const table = new Int32Array(slots);
  const parents = new Int32Array(total);
  yield;
  let nodes = 1; // node 0 is the root, which is not a child
  // In reverse order, because members are added at the head of their list.
  for (let id = nVocab - 1; id >= 0; id--) {
    if (id % STRIDE === 0) yield;
    const piece = pieces[id];
    if (piece.length === 0) continue;
    let node = 0;
    for (let i = 0; i < piece.length; i++) {
      const byte = piece[i];
      let slot = (Math.imul(node * 256 + byte, 0x9e3779b1) >>> 7) & (slots - 1);
      let found = table[slot];
      while (found !== 0 && (parents[found] !== node || bytes[found] !== byte)) {
        slot = (slot + 1) & (slots - 1);
        found = table[slot];
      }
      if (found === 0) {
        found = nodes++;
        table[slot] = found;
        parents[found] = node;
        bytes[found] = byte;
        sibling[found] = child[node];
        child[node] = found;
      }
      node = found;
    }
    nextToken[id] = firstToken[node];
    firstToken[node] = id;
  }

  const size = nodes - 1;
  const trie = {
    bytes: new Uint8Array(size),
    depths: new Uint16Array(size),
    ends: new Int32Array(size),
    tokens: new Int32Array(size + 1),
    ids: new Int32Array(nVocab),
    maxDepth: 0,
  };
  const open: number[] = [];
  let at = 0;
  let spelled = 0;
  for (let node = child[0]; node !== 0;) {
    if (at % STRIDE === 0) yield;
    const depth = open.length;
    trie.bytes[at] = bytes[node];
    trie.depths[at] = depth;
    trie.tokens[at] = spelled;
    for (let id = firstToken[node]; id >= 0; id = nextToken[id]) trie.ids[spelled++] = id;
    trie.maxDepth = Math.max(trie.maxDepth, depth + 1);
    open.push(at++);
    let next = child[node];
    // Climbs to a node with a sibling; the subtrees of all nodes on the way end here.
    while (next === 0 && node !== 0) {
      trie.ends[open.pop()!] = at;
      next = sibling[node];
      node = parents[node];
    }
    node = next;
  }
  trie.tokens[size] = spelled;
  return trie;
}

const NO_BYTES = new Uint8Array();

/**
 * Sets the bit of every token whose bytes fit from `state` on. Walks the trie and the automaton
 * together.
 */
export function* markTokens(trie: TokenTrie, state: State, automaton: Automaton, mask: Uint32Array): Generator<void, void> {
  const { bytes, depths, ends, tokens, ids } = trie;
  const { kindOf } = automaton;
  const states: State[] = new Array<State>(trie.maxDepth + 1).fill(state);
  for (let i = 0, n = 0; i < bytes.length;) {
    if (++n >= STRIDE) {
      n = 0;
      yield;
    }
    const depth = depths[i];
    const from = states[depth];
    const byte = bytes[i];
    const known = from.next[kindOf[byte]];
    const to = known === undefined ? automaton.step(from, byte) : known;
    // Computing a new state takes time proportional to its places.
    if (known === undefined) n += from.places.length + (to?.places.length ?? 0);
    if (to === null) {
      i = ends[i];
      continue;
    }
    states[depth + 1] = to;
    for (let t = tokens[i]; t < tokens[i + 1]; t++) mask[ids[t] >> 5] |= 1 << (ids[t] & 31);
    i++;
  }
}
