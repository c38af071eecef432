/** Ids of words seen before: text repeats its words, and a lookup is far cheaper than merging again. */
export interface WordCache {
  get(word: string): readonly number[] | undefined;
  set(word: string, ids: readonly number[]): void;
}

// 32768 words cover a megabyte of prose; longer "words" are data that will not come again.
const maxWords = 32768;
const maxLength = 48;

export function createWordCache(): WordCache {
  let words = new Map<string, readonly number[]>();
  return {
    get: (word) => (word.length <= maxLength ? words.get(word) : undefined),
    set: (word, ids) => {
      if (word.length > maxLength) return;
      if (words.size >= maxWords) words = new Map();
      // A copy: a word cut from a text holds on to the whole of it, and the texts of a server's clients are many.
      words.set(` ${word}`.slice(1), ids);
    },
  };
}
