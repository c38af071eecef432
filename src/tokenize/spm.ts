/** SentencePiece's byte-pair encoding (llama). */
import type { Work } from '../slices.ts';
import { createPairTable, mergeSymbols, type MergeRules } from './merge.ts';
import { escapedSpace, type Vocab } from './vocab.ts';
import { createWordCache } from './word-cache.ts';

/** Appends the ids of one fragment of plain text. */
export type EncodeText = (text: string, out: number[]) => Work<void>;

/** Characters or words between two points where the work may pause. */
const STRIDE = 2048;
/** Characters between two such points while they are only skipped. */
const LONG = 65_536;
const SPACE = escapedSpace.charCodeAt(0);

const hex = (byte: number): string => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`;

/**
 * Id of the token for a byte (`<0x0A>`, or the character itself in some vocabularies), or -1.
 */
export function byteToken(vocab: Vocab, byte: number): number {
  const id = vocab.idOf(hex(byte));
  return id >= 0 ? id : vocab.idOf(String.fromCharCode(byte));
}

/** The byte of a token like `<0x0A>`, or -1. */
export function tokenByte(text: string): number {
  return /^<0x[0-9A-Fa-f]{2}>$/.test(text) ? parseInt(text.slice(3, 5), 16) : -1;
}

/**
 * SentencePiece's BPE as in llama.cpp (`llm_tokenizer_spm`). The neighbouring pair whose token has
 * the highest score is merged first. Symbols that are not tokens in the end are written as bytes.
 * Expects spaces escaped as U+2581, without the model's space prefix.
 */
export function createSpm(vocab: Vocab): EncodeText {
  const { tokens, scores, idOf } = vocab;
  const nVocab = tokens.length;

  // Characters outside the vocabulary can still be part of a token, so they get numbers above the
  // ids.
  const newTables = () => {
    const extra: string[] = [];
    const extraIds = new Map<string, number>();
    const pairs = createPairTable(4096);
    let nPairs = 0;
    const symbolOf = (char: string): number => {
      const id = idOf(char);
      if (id >= 0) return id;
      let symbol = extraIds.get(char);
      if (symbol === undefined) {
        symbol = nVocab + extra.push(char) - 1;
        extraIds.set(char, symbol);
      }
      return symbol;
    };
    const textOf = (symbol: number): string => (symbol < nVocab ? tokens[symbol] : extra[symbol - nVocab]);
    const rules: MergeRules = {
      find: (left, right) => {
        let id = pairs.get(left, right);
        if (id === undefined) {
          id = idOf(textOf(left) + textOf(right));
          pairs.set(left, right, id);
          nPairs++;
        }
        return id;
      },
      priority: (id) => (scores ? -scores[id] : 0),
      result: (id) => id,
    };
    return { symbolOf, textOf, rules, large: () => nPairs > 1 << 20 || extra.length > 1 << 16 };
  };

  const encoder = new TextEncoder();
  let tables = newTables();
  function* encodeWhole(text: string): Work<number[]> {
    // During a pause another text may replace the tables. This text keeps those that number its
    // symbols.
    const own = tables;
    const { symbolOf, textOf, rules } = own;
    const symbols: number[] = [];
    for (const char of text) {
      if (symbols.push(symbolOf(char)) % STRIDE === 0) yield;
    }
    yield* mergeSymbols(symbols, rules);
    const ids: number[] = [];
    let n = 0;
    for (const symbol of symbols) {
      if (++n % STRIDE === 0) yield;
      if (symbol < nVocab) {
        ids.push(symbol);
        continue;
      }
      for (const byte of encoder.encode(textOf(symbol))) {
        const id = byteToken(vocab, byte);
        if (id >= 0) ids.push(id);
        else if (vocab.special.unk !== undefined) ids.push(vocab.special.unk);
      }
    }
    // Texts in many scripts must not grow these tables without limit.
    if (own === tables && own.large()) tables = newTables();
    return ids;
  }

  // Merging never crosses a border that no token crosses. If every U+2581 in the vocabulary starts
  // a token (or follows another one), text splits into words, and words repeat.
  let words: boolean | undefined;
  const cache = createWordCache();
  return function* (text, out) {
    words ??= !tokens.some((token) => /[^\u2581]\u2581/.test(token));
    if (!words) {
      const ids = yield* encodeWhole(text);
      for (let i = 0; i < ids.length; i++) if (out.push(ids[i]) % STRIDE === 0) yield;
      return;
    }
    for (let from = 0, n = 1; from < text.length; n++) {
      if (n % STRIDE === 0) yield;
      let to = from;
      while (to < text.length && text.charCodeAt(to) === SPACE) if (++to % LONG === 0) yield;
      to = text.indexOf(escapedSpace, to);
      if (to < 0) to = text.length;
      const word = text.slice(from, to);
      let ids = cache.get(word);
      if (!ids) {
        ids = yield* encodeWhole(word);
        cache.set(word, ids);
      }
      for (let i = 0; i < ids.length; i++) {
        out.push(ids[i]);
        if (++n % STRIDE === 0) yield;
      }
      from = to;
    }
  };
}
