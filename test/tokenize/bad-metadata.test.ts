/**
 * Wrong tokenizer metadata gives a coded error or a working tokenizer, never a TypeError, an id
 * outside the vocabulary or an endless loop.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { QuantletError } from '../../src/errors.ts';
import { createTokenizer } from '../../src/tokenize/tokenizer.ts';
import type { TokenizerMetadata } from '../../src/tokenize/vocab.ts';
import { readMetadata } from './fixtures.ts';
import { tinyBpe } from './tiny.ts';

const golden = (name: string): Promise<TokenizerMetadata> => readMetadata(new URL(`../golden/arch/${name}.gguf`, import.meta.url));
const kinds: readonly (readonly [name: string, metadata: TokenizerMetadata])[] = [
  ['SentencePiece', await golden('llama')],
  ['WordPiece', await golden('bert')],
  ['Unigram', await golden('xlm-roberta-rank')],
  ['byte-pair encoding', tinyBpe('gpt-2')],
];
const TEXT = 'the cat sat, <s>é😀\n\t12  [MASK]';
const SEED = 31;

/**
 * Wrong values of a key: none, another type, too few or too many elements, numbers out of range,
 * repeated or empty texts.
 */
const wrong = fc.oneof(
  fc.constantFrom<unknown>(
    undefined,
    null,
    true,
    false,
    '',
    'x',
    'gpt2',
    'llama',
    'bert',
    't5',
    'default',
    'constructor',
    '__proto__',
    'toString',
    0,
    -1,
    1.5,
    NaN,
    2 ** 31,
    2n ** 60n,
    [],
    [[]],
    [null],
    [''],
    ['a', 7],
    [1, 2],
    new Uint8Array(),
    new Uint8Array(300).fill(255),
  ),
  fc.integer({ min: -5, max: 400 }),
  fc.array(fc.string({ maxLength: 4 }), { maxLength: 300 }),
  fc.array(fc.integer({ min: -9, max: 400 }), { maxLength: 300 }).map((a) => Int32Array.from(a)),
  fc.array(fc.float(), { minLength: 32, maxLength: 300 }).map((a) => Float32Array.from(a)),
);

it.each(['constructor', '__proto__', 'toString', 'hasOwnProperty', 'valueOf'])(
  'tokenizer.ggml.model and .pre that every object has: %s',
  (name) => {
    const of = (key: string): TokenizerMetadata => new Map([...tinyBpe('gpt-2'), [`tokenizer.ggml.${key}`, name]]);
    expect(() => createTokenizer(of('model'))).toThrow(expect.objectContaining({ code: 'ERR_UNSUPPORTED_TOKENIZER' }));
    const { warnings, encode } = createTokenizer(of('pre'));
    expect(warnings.join()).toContain(`unknown pre-tokenizer '${name}'`);
    expect(encode('the').length).toBeGreaterThan(0);
  },
);

describe('types of values that converters write', () => {
  const of = (key: string, value: unknown) => createTokenizer(new Map([...kinds[0][1], [`tokenizer.ggml.${key}`, value]]));

  it.each([
    [true, true],
    [1, true],
    [1n, true],
    [false, false],
    [0, false],
    [0n, false],
  ])('add_bos_token %s', (value, begins) => {
    const { encode, special } = of('add_bos_token', value);
    expect(encode('a')[0] === special.bos).toBe(begins);
  });

  it.each(['add_bos_token', 'add_eos_token', 'add_space_prefix', 'remove_extra_whitespaces'])('%s that is neither yes nor no', (key) => {
    for (const value of ['false', 2, -1, 0.5, NaN, [], new Uint8Array(1)])
      expect(() => of(key, value), String(value)).toThrow(
        expect.objectContaining({ code: 'ERR_GGUF_INVALID', message: expect.stringContaining(`tokenizer.ggml.${key} is `) }),
      );
  });

  it.each(['bos_token_id', 'eos_token_id', 'eot_token_id', 'eom_token_id', 'padding_token_id', 'fim_pre_token_id'])(
    '%s as an integer of any width, a whole float, and anything else',
    (key) => {
      const name = { bos_token_id: 'bos', eos_token_id: 'eos', eot_token_id: 'eot', eom_token_id: 'eom', padding_token_id: 'pad' }[key];
      for (const value of [5, 5n, 5.0]) expect(of(key, value).special[(name ?? 'fimPre') as 'bos']).toBe(5);
      for (const value of ['5', true, [5], Int32Array.of(5)])
        expect(() => of(key, value), String(value)).toThrow(
          expect.objectContaining({
            code: 'ERR_GGUF_INVALID',
            message: expect.stringMatching(`^tokenizer.ggml.${key} is .*; expected the number`),
          }),
        );
    },
  );
});

describe.each(kinds)('%s', (_, metadata) => {
  const keys = [
    ...new Set([
      ...[...metadata.keys()].filter((key) => key.startsWith('tokenizer.')),
      ...['merges', 'pre', 'precompiled_charsmap', 'add_sep_token', 'remove_extra_whitespaces', 'eot_token_id', 'scores', 'token_type'].map(
        (k) => `tokenizer.ggml.${k}`,
      ),
    ]),
  ];
  it('one or two keys changed', { timeout: 60_000 }, () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.constantFrom(...keys), wrong), { minLength: 1, maxLength: 2 }), (changes) => {
        const changed = new Map<string, unknown>(metadata);
        for (const [key, value] of changes)
          if (value === undefined) changed.delete(key);
          else changed.set(key, value);
        try {
          const tokenizer = createTokenizer(changed);
          const ids = tokenizer.encode(TEXT);
          expect(
            ids.every((id) => Number.isInteger(id) && id >= 0 && id < tokenizer.nVocab),
            `ids ${ids}`,
          ).toBe(true);
          tokenizer.decode(ids);
        } catch (error) {
          if (!(error instanceof QuantletError)) throw error;
          expect(error.code).toMatch(/^ERR_(GGUF_INVALID|MISSING_METADATA|UNSUPPORTED_TOKENIZER|INVALID_ARGUMENT)$/);
        }
      }),
      { numRuns: 600, seed: SEED },
    );
  });
});
