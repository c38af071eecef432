/** Byte-pair encoding (GPT-2 and its descendants). */
import type { Work } from '../slices.ts';
import { createPairTable, mergeSymbols, type MergeRules, type PairTable } from './merge.ts';
import { createSplitter } from './split.ts';
import type { EncodeText } from './spm.ts';
import { byteToken } from './spm.ts';
import type { Vocab } from './vocab.ts';
import { createWordCache } from './word-cache.ts';

/**
 * GPT-2's letter for every byte: printable Latin-1 stands for itself, other bytes become letters
 * above U+0100.
 */
export const letterOfByte: readonly string[] = (() => {
  const letters: string[] = [];
  let moved = 256;
  for (let byte = 0; byte < 256; byte++) {
    const printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    letters.push(String.fromCharCode(printable ? byte : moved++));
  }
  return letters;
})();

export const byteOfLetter: ReadonlyMap<string, number> = new Map(letterOfByte.map((letter, byte) => [letter, byte]));

interface MergeTable {
  readonly pairs: PairTable;
  /**
   * Texts named by merges but missing in the vocabulary. Their symbols are numbered from
   * `tokens.length` on.
   */
  readonly extra: string[];
  symbolOf(text: string): number;
  rules: MergeRules;
}

/**
 * Reads the merges as integers. The result of a merge is looked up when the merge is first done:
 * most of 300000 merges never are.
 */
function readMerges(vocab: Vocab): MergeTable {
  const { tokens, merges, idOf } = vocab;
  const nVocab = tokens.length;
  const extra: string[] = [];
  const extraIds = new Map<string, number>();
  const symbolOf = (text: string): number => {
    const id = idOf(text);
    if (id >= 0) return id;
    let symbol = extraIds.get(text);
    if (symbol === undefined) {
      symbol = nVocab + extra.push(text) - 1;
      extraIds.set(text, symbol);
    }
    return symbol;
  };
  const pairs = createPairTable(merges.length);
  const results = new Int32Array(merges.length).fill(-1);
  for (let rank = 0; rank < merges.length; rank++) {
    const merge = merges[rank];
    const at = merge.indexOf(' ', 1);
    if (at < 0) continue;
    const left = symbolOf(merge.slice(0, at));
    const right = symbolOf(merge.slice(at + 1));
    if (pairs.get(left, right) === undefined) pairs.set(left, right, rank);
  }
  const rules: MergeRules = {
    find: (left, right) => pairs.get(left, right) ?? -1,
    priority: (rank) => rank,
    result: (rank) => {
      let symbol = results[rank];
      if (symbol < 0) {
        const at = merges[rank].indexOf(' ', 1);
        symbol = results[rank] = symbolOf(merges[rank].slice(0, at) + merges[rank].slice(at + 1));
      }
      return symbol;
    },
  };
  return { pairs, extra, symbolOf, rules };
}

/** Bytes or characters of a long word between two points where the work may pause. */
const STRIDE = 4096;

/**
 * Byte-pair encoding of words (llama.cpp's `llm_tokenizer_bpe`): over GPT-2's byte letters, or over
 * characters, with `<0x0A>` for bytes that the vocabulary lacks.
 */
export function createBpe(vocab: Vocab): EncodeText {
  const { pre, tokens, idOf } = vocab;
  const nVocab = tokens.length;
  const split = createSplitter(pre);
  const encoder = new TextEncoder();
  const bytes = pre.characters !== true;
  let table: MergeTable | undefined;
  let longest = 0;
  const symbolOfByte = new Int32Array(256).fill(-1);

  function* encodeWord(word: string): Work<number[]> {
    if (!table) {
      table = readMerges(vocab);
      for (const token of tokens) longest = Math.max(longest, token.length);
    }
    const utf8 = bytes ? encoder.encode(word) : undefined;
    if (word.length <= longest && (pre.ignoreMerges || (pre.newlineRuns && /^\n+$/.test(word)))) {
      let spelled = word;
      if (utf8) {
        spelled = '';
        for (const byte of utf8) spelled += letterOfByte[byte];
      }
      const id = idOf(spelled);
      if (id >= 0) return [id];
    }
    const symbols: number[] = [];
    if (utf8) {
      for (let i = 0; i < utf8.length; i++) {
        if ((i + 1) % STRIDE === 0) yield;
        const byte = utf8[i];
        if (symbolOfByte[byte] < 0) symbolOfByte[byte] = table.symbolOf(letterOfByte[byte]);
        symbols.push(symbolOfByte[byte]);
      }
    } else {
      for (const char of word) {
        if (symbols.push(table.symbolOf(char)) % STRIDE === 0) yield;
      }
    }
    yield* mergeSymbols(symbols, table.rules);
    if (!symbols.some((symbol) => symbol >= nVocab)) return symbols;

    // As in llama.cpp, text that the vocabulary lacks is written byte by byte, without bytes that
    // it lacks too.
    const ids: number[] = [];
    for (const symbol of symbols) {
      if (symbol < nVocab) {
        ids.push(symbol);
        continue;
      }
      const text = table.extra[symbol - nVocab];
      if (utf8) {
        for (const letter of text) if (letter < '\x80' && idOf(letter) >= 0) ids.push(idOf(letter));
      } else {
        for (const byte of encoder.encode(text)) if (byteToken(vocab, byte) >= 0) ids.push(byteToken(vocab, byte));
      }
    }
    return ids;
  }

  const cache = createWordCache();
  return function* (text, out) {
    for (const words of split(text)) {
      for (const word of words) {
        let ids = cache.get(word);
        if (!ids) {
          ids = yield* encodeWord(word);
          cache.set(word, ids);
        }
        for (let i = 0; i < ids.length; i++) out.push(ids[i]);
      }
      yield;
    }
  };
}
