/** Special tokens cut out of a text before it is tokenized. */
import type { Work } from '../slices.ts';
import { createTrie } from './trie.ts';
import { attr } from './attr.ts';
import type { Vocab } from './vocab.ts';

/** A stretch of plain text, or the id of a special token found in the text. */
export type Fragment = string | number;

/**
 * Cuts special tokens out of a text before anything else looks at it.
 * @param breaks ascending UTF-16 offsets that no control token may reach across
 */
export type Partition = (text: string, parseSpecial: boolean, breaks: readonly number[]) => Work<readonly Fragment[]>;

/** What isspace() of the C locale means, which is what strips beside a special token. */
const isSpace = (text: string, at: number): boolean => {
  const unit = text.charCodeAt(at);
  return unit === 0x20 || (unit >= 0x09 && unit <= 0x0d);
};

/** Steps between two places where long work may pause. */
const STRIDE = 8192;

/** Who has a unit of the text: nobody, a token, a token that strips white space to its left or to its right. */
const FREE = 0;
const TOKEN = 1;
const LEFT = 2;
const RIGHT = 3;

/** Does one of `breaks` lie inside [start, end)? A single character has no inside: for it both sides must be breaks. */
export function isBroken(breaks: readonly number[], start: number, end: number): boolean {
  let low = 0;
  let high = breaks.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (breaks[middle] <= start) low = middle + 1;
    else high = middle;
  }
  return breaks[low] < end || (end - start <= 2 && breaks[low - 1] === start && breaks[low] === end);
}

/**
 * llama.cpp's `tokenizer_st_partition`: control and unknown tokens count only with `parseSpecial`, user-defined ones always;
 * longer tokens (in bytes) are cut out of the whole text before shorter ones, and each from left to right.
 *
 * There may be as many special tokens in a text, and as many different ones, as its writer likes: each place of the text is offered its longest
 * token first, and a shorter one only where another token took what that one needs.
 */
export function createPartition(vocab: Vocab): Partition {
  const { tokens, attrs } = vocab;
  const order: number[] = [];
  for (let id = 0; id < tokens.length; id++) if (attrs[id] & (attr.control | attr.userDefined | attr.unknown)) order.push(id);
  const encoder = new TextEncoder();
  const lengths = new Map(order.map((id) => [id, encoder.encode(tokens[id]).length]));
  order.sort((a, b) => lengths.get(b)! - lengths.get(a)! || a - b);
  const rankOf = new Map(order.map((id, i) => [id, i]));
  const finder = (ids: readonly number[]) => {
    const first = new Uint8Array(65536);
    for (const id of ids) first[tokens[id].charCodeAt(0)] = 1;
    return { first, ...createTrie(tokens, ids) };
  };
  const plain = attr.control | attr.unknown;
  const always = finder(order.filter((id) => (attrs[id] & plain) === 0));
  const all = finder(order);

  return function* (text, parseSpecial, breaks) {
    if (!text || order.length === 0) return text ? [text] : [];
    const { first, edges, tokenAt } = parseSpecial ? all : always;
    /** The longest token of at most `most` units that may stand here, or -1. */
    const longestAt = (at: number, most: number): number => {
      let found = -1;
      for (let node: number | undefined = 0, end = at, last = Math.min(text.length, at + most); end < last;) {
        node = edges.get(node, text.charCodeAt(end++));
        if (node === undefined) break;
        steps++;
        const id = tokenAt[node];
        if (id >= 0 && !(breaks.length > 0 && attrs[id] & (plain | attr.turn) && isBroken(breaks, at, end))) found = id;
      }
      return found;
    };

    let steps = 0;
    let pause = STRIDE;
    let lowest = order.length;
    let highest = -1;
    const places = new Map<number, number[]>();
    const unsorted = new Set<number>();
    const offer = (rank: number, at: number): void => {
      const list = places.get(rank);
      if (!list) places.set(rank, [at]);
      else {
        if (at < list[list.length - 1]) unsorted.add(rank);
        list.push(at);
      }
      lowest = Math.min(lowest, rank);
      highest = Math.max(highest, rank);
    };
    for (let at = 0; at < text.length; at++) {
      if (++steps >= pause) {
        pause = steps + STRIDE;
        yield;
      }
      if (!first[text.charCodeAt(at)]) continue;
      const id = longestAt(at, Infinity);
      if (id >= 0) offer(rankOf.get(id)!, at);
    }
    if (highest < 0) return [text];

    const owner = new Uint8Array(text.length);
    const idAt = new Int32Array(text.length).fill(-1);
    for (let rank = lowest; rank <= highest; rank++) {
      const list = places.get(rank);
      if (!list) continue;
      places.delete(rank);
      if (unsorted.has(rank)) list.sort((a, b) => a - b);
      const id = order[rank];
      const { length } = tokens[id];
      for (const at of list) {
        if (++steps >= pause) {
          pause = steps + STRIDE;
          yield;
        }
        if (owner[at] !== FREE) continue;
        // What was cut before is at least as long: where it has a part of this one, it has its first unit or its last.
        if (owner[at + length - 1] !== FREE) {
          const shorter = longestAt(at, length - 1);
          if (shorter >= 0) offer(rankOf.get(shorter)!, at);
          continue;
        }
        owner.fill(TOKEN, at, at + length);
        idAt[at] = id;
        if (attrs[id] & attr.lstrip)
          for (let left = at - 1; left >= 0 && owner[left] === FREE && isSpace(text, left); left--) owner[left] = LEFT;
        if (attrs[id] & attr.rstrip)
          for (let right = at + length; right < text.length && owner[right] === FREE && isSpace(text, right); right++) owner[right] = RIGHT;
      }
    }

    const fragments: Fragment[] = [];
    let from = 0;
    for (let at = 0; at < text.length; at++) {
      if (++steps >= pause) {
        pause = steps + STRIDE;
        yield;
      }
      const id = idAt[at];
      if (id < 0) continue;
      let end = at;
      while (end > from && owner[end - 1] === LEFT) end--;
      if (end > from) fragments.push(text.slice(from, end));
      fragments.push(id);
      from = at + tokens[id].length;
      while (from < text.length && owner[from] === RIGHT) from++;
    }
    if (from < text.length) fragments.push(text.slice(from));
    return fragments;
  };
}
