/** Cache of the ids of words: text repeats its words, and a lookup is far cheaper than merging. */
export interface WordCache {
  get(word: string): readonly number[] | undefined;
  set(word: string, ids: readonly number[]): void;
}

// 32768 words cover a megabyte of prose. Longer "words" are data that do not repeat.
const maxWords = 32768;
const maxLength = 48;

export function createWordCache(): WordCache {
  let words = new Map<string, readonly number[]>();
  return {
    get: (word) => (word.length <= maxLength ? words.get(word) : undefined),
    set: (word, ids) => {
      if (word.length > maxLength) return;
      if (words.size >= maxWords) words = new Map();
      // A copy: a slice of a text would keep the whole text in memory, and a server's clients send
      // many texts.
      words.set(` ${word}`.slice(1), ids);
    },
  };
}
