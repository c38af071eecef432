import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { atOnce } from '../../src/slices.ts';
import { readCharsmap } from '../../src/tokenize/charsmap.ts';
import { createTokenizer } from '../../src/tokenize/tokenizer.ts';
import type { TokenizerMetadata } from '../../src/tokenize/vocab.ts';
import { bertWords } from '../../src/tokenize/wpm.ts';
import { BERT_OPTIONS, BERT_TEXTS, WORDPIECE } from './bert-texts.ts';
import { random, readMetadata, sharedVectors } from './fixtures.ts';
import { golden } from './golden.ts';
import { buildCharsmap, tinyUgm, tinyWpm, unigramPieces } from './tiny.ts';

describe('WordPiece (tokenizer.ggml.model = bert)', () => {
  it('gives native ids where these are right: lower case, accents, CJK, punctuation, unknown words, cls and sep', () => {
    const tokenizer = createTokenizer(tinyWpm());
    for (const { texts, ids, ...options } of golden.wpm) {
      texts.forEach((text, i) => expect({ text, options, ids: tokenizer.encode(text, options) }).toEqual({ text, options, ids: ids[i] }));
    }
  });

  /** Words and ids of Hugging Face's tokenizers (make-bert.ts). */
  const maker = JSON.parse(readFileSync(new URL('bert.json', import.meta.url), 'utf8')) as {
    words: string[][][];
    ids: number[][];
    bge: number[][];
  };
  const checkIds = (metadata: TokenizerMetadata, texts: readonly string[], want: readonly (readonly number[])[]): void => {
    const tokenizer = createTokenizer(metadata);
    expect(texts.length).toBe(want.length);
    texts.forEach((text, i) => {
      const ids = tokenizer.encode(text, { addSpecial: false });
      expect({ text, ids }).toEqual({ text, ids: want[i] });
    });
  };

  it.each(BERT_OPTIONS.map((options, i) => [options, maker.words[i]] as const))("gives its maker's words: %j", (options, want) => {
    expect(BERT_TEXTS.length).toBe(want.length);
    BERT_TEXTS.forEach((text, i) => {
      const words = atOnce(bertWords(text, options.lowercase, options.stripAccents));
      expect({ text, words }).toEqual({ text, words: want[i].map((word) => `\u2581${word}`) });
    });
  });

  it("gives its maker's ids: scripts, accents, controls, long words", () => checkIds(WORDPIECE.metadata, BERT_TEXTS, maker.ids));

  for (const { name, file, inputs } of sharedVectors())
    if (name === 'bert-bge')
      it("gives its maker's ids with the vocabulary of BGE in ../shared", async () =>
        checkIds(await readMetadata(file), [...inputs, ...BERT_TEXTS], maker.bge));

  it('puts words together again, without spaces before punctuation', () => {
    const tokenizer = createTokenizer(tinyWpm());
    expect(tokenizer.decode(tokenizer.encode('Hello, unable world!'))).toBe(' hello, unable world!');
    expect(tokenizer.decode(tokenizer.encode('Hello, world!'), { cleanSpaces: false, special: true })).toBe('[CLS] hello , world ![SEP]');
  });

  it('one long word is not quadratic', () => {
    const tokenizer = createTokenizer(tinyWpm());
    // optimized code behaves differently: see bertWords
    for (let i = 0; i < 300; i++) tokenizer.encode('Hello unable world '.repeat(20));
    const start = performance.now();
    tokenizer.encode('unable'.repeat(15_000));
    expect(performance.now() - start).toBeLessThan(3000);
  });

  it('needs cls and sep', () => {
    const metadata = new Map(tinyWpm());
    metadata.delete('tokenizer.ggml.seperator_token_id');
    expect(() => createTokenizer(metadata)).toThrowError(expect.objectContaining({ code: 'ERR_MISSING_METADATA' }));
  });
});

describe('Unigram (tokenizer.ggml.model = t5)', () => {
  it('gives native ids: character map, spaces, unknown runs, user-defined and unused tokens', () => {
    for (const { rest, texts, ids, ...options } of golden.ugm) {
      const tokenizer = createTokenizer(tinyUgm(rest));
      texts.forEach((text, i) =>
        expect({ rest, text, options, ids: tokenizer.encode(text, options) }).toEqual({ rest, text, options, ids: ids[i] }),
      );
    }
  });

  it('finds the best of all segmentations', () => {
    const tokenizer = createTokenizer(tinyUgm());
    const score = new Map(unigramPieces);
    const best = (text: string): number => {
      if (text === '') return 0;
      let most = -Infinity;
      for (let n = 1; n <= text.length; n++) {
        const piece = score.get(text.slice(0, n));
        if (piece !== undefined) most = Math.max(most, piece + best(text.slice(n)));
      }
      return most;
    };
    const { pick } = random(3);
    for (let n = 0; n < 200; n++) {
      const text = Array.from({ length: 9 }, () => pick(['a', 'b', 'c', ' ', 'f', 'i'])).join('');
      const ids = tokenizer.encode(text, { addSpecial: false });
      const total = ids.reduce((sum, id) => sum + score.get(tokenizer.tokenText(id))!, 0);
      // sums of short decimals: only rounding differs
      expect(total).toBeCloseTo(best(text.replaceAll(' ', '\u2581')), 6);
      expect(tokenizer.decode(ids)).toBe(text);
    }
  });

  it('a damaged character map is a coded error', () => {
    const whole = buildCharsmap([['ab', 'c']]);
    const invalid = expect.objectContaining({ code: 'ERR_GGUF_INVALID' }) as Error;
    expect(() => readCharsmap(whole.subarray(0, 3))).toThrowError(invalid);
    expect(() => readCharsmap(whole.subarray(0, 4096))).toThrowError(invalid);
    const outside = whole.slice();
    new DataView(outside.buffer).setUint32(4, 0x7ffffc00, true);
    expect(() => readCharsmap(outside)(new TextEncoder().encode('ab'), 0)).toThrowError(invalid);
    const endless = whole.slice(0, whole.length - 1);
    expect(() => readCharsmap(endless)(new TextEncoder().encode('ab'), 0)).toThrowError(invalid);
    expect(readCharsmap(whole)(new TextEncoder().encode('xab'), 1)).toEqual({ length: 2, replacement: new TextEncoder().encode('c') });
    expect(readCharsmap(whole)(new TextEncoder().encode('a'), 0)).toBeUndefined();
  });
});
