/** WordPiece (BERT). */
import type { Work } from '../slices.ts';
import type { EncodeText } from './spm.ts';
import { escapedSpace, type Vocab } from './vocab.ts';
import { createWordCache } from './word-cache.ts';

const whiteSpace = /\p{White_Space}/u;
const dropped = /[\0\ufffd\p{Cc}\p{Cf}\p{Co}\p{Cs}]/u;
const accent = /\p{M}/u;
/**
 * Characters that are words of their own: punctuation, ASCII symbols, ideographs (the blocks that
 * BERT lists, with the gap in its Rust code).
 */
const alone =
  /[\p{P}$+<=>^`|~\u4e00-\u9fff\u3400-\u4dbf\u{20000}-\u{2a6df}\u{2a700}-\u{2b73f}\u{2b740}-\u{2b81f}\u{2b920}-\u{2ceaf}\uf900-\ufaff\u{2f800}-\u{2fa1f}]/u;

/** Characters or words between two points where the work may pause. */
const STRIDE = 1024;

const firstOf = (text: string): string => String.fromCodePoint(text.codePointAt(0)!);

/** A character in lower case. It is one character, as in llama.cpp's table. */
export const lowered = (char: string): string => firstOf(char.toLowerCase());

/**
 * Words after BERT's normalizer and pre-tokenizer, each with U+2581 before it. As in llama.cpp, a
 * decomposed character becomes its first code point.
 */
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
    const ascii = char < '\x80';
    const base = stripAccents && !ascii ? firstOf(char.normalize('NFD')) : char;
    if (whiteSpace.test(base)) {
      finish();
      continue;
    }
    if (dropped.test(base) || (stripAccents && !ascii && accent.test(base))) continue;
    const lower = lowercase ? lowered(base) : base;
    if (alone.test(base)) {
      finish();
      word.push(lower);
      finish();
    } else word.push(lower);
  }
  finish();
  return words;
}

/**
 * WordPiece (llama.cpp's `llm_tokenizer_wpm`). Each word takes the longest token at its start, then
 * at the remainder. If no token fits, the whole word is unknown. In GGUF the start of a word is
 * U+2581, and continuations are bare, without `##`.
 */
export function createWpm(vocab: Vocab): EncodeText {
  const { tokens, idOf } = vocab;
  let longest = 0;
  for (const token of tokens) longest = Math.max(longest, token.length);
  const cache = createWordCache();

  function* encodeWord(word: string): Work<number[]> {
    const ids: number[] = [];
    for (let from = 0; from < word.length;) {
      let to = Math.min(word.length, from + longest);
      let id = -1;
      for (; to > from; to--) {
        id = idOf(word.slice(from, to));
        if (id >= 0) break;
      }
      if (id < 0) return vocab.special.unk === undefined ? [] : [vocab.special.unk];
      if (ids.push(id) % STRIDE === 0) yield;
      from = to;
    }
    return ids;
  }

  return function* (text, out) {
    let n = 0;
    for (const word of yield* bertWords(text, vocab.lowercase, vocab.stripAccents)) {
      if (++n % STRIDE === 0) yield;
      let ids = cache.get(word);
      if (!ids) {
        ids = yield* encodeWord(word);
        cache.set(word, ids);
      }
      for (const id of ids) out.push(id);
    }
  };
}
