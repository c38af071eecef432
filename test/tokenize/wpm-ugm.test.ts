import { describe, expect, it } from 'vitest';
import { readCharsmap } from '../../src/tokenize/charsmap.ts';
import { createTokenizer } from '../../src/tokenize/tokenizer.ts';
import { random } from './fixtures.ts';
import { golden } from './golden.ts';
import { buildCharsmap, tinyUgm, tinyWpm, unigramPieces } from './tiny.ts';

describe('WordPiece (tokenizer.ggml.model = bert)', () => {
  it('gives native ids: lower case, accents, CJK, punctuation, unknown words, cls and sep', () => {
    const tokenizer = createTokenizer(tinyWpm());
    for (const { texts, ids, ...options } of golden.wpm) {
      texts.forEach((text, i) => expect({ text, options, ids: tokenizer.encode(text, options) }).toEqual({ text, options, ids: ids[i] }));
    }
  });

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
