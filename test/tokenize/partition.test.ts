import { execFileSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { atOnce, type Work } from '../../src/slices.ts';
import { createPartition, type Fragment } from '../../src/tokenize/partition.ts';
import { createTokenizer } from '../../src/tokenize/tokenizer.ts';
import { attr } from '../../src/tokenize/attr.ts';
import { readVocab, type Vocab } from '../../src/tokenize/vocab.ts';
import { metadataOf, random } from './fixtures.ts';
import { tinyBpe, tinyUgm, tinyWpm } from './tiny.ts';

const kinds = [
  attr.control,
  attr.userDefined,
  attr.unknown,
  attr.control | attr.lstrip,
  attr.control | attr.rstrip,
  attr.userDefined | attr.lstrip | attr.rstrip,
  attr.normal,
];
const vocabOf = (tokens: readonly string[], attrs: readonly number[]): Vocab => ({
  ...readVocab(tinyBpe('gpt-2')),
  tokens,
  attrs: Uint16Array.from(attrs),
});

/**
 * llama.cpp's algorithm, literally: one token after another, each searched in all of the remaining
 * text.
 */
function slowly({ tokens, attrs }: Vocab, text: string, parseSpecial: boolean): Fragment[] {
  const bytes = (id: number): number => new TextEncoder().encode(tokens[id]).length;
  const space = (c: string | undefined): boolean => c !== undefined && /[ \t\n\v\f\r]/.test(c);
  let fragments: Fragment[] = text ? [text] : [];
  const special = [...tokens.keys()]
    .filter((id) => attrs[id] & (attr.control | attr.userDefined | attr.unknown))
    .sort((a, b) => bytes(b) - bytes(a) || a - b);
  for (const id of special) {
    if (!parseSpecial && attrs[id] & (attr.control | attr.unknown)) continue;
    fragments = fragments.flatMap((fragment) => {
      if (typeof fragment === 'number') return [fragment];
      const out: Fragment[] = [];
      let rest = fragment;
      for (let at = rest.indexOf(tokens[id]); at >= 0; at = rest.indexOf(tokens[id])) {
        let before = rest.slice(0, at);
        rest = rest.slice(at + tokens[id].length);
        while (attrs[id] & attr.lstrip && space(before.at(-1))) before = before.slice(0, -1);
        while (attrs[id] & attr.rstrip && space(rest[0])) rest = rest.slice(1);
        out.push(...(before ? [before] : []), id);
      }
      return rest ? [...out, rest] : out;
    });
  }
  return fragments;
}

const spmTokens = ['<unk>', '<s>', '</s>', '<|im_start|>', '\u2581', 'a', 'b', 'ab', '\u2581a', '\u2581\u2581', 'so', 's', 'o', 'w'];
const tinySpm = () =>
  metadataOf('llama', spmTokens, {
    scores: Float32Array.from(spmTokens.keys(), (id) => -id),
    token_type: Int32Array.from(spmTokens.keys(), (id) => [2, 3, 3, 3][id] ?? 1),
    bos_token_id: 1,
    eos_token_id: 2,
  });

describe('special tokens in a text', () => {
  it('are cut out as llama.cpp does it: overlapping, nested, equal, stripping', () => {
    for (let seed = 1; seed <= 400; seed++) {
      const { pick, next } = random(seed);
      const letters = seed % 2 ? ['a', 'b', ' '] : ['a', 'é', '🦙', '\n', 'b'];
      const word = (most: number): string => Array.from({ length: 1 + Math.floor(next() * most) }, () => pick(letters)).join('');
      const tokens = Array.from({ length: 8 }, () => word(4));
      const vocab = vocabOf(
        tokens,
        tokens.map(() => pick(kinds)),
      );
      const partition = createPartition(vocab);
      for (let n = 0; n < 20; n++) {
        const text = word(30);
        const parseSpecial = n % 2 === 0;
        const where = { seed, text, tokens, attrs: [...vocab.attrs], parseSpecial };
        expect({ ...where, got: atOnce(partition(text, parseSpecial, [])) }).toEqual({ ...where, got: slowly(vocab, text, parseSpecial) });
      }
    }
  });

  it('do not reach across a break, unless they are user-defined', () => {
    const partition = createPartition(
      vocabOf(['<end>', '<user>', '!', '<en'], [attr.control, attr.userDefined, attr.control, attr.control]),
    );
    const cut = (text: string, breaks: number[]): Fragment[] => [...atOnce(partition(text, true, breaks))];
    expect(cut('a<end>b<end>', [2])).toEqual(['a<end>b', 0]);
    expect(cut('a<end>b<end>', [1, 6, 7])).toEqual(['a', 0, 'b', 0]);
    expect(cut('<end>', [4])).toEqual([3, 'd>']);
    expect(cut('<user>', [3])).toEqual([1]);
    expect(cut('x!y', [1])).toEqual(['x', 2, 'y']);
    expect(cut('x!y', [1, 2])).toEqual(['x!y']);
  });

  it('very many different ones: no quadratic time, which would be minutes', () => {
    const tokens = Array.from({ length: 100_000 }, (_, i) => `<|reserved_${i}|>`);
    const text = tokens.join(' ');
    const fragments = atOnce(
      createPartition(
        vocabOf(
          tokens,
          tokens.map(() => attr.control),
        ),
      )(text, true, []),
    );
    expect(fragments).toHaveLength(2 * tokens.length - 1);
    expect(fragments.filter((fragment) => typeof fragment === 'number')).toEqual([...tokens.keys()]);
  });
});

describe('long texts', () => {
  const pauses = (work: Work<unknown>): number => {
    let n = 0;
    while (!work.next().done) n++;
    return n;
  };
  const size = 100_000;
  const texts = {
    words: 'some words of many '.repeat(size / 19),
    letters: 'ab'.repeat(size / 2),
    spaces: ' '.repeat(size),
    lines: '\n'.repeat(size),
    digits: '12'.repeat(size / 2),
    marks: '<|im_start|>a'.repeat(size / 13),
    openings: '<'.repeat(size),
    accents: 'é\u0301'.repeat(size / 2),
    wide: '我'.repeat(size),
  };
  it.each([
    ['bpe', tinyBpe('llama-bpe')],
    ['bpe of several patterns', tinyBpe('deepseek-v3')],
    ['bpe of lines', tinyBpe('gemma4')],
    ['spm', tinySpm()],
    ['wpm', tinyWpm()],
    ['ugm', tinyUgm()],
  ] as const)('%s pauses at least every 16 K characters', (_, metadata) => {
    const tokenizer = createTokenizer(metadata);
    for (const [name, text] of Object.entries(texts))
      expect({ name, often: pauses(tokenizer.encodeWork(text, { parseSpecial: true })) >= Math.floor(text.length / 16384) }).toEqual({
        name,
        often: true,
      });
    expect(pauses(tokenizer.decodeWork(new Array<number>(60_000).fill(5)))).toBeGreaterThan(50);
  });

  it('two at once, their work interleaved, give what each gives alone', () => {
    for (const metadata of [tinyBpe('llama-bpe'), tinyBpe('deepseek-v3'), tinySpm(), tinyWpm(), tinyUgm()]) {
      const one = texts.words.slice(0, 40_000) + texts.letters.slice(0, 9000);
      const other = texts.accents.slice(0, 20_000) + texts.words.slice(0, 30_000);
      const alone = [one, other].map((text) => createTokenizer(metadata).encode(text));
      const tokenizer = createTokenizer(metadata);
      const works = [one, other].map((text) => tokenizer.encodeWork(text));
      const got: number[][] = [];
      for (const open = new Set([0, 1]); open.size > 0;) {
        for (const i of open) {
          const { done, value } = works[i].next();
          if (!done) continue;
          got[i] = value;
          open.delete(i);
        }
      }
      expect(got).toEqual(alone);
    }
  });

  it('are not kept in memory by cached words', () => {
    const module = new URL('../../src/tokenize/tokenizer.ts', import.meta.url).href;
    // 100 texts of 1 MB, each with a word of its own. Keeping them all would exceed the heap.
    const script = `import { createTokenizer } from '${module}';
      const metadata = new Map(JSON.parse(process.argv[1]));
      const tokenizer = createTokenizer(metadata), words = 'several words '.repeat(75_000);
      for (let i = 0; i < 100; i++) tokenizer.encode(words.slice(i) + [...String(i)].map((digit) => 'abcdefghij'[digit]).join('').padStart(20, 'x') + ' ');`;
    const metadata = metadataOf('gpt2', ['a', 'b', '<s>', 'ab'], { pre: 'gpt-2', merges: ['a b'], bos_token_id: 2, eos_token_id: 2 });
    execFileSync(
      process.execPath,
      ['--max-old-space-size=64', '--import', 'tsx', '--input-type=module', '-e', script, JSON.stringify([...metadata])],
      {
        stdio: 'pipe',
      },
    );
  });
});
