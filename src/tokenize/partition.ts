/** Special tokens cut out of a text before it is tokenized. */
import type { Work } from '../slices.ts';
import { createTrie } from './trie.ts';
import { attr } from './attr.ts';
import type { Vocab } from './vocab.ts';

/** A stretch of plain text, or the id of a special token found in the text. */
export type Fragment = string | number;

/**
 * Cuts special tokens out of a text, before any other step.
 * @param breaks ascending UTF-16 offsets that no control token may reach across
 */
export type Partition = (text: string, parseSpecial: boolean, breaks: readonly number[]) => Work<readonly Fragment[]>;

/** isspace() of the C locale, which decides what is stripped next to a special token. */
const isSpace = (text: string, at: number): boolean => {
  const unit = text.charCodeAt(at);
  return unit === 0x20 || (unit >= 0x09 && unit <= 0x0d);
};

/** Steps between two points where the work may pause. */
const STRIDE = 8192;

/**
 * Owner of a unit of the text: none, a token, or a token that strips white space on its left or
 * right.
 */
const FREE = 0;
const TOKEN = 1;
const LEFT = 2;
const RIGHT = 3;

/** Tokens that are cut out only if special tokens are parsed. */
const PARSED = attr.control | attr.unknown;
/** Tokens that may not reach across a break. */
const UNBROKEN = PARSED | attr.turn;

/**
 * True if one of `breaks` lies inside [start, end). A single character has no inside: for it both
 * ends must be breaks.
 */
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

/** The special tokens of a vocabulary by rank: longer ones (in bytes) first, then by id. */
interface Ranks {
  readonly order: readonly number[];
  readonly rankOf: ReadonlyMap<number, number>;
}

function rankSpecial({ tokens, attrs }: Vocab): Ranks {
  const order: number[] = [];
  for (let id = 0; id < tokens.length; id++) if (attrs[id] & (PARSED | attr.userDefined)) order.push(id);
  const encoder = new TextEncoder();
  const lengths = new Map(order.map((id) => [id, encoder.encode(tokens[id]).length]));
  order.sort((a, b) => lengths.get(b)! - lengths.get(a)! || a - b);
  return { order, rankOf: new Map(order.map((id, rank) => [id, rank])) };
}

/** A trie of some tokens, and a table of the units that they begin with. */
const createFinder = (tokens: readonly string[], ids: readonly number[]) => {
  const first = new Uint8Array(65536);
  for (const id of ids) first[tokens[id].charCodeAt(0)] = 1;
  return { first, ...createTrie(tokens, ids) };
};
type Finder = ReturnType<typeof createFinder>;

/**
 * llama.cpp's `tokenizer_st_partition`. Control and unknown tokens are cut only with
 * `parseSpecial`, user-defined ones always. Longer tokens (in bytes) are cut out of the whole text
 * before shorter ones, and each from left to right.
 */
export function createPartition(vocab: Vocab): Partition {
  const ranks = rankSpecial(vocab);
  const { order } = ranks;
  const always = createFinder(
    vocab.tokens,
    order.filter((id) => (vocab.attrs[id] & PARSED) === 0),
  );
  const all = createFinder(vocab.tokens, order);
  return function* (text, parseSpecial, breaks) {
    if (!text || order.length === 0) return text ? [text] : [];
    return yield* new Cutter(vocab, ranks, parseSpecial ? all : always, text, breaks).fragments();
  };
}

/**
 * Cuts one text at its special tokens. Searching the text for each token would read it once per
 * token. Instead, each place of the text is offered to the longest token that begins there, and to
 * a shorter one only if another token has taken a part of the longer one's text.
 */
class Cutter {
  readonly #vocab: Vocab;
  readonly #ranks: Ranks;
  readonly #finder: Finder;
  readonly #text: string;
  readonly #breaks: readonly number[];
  /**
   * Places offered to the token of each rank, and ranks whose places are not in ascending order.
   */
  readonly #places = new Map<number, number[]>();
  readonly #unsorted = new Set<number>();
  #lowest: number;
  #highest = -1;
  #steps = 0;
  #pauseAt = STRIDE;

  constructor(vocab: Vocab, ranks: Ranks, finder: Finder, text: string, breaks: readonly number[]) {
    this.#vocab = vocab;
    this.#ranks = ranks;
    this.#finder = finder;
    this.#text = text;
    this.#breaks = breaks;
    this.#lowest = ranks.order.length;
  }

  *fragments(): Work<readonly Fragment[]> {
    yield* this.#offerPlaces();
    if (this.#highest < 0) return [this.#text];
    const owners = new Uint8Array(this.#text.length);
    const idAt = new Int32Array(this.#text.length).fill(-1);
    yield* this.#takePlaces(owners, idAt);
    return yield* this.#cut(owners, idAt);
  }

  /** True once every STRIDE steps: the caller then pauses. */
  #pauseIsDue(): boolean {
    if (++this.#steps < this.#pauseAt) return false;
    this.#pauseAt = this.#steps + STRIDE;
    return true;
  }

  /** The longest token of at most `most` units that may begin at a place, or -1. */
  #longestAt(at: number, most: number): number {
    const { edges, tokenAt } = this.#finder;
    const text = this.#text;
    const breaks = this.#breaks;
    const last = Math.min(text.length, at + most);
    let found = -1;
    for (let node: number | undefined = 0, end = at; end < last;) {
      node = edges.get(node, text.charCodeAt(end++));
      if (node === undefined) break;
      this.#steps++;
      const id = tokenAt[node];
      if (id >= 0 && !(breaks.length > 0 && this.#vocab.attrs[id] & UNBROKEN && isBroken(breaks, at, end))) found = id;
    }
    return found;
  }

  #offer(id: number, at: number): void {
    const rank = this.#ranks.rankOf.get(id)!;
    const list = this.#places.get(rank);
    if (!list) this.#places.set(rank, [at]);
    else {
      if (at < list[list.length - 1]) this.#unsorted.add(rank);
      list.push(at);
    }
    this.#lowest = Math.min(this.#lowest, rank);
    this.#highest = Math.max(this.#highest, rank);
  }

  /** Offers every place of the text to the longest token that begins there. */
  *#offerPlaces(): Work<void> {
    const { first } = this.#finder;
    const text = this.#text;
    for (let at = 0; at < text.length; at++) {
      if (this.#pauseIsDue()) yield;
      if (!first[text.charCodeAt(at)]) continue;
      const id = this.#longestAt(at, Infinity);
      if (id >= 0) this.#offer(id, at);
    }
  }

  /**
   * Gives tokens their places, rank by rank. Writes the owner of each unit, and the token that
   * begins at each place.
   */
  *#takePlaces(owners: Uint8Array, idAt: Int32Array): Work<void> {
    for (let rank = this.#lowest; rank <= this.#highest; rank++) {
      const list = this.#places.get(rank);
      if (!list) continue;
      this.#places.delete(rank);
      if (this.#unsorted.has(rank)) list.sort((a, b) => a - b);
      const id = this.#ranks.order[rank];
      const { length } = this.#vocab.tokens[id];
      for (const at of list) {
        if (this.#pauseIsDue()) yield;
        if (owners[at] !== FREE) continue;
        // Tokens cut earlier are at least as long. So if one of them overlaps this one, it owns its
        // first or its last unit.
        if (owners[at + length - 1] !== FREE) {
          const shorter = this.#longestAt(at, length - 1);
          if (shorter >= 0) this.#offer(shorter, at);
          continue;
        }
        idAt[at] = id;
        this.#take(owners, id, at, at + length);
      }
    }
  }

  /** Marks the units of a token, and the white space that it strips. */
  #take(owners: Uint8Array, id: number, start: number, end: number): void {
    const text = this.#text;
    const attrs = this.#vocab.attrs[id];
    owners.fill(TOKEN, start, end);
    if (attrs & attr.lstrip) for (let at = start - 1; at >= 0 && owners[at] === FREE && isSpace(text, at); at--) owners[at] = LEFT;
    if (attrs & attr.rstrip) for (let at = end; at < text.length && owners[at] === FREE && isSpace(text, at); at++) owners[at] = RIGHT;
  }

  /** The tokens, and the text between them that nobody owns. */
  *#cut(owners: Uint8Array, idAt: Int32Array): Work<readonly Fragment[]> {
    const text = this.#text;
    const fragments: Fragment[] = [];
    let from = 0;
    for (let at = 0; at < text.length; at++) {
      if (this.#pauseIsDue()) yield;
      const id = idAt[at];
      if (id < 0) continue;
      let end = at;
      while (end > from && owners[end - 1] === LEFT) end--;
      if (end > from) fragments.push(text.slice(from, end));
      fragments.push(id);
      from = at + this.#vocab.tokens[id].length;
      while (from < text.length && owners[from] === RIGHT) from++;
    }
    if (from < text.length) fragments.push(text.slice(from));
    return fragments;
  }
}
