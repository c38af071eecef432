import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { readGGUF } from '../../src/gguf/read.ts';
import { createGrammar } from '../../src/grammar/grammar.ts';
import { jsonSchemaToGrammar } from '../../src/grammar/json-schema.ts';
import { createRandom } from '../../src/sample/random.ts';
import { createSampler } from '../../src/sample/sampler.ts';
import { toBytes } from '../../src/io/source.ts';
import { createTokenizer } from '../../src/tokenize/tokenizer.ts';
import type { TokenizerMetadata } from '../../src/tokenize/vocab.ts';
import { tinyBpe } from '../tokenize/tiny.ts';
import type { Tokenizer } from '../../src/tokenize/tokenizer.ts';
import { validate } from './validate.ts';
import { walk } from './walk.ts';

const seed = 99;
const schema = {
  type: 'object',
  properties: {
    name: { type: 'string', minLength: 1, maxLength: 20 },
    age: { type: 'integer', minimum: 0, maximum: 150 },
    tags: { type: 'array', items: { enum: ['big', 'small', 'été'] }, maxItems: 3 },
    born: { type: 'string', format: 'date' },
  },
  required: ['name', 'age'],
};

const read = async (url: URL): Promise<TokenizerMetadata> => (await readGGUF(toBytes(readFileSync(url)))).metadata;

const root = new URL('../../', import.meta.url);
const large = new URL('../shared/vocab/ggml-vocab-llama-bpe.gguf', root);
const vocabularies: [name: string, metadata: TokenizerMetadata][] = [
  ['SentencePiece, 1024 tokens, the model that ships', await read(new URL('models/tiny-stories-q4_0.gguf', root))],
  ['byte-pair encoding, every byte and some pairs', tinyBpe('llama-bpe')],
];
if (existsSync(large)) vocabularies.push(['byte-pair encoding, 128256 tokens', await read(large)]);

for (const [name, metadata] of vocabularies) {
  describe(name, () => {
    const tokenizer: Tokenizer = createTokenizer(metadata);

    test('walks with real tokens parse and validate', { timeout: 60_000 }, () => {
      const random = createRandom(seed);
      for (const [gbnf, check] of [
        [jsonSchemaToGrammar(schema), schema],
        [jsonSchemaToGrammar({ type: 'object' }), { type: 'object' }],
      ] as const) {
        const grammar = createGrammar(gbnf, tokenizer);
        for (let i = 0; i < (tokenizer.nVocab > 10_000 ? 3 : 12); i++) {
          const { text } = walk(grammar, tokenizer, random.next, 40);
          expect(validate(check, JSON.parse(text)), `seed ${seed}: ${text}`).toBe(undefined);
        }
      }
    });

    test('a sampler with a grammar ends at the end of the text', () => {
      const random = createRandom(seed);
      // random logits, with a likely end of generation
      const logits = Float32Array.from({ length: tokenizer.nVocab }, (_, id) => random.next() * 6 + (tokenizer.isEog(id) ? 4 : 0));
      const grammar = createGrammar('root ::= "The " ("cat" | "dog" | "été") [a-z ]{3,12} "."', tokenizer);
      for (const options of [{ temperature: 0 }, { seed: 5 }, { seed: 6, topK: 0, topP: 1, minP: 0, temperature: 1.5 }]) {
        const sampler = createSampler(options, tokenizer.nVocab, { grammar, pieceBytes: (id) => tokenizer.pieceBytes(id) });
        sampler.reset();
        const bytes: number[] = [];
        for (let id = sampler.sample(logits); !tokenizer.isEog(id); id = sampler.sample(logits)) {
          sampler.accept(id);
          bytes.push(...tokenizer.pieceBytes(id));
        }
        expect(new TextDecoder('utf-8', { fatal: true }).decode(Uint8Array.from(bytes))).toMatch(/^The (cat|dog|été)[a-z ]{3,12}\.$/);
      }
    });

    test('control tokens are reached by reference only', () => {
      const { bos } = tokenizer.special;
      const any = createGrammar('root ::= .*', tokenizer);
      expect(any.allows(bos!)).toBe(false);
      expect(createGrammar(`root ::= <[${bos}]>`, tokenizer).allows(bos!)).toBe(true);
      expect(createGrammar(`root ::= ${tokenizer.tokenText(bos!)}`, tokenizer).allows(bos!)).toBe(true);
    });
  });
}
