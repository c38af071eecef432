import { describe, expect, it } from 'vitest';
import { atOnce } from '../../src/slices.ts';
import { createPairTable, mergeSymbols, type MergeRules } from '../../src/tokenize/merge.ts';
import { preTokenizer } from '../../src/tokenize/pre-tokenizers.ts';
import { createSplitter } from '../../src/tokenize/split.ts';
import { createTokenizer } from '../../src/tokenize/tokenizer.ts';
import { random } from './fixtures.ts';
import { golden } from './golden.ts';
import { tinyBpe } from './tiny.ts';

describe('byte-pair encoding (tokenizer.ggml.model = gpt2)', () => {
  for (const { names, ids } of golden.bpe.groups) {
    it(`cuts words as native llama.cpp does for ${names.join(', ')}`, () => {
      for (const name of names) {
        const tokenizer = createTokenizer(tinyBpe(name));
        expect(tokenizer.warnings).toEqual([]);
        golden.bpe.texts.forEach((text, i) => {
          expect({ name, text, ids: tokenizer.encode(text, { addSpecial: false }) }).toEqual({ name, text, ids: ids[i] });
        });
      }
    });
  }

  it('loses no text, whatever the pre-tokenizer', () => {
    const { pick } = random(5);
    const atoms = [
      ' ',
      '  ',
      '\n',
      '\r\n',
      '\t',
      '\u00a0',
      '\u3000',
      "'s",
      '12',
      '1234567',
      '½',
      'aB',
      'É',
      '我',
      '한',
      '\u0301',
      '🦙',
      '~',
      '$',
      '.',
      '<sentinel:1>',
      'IMGIMGABZ',
      '\u200b',
    ];
    for (const name of [...golden.bpe.groups.flatMap(({ names }) => names), 'gemma4', 'sarvam-moe']) {
      const split = createSplitter(preTokenizer(name, []));
      for (let n = 0; n < 50; n++) {
        const text = Array.from({ length: 12 }, () => pick(atoms)).join('');
        expect({ name, text, joined: [...split(text)].flat().join('') }).toEqual({ name, text, joined: text });
      }
    }
  });

  it('special tokens: parsed or not, user-defined ones always, bos where wanted, ignore_merges', () => {
    for (const { pre, texts, ids, ...options } of golden.special) {
      const tokenizer = createTokenizer(tinyBpe(pre));
      texts.forEach((text, i) =>
        expect({ pre, text, options, ids: tokenizer.encode(text, options) }).toEqual({ pre, text, options, ids: ids[i] }),
      );
    }
  });

  it('comes back whole, and shows control tokens only when asked', () => {
    const tokenizer = createTokenizer(tinyBpe('gpt-2'));
    for (const text of golden.bpe.texts) expect(tokenizer.decode(tokenizer.encode(text))).toBe(text);
    const ids = tokenizer.encode('<|im_start|>USER hello<|im_end|>', { parseSpecial: true });
    expect(tokenizer.decode(ids)).toBe('USER hello');
    expect(tokenizer.decode(ids, { special: true })).toBe('<|im_start|>USER hello<|im_end|>');
  });

  it('knows ends of generation by name, even if the file marks them as text', () => {
    const tokenizer = createTokenizer(tinyBpe('gpt-2'));
    const eog = Array.from({ length: tokenizer.nVocab }, (_, id) => id)
      .filter((id) => tokenizer.isEog(id))
      .map((id) => tokenizer.tokenText(id));
    expect(eog.sort()).toEqual(['<|endoftext|>', '<|im_end|>']);
    expect(tokenizer.special.eot).toBe(tokenizer.tokenId('<|im_end|>'));
  });

  it('removes spaces before punctuation only when asked and where llama.cpp would', () => {
    const text = "a , b ! it 's 'x' ' y";
    const cleaned = (pre: string): string => {
      const tokenizer = createTokenizer(tinyBpe(pre));
      return tokenizer.decode(tokenizer.encode(text, { addSpecial: false }), { cleanSpaces: true });
    };
    expect(cleaned('gpt-2')).toBe("a, b! it's 'x''y");
    expect(cleaned('qwen2')).toBe(text);
    expect(cleaned('llama-bpe')).toBe(cleaned('gpt-2'));
  });

  it('an unknown or missing pre-tokenizer is `default` with a warning', () => {
    for (const pre of ['no-such', undefined, 7]) {
      const tokenizer = createTokenizer(tinyBpe('default', { pre }));
      expect(tokenizer.warnings).toHaveLength(1);
      expect(tokenizer.encode(golden.bpe.texts[0])).toEqual(createTokenizer(tinyBpe('default')).encode(golden.bpe.texts[0]));
    }
    expect(() => createTokenizer(tinyBpe('gpt-2', { merges: undefined }))).toThrowError(
      expect.objectContaining({ code: 'ERR_MISSING_METADATA' }),
    );
    // 11 is the default
    expect(() => createTokenizer(tinyBpe('gpt-2', { add_bos_token: true, bos_token_id: undefined }))).not.toThrow();
  });

  it('long texts without a space take less than quadratic time', () => {
    const tokenizer = createTokenizer(tinyBpe('llama-bpe'));
    for (const text of [
      'abAB'.repeat(25_000),
      ' '.repeat(100_000),
      '12'.repeat(50_000),
      '\n'.repeat(100_000),
      '我é'.repeat(20_000),
      '<'.repeat(100_000),
      '~$'.repeat(50_000),
    ]) {
      const start = performance.now();
      const ids = tokenizer.encode(text, { parseSpecial: true });
      // Typically under 150 ms each; a quadratic loop takes minutes.
      expect(performance.now() - start).toBeLessThan(5000);
      expect(tokenizer.decode(ids)).toBe(text);
    }
    for (const {
      names: [name],
    } of golden.bpe.groups) {
      const start = performance.now();
      createTokenizer(tinyBpe(name)).encode(`${'1'.repeat(30_000)}x${' '.repeat(30_000)}y${'A'.repeat(30_000)}`);
      expect({ name, quick: performance.now() - start < 5000 }).toEqual({ name, quick: true });
    }
  });
});

describe('merging', () => {
  /** The definition: find the best leftmost pair, merge it, repeat. */
  const slow = (symbols: number[], rules: MergeRules): number[] => {
    for (;;) {
      let at = -1;
      let best = Infinity;
      for (let i = 0; i + 1 < symbols.length; i++) {
        const merge = rules.find(symbols[i], symbols[i + 1]);
        if (merge >= 0 && rules.priority(merge) < best) {
          best = rules.priority(merge);
          at = i;
        }
      }
      if (at < 0) return symbols;
      symbols.splice(at, 2, rules.result(rules.find(symbols[at], symbols[at + 1])));
    }
  };

  it('is the same by scan, by queue and by definition, with ties too', () => {
    for (let seed = 1; seed <= 40; seed++) {
      const { next } = random(seed);
      const table = createPairTable(16);
      const merges: { priority: number; result: number }[] = [];
      for (let i = 0; i < 60; i++) {
        const left = Math.floor(next() * 20);
        const right = Math.floor(next() * 20);
        if (table.get(left, right) === undefined)
          table.set(left, right, merges.push({ priority: Math.floor(next() * 8), result: Math.floor(next() * 20) }) - 1);
      }
      const rules: MergeRules = {
        find: (a, b) => table.get(a, b) ?? -1,
        priority: (m) => merges[m].priority,
        result: (m) => merges[m].result,
      };
      for (const n of [0, 1, 2, 5, 24, 25, 200]) {
        const symbols = Array.from({ length: n }, () => Math.floor(next() * 20));
        const got = [...symbols];
        atOnce(mergeSymbols(got, rules));
        expect({ seed, n, got }).toEqual({ seed, n, got: slow(symbols, rules) });
      }
    }
  });

  it('the pair table grows and keeps all pairs', () => {
    const table = createPairTable(1);
    const { next } = random(9);
    const map = new Map<string, number>();
    for (let i = 0; i < 20_000; i++) {
      const a = Math.floor(next() * 500);
      const b = Math.floor(next() * 500);
      table.set(a, b, i);
      map.set(`${a} ${b}`, i);
    }
    for (let a = 0; a < 500; a += 7) for (let b = 0; b < 500; b++) expect(table.get(a, b)).toBe(map.get(`${a} ${b}`));
  });
});
