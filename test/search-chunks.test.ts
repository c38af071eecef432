/** Chunks of examples/search: none is too long, and no word is lost. */
import { pathToFileURL } from 'node:url';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { at } from './support.ts';

const { chunksOf } = (await import(pathToFileURL(at('examples/search/chunk.mjs')).href)) as {
  chunksOf(text: string, count: (text: string) => number, most: number): string[];
};
/** A token for each word, and for each 10 further characters of a word. */
const count = (text: string): number => (text.match(/\S{1,10}/g) ?? []).length;

it('splits at paragraphs, else at sentences, else at words', () => {
  expect(chunksOf('One two.\n\nThree four.\n\nFive six seven.', count, 4)).toEqual(['One two.\n\nThree four.', 'Five six seven.']);
  expect(chunksOf('One two three. Four five six. Seven.', count, 4)).toEqual(['One two three.', 'Four five six. Seven.']);
  expect(chunksOf('a b c d e f g', count, 3)).toEqual(['a b c', 'd e f', 'g']);
  expect(chunksOf('', count, 3)).toEqual([]);
  expect(chunksOf('\n\n \n', count, 3)).toEqual([]);
});

it('repeats a short last sentence at the beginning of the next chunk', () => {
  expect(chunksOf('one two three four five six seven. Eight. Nine ten eleven.', count, 8)).toEqual([
    'one two three four five six seven. Eight.',
    'Eight. Nine ten eleven.',
  ]);
});

it('keeps text that repeats itself', () => {
  expect(chunksOf('x y.\n\nx y.\n\nx y.', count, 2)).toEqual(['x y.', 'x y.', 'x y.']);
  expect(chunksOf('A b c d e f g. X.\n\nX.', count, 8)).toEqual(['A b c d e f g. X.', 'X.\n\nX.']);
});

it('texts of any shape', () => {
  const word = fc.stringMatching(/^[a-c]{1,12}$/);
  const text = fc
    .array(fc.tuple(word, fc.constantFrom(' ', '. ', '\n', '\n\n', '! ')), { maxLength: 80 })
    .map((all) => all.flat().join(''));
  fc.assert(
    fc.property(text, fc.integer({ min: 2, max: 20 }), (given, most) => {
      const chunks = chunksOf(given, count, most);
      for (const chunk of chunks) expect(count(chunk)).toBeLessThanOrEqual(most);
      // Without the repeated sentences the words are those of the text, in order.
      const wanted = given.match(/\S+/g) ?? [];
      let from = 0;
      for (const chunk of chunks) {
        const own = chunk.match(/\S+/g)!;
        const repeated = own.findIndex((_, i) => own.slice(i).every((one, k) => one === wanted[from + k]));
        expect(repeated).toBeGreaterThanOrEqual(0);
        from += own.length - repeated;
      }
      expect(from).toBe(wanted.length);
    }),
  );
});
