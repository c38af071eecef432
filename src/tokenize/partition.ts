/** Special tokens cut out of a text before it is tokenized. */
import { attr, type Vocab } from './vocab.ts';

/** A stretch of plain text, or the id of a special token found in the text. */
export type Fragment = string | number;

/** Cuts special tokens out of a text before anything else looks at it. */
export type Partition = (text: string, parseSpecial: boolean) => Fragment[];

/** What isspace() of the C locale means, which is what strips beside a special token. */
const isSpace = (text: string, at: number): boolean => {
  const unit = text.charCodeAt(at);
  return unit === 0x20 || (unit >= 0x09 && unit <= 0x0d);
};

/**
 * llama.cpp's `tokenizer_st_partition`: control and unknown tokens count only with `parseSpecial`, user-defined ones always;
 * longer tokens are cut out of the whole text before shorter ones. Vocabularies have thousands of such tokens and a text
 * has few, so one pass finds which occur at all (by their first two UTF-16 units) and only those are searched for.
 */
export function createPartition(vocab: Vocab): Partition {
  const { tokens, attrs } = vocab;
  const utf8Length = (text: string): number => new TextEncoder().encode(text).length;
  const order: number[] = [];
  for (let id = 0; id < tokens.length; id++) if (attrs[id] & (attr.control | attr.userDefined | attr.unknown)) order.push(id);
  const lengths = new Map(order.map((id) => [id, utf8Length(tokens[id])]));
  order.sort((a, b) => lengths.get(b)! - lengths.get(a)! || a - b);
  const rank = new Map(order.map((id, i) => [id, i]));

  const first = new Uint8Array(65536);
  const starts = new Map<number, number[]>();
  const key = (text: string, at: number): number => text.charCodeAt(at) * 65536 + (at + 1 < text.length ? text.charCodeAt(at + 1) : 0);
  const add = (start: number, id: number): void => {
    const ids = starts.get(start);
    if (ids) ids.push(id);
    else starts.set(start, [id]);
  };
  const singles = new Map<number, number>();
  for (const id of order) {
    first[tokens[id].charCodeAt(0)] = 1;
    if (tokens[id].length === 1) singles.set(tokens[id].charCodeAt(0), id);
    else add(key(tokens[id], 0), id);
  }

  const wanted = (id: number, parseSpecial: boolean): boolean => parseSpecial || (attrs[id] & (attr.control | attr.unknown)) === 0;
  const present = (text: string, parseSpecial: boolean): number[] => {
    const found = new Set<number>();
    for (let at = 0; at < text.length; at++) {
      if (!first[text.charCodeAt(at)]) continue;
      const single = singles.get(text.charCodeAt(at));
      if (single !== undefined && wanted(single, parseSpecial)) found.add(single);
      for (const id of starts.get(key(text, at)) ?? []) {
        if (!found.has(id) && wanted(id, parseSpecial) && text.startsWith(tokens[id], at)) found.add(id);
      }
    }
    return [...found].sort((a, b) => rank.get(a)! - rank.get(b)!);
  };

  const cut = (text: string, id: number, out: Fragment[]): void => {
    const token = tokens[id];
    let from = 0;
    for (;;) {
      const at = text.indexOf(token, from);
      if (at < 0) break;
      let end = at;
      if (attrs[id] & attr.lstrip) while (end > from && isSpace(text, end - 1)) end--;
      if (end > from) out.push(text.slice(from, end));
      out.push(id);
      from = at + token.length;
      if (attrs[id] & attr.rstrip) while (from < text.length && isSpace(text, from)) from++;
    }
    if (from < text.length) out.push(from ? text.slice(from) : text);
  };

  return (text, parseSpecial) => {
    let fragments: Fragment[] = text ? [text] : [];
    if (!text || order.length === 0) return fragments;
    for (const id of present(text, parseSpecial)) {
      const next: Fragment[] = [];
      for (const fragment of fragments) {
        if (typeof fragment === 'number') next.push(fragment);
        else cut(fragment, id, next);
      }
      fragments = next;
    }
    return fragments;
  };
}
