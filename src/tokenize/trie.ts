/** Tokens as a trie over UTF-16 units, to find tokens in a text. */
import { createPairTable, type PairTable } from './merge.ts';

/**
 * A trie whose edges are in one hash table. Node 0 is the root; `tokenAt` is the id of the token
 * that ends at a node, or -1.
 */
export interface Trie {
  readonly edges: PairTable;
  readonly tokenAt: readonly number[];
}

/** Builds the trie. If two tokens have the same text, the first of `ids` wins. */
export function createTrie(tokens: readonly string[], ids: readonly number[]): Trie {
  const tokenAt = [-1];
  const edges = createPairTable(ids.length * 2);
  for (let i = ids.length - 1; i >= 0; i--) {
    const text = tokens[ids[i]];
    let node = 0;
    for (let at = 0; at < text.length; at++) {
      let child = edges.get(node, text.charCodeAt(at));
      if (child === undefined) {
        child = tokenAt.push(-1) - 1;
        edges.set(node, text.charCodeAt(at), child);
      }
      node = child;
    }
    tokenAt[node] = ids[i];
  }
  return { edges, tokenAt };
}
