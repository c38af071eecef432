/**
 * WordPiece, as its maker computes it (google-research/bert, and the `BertNormalizer`,
 * `BertPreTokenizer` and `WordPiece` of Hugging Face's tokenizers). llama.cpp differs, see
 * docs/embeddings.md.
 */
import type { Work } from '../slices.ts';
import { attr } from './attr.ts';
import type { EncodeText } from './spm.ts';
import { escapedSpace, type Vocab } from './vocab.ts';
import { createWordCache } from './word-cache.ts';

const whiteSpace = /\p{White_Space}/u;
/**
 * Characters that are removed: controls, among them some that Unicode counts as white space (U+000B,
 * U+0085), and invisible and private ones.
 */
const dropped = /(?![\t\n\r])[\ufffd\p{Cc}\p{Cf}\p{Co}]/u;
/** Accents, and vowel signs without a width of their own. Other vowel signs are letters. */
const accent = /\p{Mn}/u;
/** Ideographs, which are words of their own: the blocks that BERT lists, with the gap in its Rust code. */
const ideograph =
  /[\u4e00-\u9fff\u3400-\u4dbf\u{20000}-\u{2a6df}\u{2a700}-\u{2b73f}\u{2b740}-\u{2b81f}\u{2b920}-\u{2ceaf}\uf900-\ufaff\u{2f800}-\u{2fa1f}]/u;
/** Punctuation and ASCII symbols, which are words of their own too. */
const mark = /[\p{P}$+<=>^`|~]/u;

/** Characters or words between two points where the work may pause. */
const STRIDE = 1024;

/** Most characters of a word; a longer one is unknown. GGUF has no key for it, and every model has 100. */
const LONGEST_WORD = 100;

/** Lower case of one character alone: a sigma at the end of a word stays the usual one. */
export const lowered = (char: string): string => char.toLowerCase();

/** Words after BERT's normalizer and pre-tokenizer, each with U+2581 before it. */
export function* bertWords(text: string, lowercase: boolean, stripAccents: boolean): Work<string[]> {
  const words: string[] = [];
  // An array, joined at the end: optimized code that slices a string built by += copies all of it
  // each time, which is quadratic for one long word.
  let word = [escapedSpace];
  const finish = (): void => {
    if (word.length === 1) return;
    words.push(word.join(''));
    word = [escapedSpace];
  };
  let n = 0;
  for (const char of text) {
    if (++n % STRIDE === 0) yield;
    if (dropped.test(char)) continue;
    if (whiteSpace.test(char)) {
      finish();
      continue;
    }
    const isIdeograph = ideograph.test(char);
    for (const part of stripAccents && char >= '\x80' ? char.normalize('NFD') : char) {
      if (stripAccents && accent.test(part)) continue;
      const isWord = isIdeograph || mark.test(part);
      if (isWord) finish();
      word.push(lowercase ? lowered(part) : part);
      if (isWord) finish();
    }
  }
  finish();
  return words;
}

/** True if a word, with its U+2581, has more than LONGEST_WORD characters. */
const isTooLong = (word: string): boolean =>
  word.length > LONGEST_WORD + 1 && (word.length > 2 * LONGEST_WORD + 1 || [...word].length > LONGEST_WORD + 1);

/**
 * WordPiece: Each word takes the longest token at its start, then at the remainder. If no token
 * fits, or the word is too long, the whole word is unknown. In GGUF the start of a word is U+2581,
 * and continuations are bare, without `##`.
 */
export function createWpm(vocab: Vocab): EncodeText {
  const { tokens, attrs, idOf } = vocab;
  let longest = 0;
  for (const token of tokens) longest = Math.max(longest, token.length);
  const cache = createWordCache();
  const unknown = vocab.special.unk === undefined ? [] : [vocab.special.unk];

  /** The piece of a word at `from`, or -1. */
  const idAt = (word: string, from: number, to: number): number => {
    // A U+2581 within a word is a character of the text, never the start of another token.
    const isStart = word[from] === escapedSpace && to > from + 1;
    if (isStart !== (from === 0)) return -1;
    const id = idOf(word.slice(from, to));
    return id >= 0 && attrs[id] & (attr.control | attr.unknown) ? -1 : id;
  };

  const encodeWord = (word: string): readonly number[] => {
    if (isTooLong(word)) return unknown;
    const ids: number[] = [];
    for (let from = 0; from < word.length;) {
      let to = Math.min(word.length, from + longest);
      let id = -1;
      for (; to > from && (id = idAt(word, from, to)) < 0; to--);
      if (id < 0) return unknown;
      ids.push(id);
      from = to;
    }
    return ids;
  };

  return function* (text, out) {
    let n = 0;
    for (const word of yield* bertWords(text, vocab.lowercase, vocab.stripAccents)) {
      if (++n % STRIDE === 0) yield;
      let ids = cache.get(word);
      if (!ids) {
        ids = encodeWord(word);
        cache.set(word, ids);
      }
      for (const id of ids) out.push(id);
    }
  };
}
