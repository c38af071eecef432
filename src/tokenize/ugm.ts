/** SentencePiece's Unigram model (T5, XLM-RoBERTa). */
import { readCharsmap } from './charsmap.ts';
import type { Work } from '../slices.ts';
import type { EncodeText } from './spm.ts';
import { createTrie } from './trie.ts';
import { attr } from './attr.ts';
import { escapedSpace, type Vocab } from './vocab.ts';

/**
 * Cost of an unknown character in addition to that of the worst token (SentencePiece's
 * kUnkPenalty).
 */
const unknownPenalty = 10;

/** Characters between two points where the work may pause. */
const STRIDE = 1024;

/**
 * SentencePiece's normalization: the file's character map; then spaces are escaped, merged and put
 * before the text, as the file says.
 */
export function createNormalizer(vocab: Vocab): (text: string) => Work<string> {
  const charsmap = vocab.precompiledCharsmap && readCharsmap(vocab.precompiledCharsmap);
  const encoder = new TextEncoder();
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  function* mapped(text: string): Work<string> {
    if (!charsmap) return text;
    const bytes = encoder.encode(text);
    let out = new Uint8Array(bytes.length * 2 + 16);
    let length = 0;
    const room = (n: number): void => {
      if (length + n <= out.length) return;
      const wider = new Uint8Array((length + n) * 2);
      wider.set(out);
      out = wider;
    };
    for (let at = 0, n = 1; at < bytes.length; n++) {
      if (n % STRIDE === 0) yield;
      const rule = charsmap(bytes, at);
      room(rule ? rule.replacement.length : 4);
      if (rule) {
        out.set(rule.replacement, length);
        length += rule.replacement.length;
        at += rule.length;
      } else {
        // One whole character is copied unchanged, since rules start at characters.
        do out[length++] = bytes[at++];
        while (at < bytes.length && (bytes[at] & 0xc0) === 0x80);
      }
    }
    return decoder.decode(out.subarray(0, length));
  }
  return function* (text) {
    const plain = yield* mapped(text);
    if (vocab.removeExtraSpaces) {
      // Every word gets a space before it, the first one too.
      return plain
        .split(' ')
        .filter((word) => word !== '')
        .map((word) => escapedSpace + word)
        .join('');
    }
    const escaped = plain.split(' ').join(escapedSpace);
    if (!vocab.addSpacePrefix) return escaped;
    // The prefix goes before the first character that is not a space, after leading spaces. A blank
    // text gets no prefix.
    const start = escaped.search(/[^\u2581]/);
    return start < 0 ? escaped : [escaped.slice(0, start), escaped.slice(start)].join(escapedSpace);
  };
}

/**
 * Unigram (llama.cpp's `llm_tokenizer_ugm`): among all ways to write the text as tokens, the one
 * with the greatest sum of scores, by Viterbi. User-defined tokens score 0. A character that is not
 * a token costs the worst score and a penalty, and neighbouring ones become one unknown token.
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
  const spelled = attr.normal | attr.userDefined | attr.unused;
  const { edges, tokenAt } = createTrie(
    vocab.tokens,
    [...attrs.keys()].filter((id) => attrs[id] & spelled),
  );

  return function* (input, out) {
    const text = yield* normalize(input);
    const n = text.length;
    if (n === 0) return;
    const best = new Float64Array(n + 1).fill(-Infinity);
    const tokenTo = new Int32Array(n + 1).fill(unknown);
    const startOf = new Int32Array(n + 1);
    best[0] = 0;
    const offer = (to: number, id: number, from: number, score: number): void => {
      if (score <= best[to]) return;
      best[to] = score;
      tokenTo[to] = id;
      startOf[to] = from;
    };
    for (let at = 0, steps = 1; at < n; steps++) {
      if (steps % STRIDE === 0) yield;
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
