/** 200 random schemas, each answered by the shipped model: every answer parses and validates. */
import fc from 'fast-check';
import { loadModel, type GenerationResult, type Model } from 'quantlet';
import { expect, it } from 'vitest';
import { jsonSchemaToGrammar } from '../../src/grammar/json-schema.ts';
import { failure, shippedModel } from '../support.ts';
import { DEFS, randomSchema } from './random-schemas.ts';
import { validate } from './validate.ts';

const SEED = 14;
const SCHEMAS = 200;
const AT_ONCE = 8;
/**
 * Logit bias by a token's first byte. A model of stories rarely closes what it has opened, so
 * closing characters, and those that continue the patterns, are made likely. Answers then end
 * inside the context; the grammar alone decides where each character may stand.
 */
const BIAS: Readonly<Record<string, number>> = { '"': 20, '}': 20, ']': 20, '@': 20, '\\': 20, '.': 8, x: 12, ',': -10 };
/** An answer still unfinished after this many tokens is generated again with another seed. */
const MAX_TOKENS = 600;
const ATTEMPTS = 6;

/**
 * Tells if a schema can be compiled. Random ones may be unsatisfiable (two objects contradict each
 * other) or need two patterns at once, which is refused by name.
 */
function isSatisfiable(schema: object): boolean {
  try {
    jsonSchemaToGrammar(schema as Parameters<typeof jsonSchemaToGrammar>[0]);
    return true;
  } catch (error) {
    expect(error).toMatchObject({
      code: 'ERR_GRAMMAR',
      message: expect.stringMatching(/no value satisfies|at once|are combined|expand to/),
    });
    return false;
  }
}

async function answer(model: Model, schema: object, seed: number, logitBias: Record<number, number>): Promise<GenerationResult> {
  for (let attempt = 0; ; attempt++) {
    const result = await model
      .generate('Once upon a time', {
        responseFormat: { type: 'json_schema', schema },
        temperature: 1,
        seed: 1000 * attempt + seed,
        logitBias,
        maxTokens: MAX_TOKENS,
      })
      .result();
    if (result.finishReason === 'stop' || attempt === ATTEMPTS) return result;
  }
}

it('every answer to 200 random schemas parses and validates', { timeout: 120_000 }, async () => {
  const schemas = fc
    .sample(randomSchema, { numRuns: 2 * SCHEMAS, seed: SEED })
    .map((body) => ({ ...body, $defs: DEFS }))
    .filter(isSatisfiable)
    .slice(0, SCHEMAS);
  expect(schemas).toHaveLength(SCHEMAS);
  const model = await loadModel(shippedModel, { contextLength: MAX_TOKENS + 64, parallel: AT_ONCE, threads: 2, warmUp: false });
  try {
    const { nVocab } = model.internals.tokenizer;
    const logitBias = Object.fromEntries(
      Array.from({ length: nVocab }, (_, id) => [id, BIAS[String.fromCharCode(model.tokenBytes(id)[0])] ?? 0]),
    );
    const lane = async (first: number): Promise<void> => {
      for (let i = first; i < SCHEMAS; i += AT_ONCE) {
        const { text, finishReason } = await answer(model, schemas[i], i, logitBias);
        const at = `seed ${SEED}, schema ${i}: ${JSON.stringify(schemas[i])}\n${text}`;
        expect(finishReason, at).toBe('stop');
        expect(validate(schemas[i], JSON.parse(text)), at).toBe(undefined);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, (_, first) => lane(first)));
    // A grammar that this vocabulary cannot complete, and one that only an endless text matches.
    expect(await failure(model.generate('a', { grammar: 'root ::= root "a"' }).result())).toMatchObject({ code: 'ERR_GRAMMAR' });
    expect(await failure(model.generate('a', { grammar: 'root ::= "a" <|no_such_token|>' }).result())).toMatchObject({
      code: 'ERR_GRAMMAR',
    });
    expect((await model.generate('a', { maxTokens: 2, ignoreEos: true }).result()).ids).toHaveLength(2);
  } finally {
    await model.dispose();
  }
});
