import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { readGGUF } from '../../src/gguf/read.ts';
import { createGrammar } from '../../src/grammar/grammar.ts';
import { jsonObjectGrammar, jsonSchemaToGrammar } from '../../src/grammar/json-schema.ts';
import { createRandom } from '../../src/sample/random.ts';
import { createSampler } from '../../src/sample/sampler.ts';
import { toBytes } from '../../src/source.ts';
import { createTokenizer } from '../../src/tokenize/tokenizer.ts';
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

async function tokenizerOf(url: URL): Promise<Tokenizer> {
  return createTokenizer((await readGGUF(toBytes(readFileSync(url)))).metadata);
}

const root = new URL('../../', import.meta.url);
const models: [name: string, url: URL][] = [
  ['SentencePiece, 1024 tokens, the model that ships', new URL('models/tiny-stories-q4_0.gguf', root)],
  ['byte-pair encoding, 128256 tokens', new URL('../shared/vocab/ggml-vocab-llama-bpe.gguf', root)],
];

for (const [name, url] of models) {
  describe.runIf(existsSync(url))(name, () => {
    test('walks with real tokens parse and validate', { timeout: 60_000 }, async () => {
      const tokenizer = await tokenizerOf(url);
      const random = createRandom(seed);
      for (const [gbnf, check] of [[jsonSchemaToGrammar(schema), schema], [jsonObjectGrammar(), { type: 'object' }]] as const) {
        const grammar = createGrammar(gbnf, tokenizer);
        for (let i = 0; i < (tokenizer.nVocab > 10_000 ? 3 : 12); i++) {
          const { text } = walk(grammar, tokenizer, random.next, 40);
          expect(validate(check, JSON.parse(text)), `seed ${seed}: ${text}`).toBe(undefined);
        }
      }
    });

    test('a sampler with a grammar ends at the end of the text', async () => {
      const tokenizer = await tokenizerOf(url);
      const random = createRandom(seed);
      // logits without any sense, the end of the generation likely
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

    test('control tokens are reached by reference alone', async () => {
      const tokenizer = await tokenizerOf(url);
      const { bos } = tokenizer.special;
      const any = createGrammar('root ::= .*', tokenizer);
      expect(any.allows(bos!)).toBe(false);
      expect(createGrammar(`root ::= <[${bos}]>`, tokenizer).allows(bos!)).toBe(true);
      expect(createGrammar(`root ::= ${tokenizer.tokenText(bos!)}`, tokenizer).allows(bos!)).toBe(true);
    });
  });
}

test('every walk is checked with the model that ships at least', () => {
  expect(existsSync(models[0][1])).toBe(true);
});
