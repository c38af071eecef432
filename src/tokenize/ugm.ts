/** SentencePiece's Unigram model (T5, XLM-RoBERTa). */
import { readCharsmap } from './charsmap.ts';
import { createPairTable, type PairTable } from './merge.ts';
import type { EncodeText } from './spm.ts';
import { attr, escapedSpace, type Vocab } from './vocab.ts';

/** What an unknown character costs beside the worst token (SentencePiece's kUnkPenalty). */
const unknownPenalty = 10;

/** SentencePiece's normalization: the file's character map, then spaces: escaped, merged and put before the text as the file says. */
export function createNormalizer(vocab: Vocab): (text: string) => string {
  const charsmap = vocab.precompiledCharsmap && readCharsmap(vocab.precompiledCharsmap);
  const encoder = new TextEncoder(), decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  const mapped = (text: string): string => {
    if (!charsmap) return text;
    const bytes = encoder.encode(text);
    let out = new Uint8Array(bytes.length * 2 + 16), length = 0;
    const room = (n: number): void => {
      if (length + n <= out.length) return;
      const wider = new Uint8Array((length + n) * 2);
      wider.set(out);
      out = wider;
    };
    for (let at = 0; at < bytes.length;) {
      const rule = charsmap(bytes, at);
      room(rule ? rule.replacement.length : 4);
      if (rule) {
        out.set(rule.replacement, length);
        length += rule.replacement.length;
        at += rule.length;
      } else {
        // One whole character goes through as it is: rules start at characters.
        do out[length++] = bytes[at++]; while (at < bytes.length && (bytes[at] & 0xc0) === 0x80);
      }
    }
    return decoder.decode(out.subarray(0, length));
  };
  return (text) => {
    const plain = mapped(text);
    if (vocab.removeExtraSpaces) {
      // Every word gets a space before it, the first one too.
      return plain.split(' ').filter((word) => word !== '').map((word) => escapedSpace + word).join('');
    }
    const escaped = plain.replaceAll(' ', escapedSpace);
    if (!vocab.addSpacePrefix) return escaped;
    // The prefix goes before the first character that is no space, after any spaces the text starts with; blank text gets none.
    const start = escaped.search(/[^\u2581]/);
    return start < 0 ? escaped : [escaped.slice(0, start), escaped.slice(start)].join(escapedSpace);
  };
}

/** A trie over UTF-16 units, its edges in one hash table: node 0 is the root, `tokenAt` the id of the token that ends at a node, or -1. */
interface Trie {
  readonly edges: PairTable;
  readonly tokenAt: readonly number[];
}

function createTrie(vocab: Vocab): Trie {
  const tokenAt = [-1];
  const edges = createPairTable(vocab.tokens.length * 2);
  for (let id = vocab.tokens.length - 1; id >= 0; id--) {
    if ((vocab.attrs[id] & (attr.normal | attr.userDefined | attr.unused)) === 0) continue;
    const text = vocab.tokens[id];
    let node = 0;
    for (let i = 0; i < text.length; i++) {
      let child = edges.get(node, text.charCodeAt(i));
      if (child === undefined) {
        child = tokenAt.push(-1) - 1;
        edges.set(node, text.charCodeAt(i), child);
      }
      node = child;
    }
    tokenAt[node] = id;
  }
  return { edges, tokenAt };
}

/**
 * Unigram (llama.cpp's `llm_tokenizer_ugm`): of all ways to write the text as tokens the one with the greatest sum of scores, by Viterbi.
 * User-defined tokens score 0; a character that is no token costs the worst score and a penalty, and neighbouring ones are one unknown token.
 */
export function createUgm(vocab: Vocab): EncodeText {
  const { attrs, special } = vocab;
  const normalize = createNormalizer(vocab);
  const scores = new Float64Array(vocab.tokens.length);
  let worst = Infinity;
  for (let id = 0; id < scores.length; id++) {
    scores[id] = Math.fround(vocab.scores?.[id] ?? 0);
    if (attrs[id] & attr.normal) worst = Math.min(worst, scores[id]);
    if (attrs[id] & attr.userDefined) scores[id] = 0;
  }
  const unknownScore = Math.fround(Math.fround(worst) - unknownPenalty);
  const unknown = special.unk ?? -1;
  const { edges, tokenAt } = createTrie(vocab);

  return (input, out) => {
    const text = normalize(input), n = text.length;
    if (n === 0) return;
    const best = new Float64Array(n + 1).fill(-Infinity), tokenTo = new Int32Array(n + 1).fill(unknown), startOf = new Int32Array(n + 1);
    best[0] = 0;
    const offer = (to: number, id: number, from: number, score: number): void => {
      if (score <= best[to]) return;
      best[to] = score;
      tokenTo[to] = id;
      startOf[to] = from;
    };
    for (let at = 0; at < n;) {
      const width = text.codePointAt(at)! > 0xffff ? 2 : 1;
      let single = false;
      for (let node: number | undefined = 0, end = at; end < n;) {
        node = edges.get(node, text.charCodeAt(end++));
        if (node === undefined) break;
        const id = tokenAt[node];
        if (id < 0) continue;
        if (end - at === width) single = true;
        offer(end, id, at, best[at] + scores[id]);
      }
      if (!single) offer(at + width, unknown, at, best[at] + unknownScore);
      at += width;
    }
    const backwards: number[] = [];
    for (let at = n, after = -2; at > 0; at = startOf[at]) {
      const id = tokenTo[at];
      if (!(id === unknown && after === unknown)) backwards.push(id);
      after = id;
    }
    for (let i = backwards.length - 1; i >= 0; i--) if (backwards[i] >= 0) out.push(backwards[i]);
  };
}
