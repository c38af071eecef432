/**
 * Generation with the shipped model under grammars, schemas, log probabilities, stop texts and
 * shared prefixes.
 */
import { loadModel, type GenerateOptions, type Model } from 'quantlet';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { logprobs } from '../../src/sample/logprobs.ts';
import { validate } from '../grammar/validate.ts';
import { failure, logitsOf, shippedModel } from '../support.ts';

let model: Model;
beforeAll(async () => void (model = await loadModel(shippedModel, { parallel: 3, threads: 2, warmUp: false })));
afterAll(() => model.dispose());

const greedy = { temperature: 0, maxTokens: 40 } as const;
const prompt = 'Once upon a time';
const generate = (options: GenerateOptions, text = prompt) => model.generate(text, { ...greedy, ...options }).result();

describe('grammar', () => {
  it('the text follows it, greedy and sampled, and ends where it ends', async () => {
    const grammar = 'root ::= " the " ("cat" | "dog" | "été") [a-z ]{3,20} "."';
    for (const options of [{}, { temperature: 1.2, seed: 4, topK: 0 }, { temperature: 2, seed: 5, mirostat: 2 }]) {
      const { text, finishReason } = await generate({ ...options, grammar, maxTokens: 60 });
      expect(text).toMatch(/^ the (cat|dog|été)[a-z ]{3,20}\.$/);
      expect(finishReason).toBe('stop');
    }
  });

  it('the same grammar again, and at the same time, gives the same text', async () => {
    const grammar = 'root ::= ("ab" | "ba" | [0-9]){8}';
    const options = { grammar, temperature: 1, seed: 11 };
    const { ids } = await generate(options);
    const again = await Promise.all([generate(options), generate(options), generate({ ...options, seed: 12 })]);
    expect(again.slice(0, 2).map((r) => r.ids)).toEqual([ids, ids]);
    expect(again[2].text).toMatch(/^(ab|ba|[0-9]){8}$/);
  });

  it('a text cut by maxTokens is a prefix of a valid one', async () => {
    const { text, finishReason } = await generate({ responseFormat: { type: 'json_object' }, maxTokens: 5 });
    expect(finishReason).toBe('length');
    expect(text.startsWith('{')).toBe(true);
  });

  it('keywords that are held only in part are named, or refused with strict', async () => {
    const items = { type: 'string', pattern: '^a', maxLength: 3, not: { const: 'ab' } };
    const schema = { type: 'array', items, minItems: 1, maxItems: 2, uniqueItems: true };
    const { text, relaxed } = await generate({ responseFormat: { type: 'json_schema', schema }, maxTokens: 60 });
    expect(relaxed).toEqual([{ pointer: '', keyword: 'uniqueItems' }]);
    expect(text).toMatch(/^\[\s*"a/);
    const strict = generate({ responseFormat: { type: 'json_schema', json_schema: { schema, strict: true } } });
    await expect(strict).rejects.toMatchObject({ code: 'ERR_GRAMMAR', message: expect.stringContaining('#/uniqueItems') });
    expect(await generate({ responseFormat: { type: 'json_object' }, maxTokens: 5 })).not.toHaveProperty('relaxed');
  });

  it.each<[string, GenerateOptions, string]>([
    ['an invalid grammar', { grammar: 'root ::= (' }, 'ERR_GRAMMAR'],
    ['a grammar without root', { grammar: 'other ::= "a"' }, 'ERR_GRAMMAR'],
    ['both at once', { grammar: 'root ::= "a"', responseFormat: { type: 'json_object' } }, 'ERR_INVALID_ARGUMENT'],
    [
      'a schema that nothing fits',
      { responseFormat: { type: 'json_schema', schema: { type: 'integer', minimum: 5, maximum: 4 } } },
      'ERR_GRAMMAR',
    ],
    ['a schema that is not an object', { responseFormat: { type: 'json_schema', schema: 'string' as unknown as object } }, 'ERR_GRAMMAR'],
    ['no schema', { responseFormat: { type: 'json_schema' } as unknown as NonNullable<GenerateOptions['responseFormat']> }, 'ERR_GRAMMAR'],
    [
      'an unknown format',
      { responseFormat: { type: 'yaml' } as unknown as NonNullable<GenerateOptions['responseFormat']> },
      'ERR_INVALID_ARGUMENT',
    ],
    ['a grammar that is not a text', { grammar: 7 as unknown as string }, 'ERR_INVALID_ARGUMENT'],
    ['negative logprobs', { logprobs: -2 }, 'ERR_INVALID_ARGUMENT'],
    ['an empty stop text', { stop: '' }, 'ERR_INVALID_ARGUMENT'],
  ])('%s is refused, and the model stays usable', async (_, options, code) => {
    expect((await failure(generate(options))).code).toBe(code);
    expect((await generate({ maxTokens: 3 })).ids).toHaveLength(3);
  });
});

const schema = {
  type: 'object',
  properties: {
    name: { type: 'string', minLength: 1, maxLength: 12 },
    age: { type: 'integer', minimum: 0, maximum: 150 },
    kind: { enum: ['cat', 'dog'] },
  },
  required: ['name', 'age', 'kind'],
  additionalProperties: false,
};

it('json_schema: every answer parses and satisfies the schema', async () => {
  for (const options of [{}, { temperature: 0.8, seed: 1 }, { temperature: 1.5, seed: 2, topK: 0, topP: 1, minP: 0 }]) {
    const { text } = await generate({ ...options, responseFormat: { type: 'json_schema', schema }, maxTokens: 150 });
    expect(validate(schema, JSON.parse(text)), text).toBe(undefined);
  }
});

describe('logprobs', () => {
  it('are those of the logits, for each token, in order', async () => {
    const parts = [];
    for await (const part of model.generate(prompt, { ...greedy, maxTokens: 6, logprobs: 3 })) if (part.id >= 0) parts.push(part);
    const promptIds = model.tokenize(prompt);
    const ids = parts.map((p) => p.id);
    const rows = await logitsOf(model, [...promptIds, ...ids.slice(0, -1)], [1]);
    expect(parts.map((p) => p.logprobs)).toEqual(ids.map((id, i) => logprobs(rows[promptIds.length - 1 + i], id, 3)));
    expect(
      parts.every((p) => p.logprobs!.top[0].id === p.id && p.logprobs!.top.length === 3),
      'greedy takes the most probable token',
    ).toBe(true);
  });

  it("none without the option; only the chosen one for 0; the model's own with a grammar", async () => {
    for await (const part of model.generate(prompt, { ...greedy, maxTokens: 2 })) expect('logprobs' in part).toBe(false);
    for await (const part of model.generate(prompt, { ...greedy, maxTokens: 2, logprobs: 0 }))
      if (part.id >= 0) expect(part.logprobs).toMatchObject({ id: part.id, top: [] });
    for await (const part of model.generate(prompt, { ...greedy, maxTokens: 1, logprobs: 1, grammar: 'root ::= "7"' })) {
      if (part.id >= 0) expect(part.logprobs!.top[0].logprob).toBeGreaterThan(part.logprobs!.logprob);
    }
  });
});

it('stopText names the text that ended it; undefined options are defaults', async () => {
  const { text } = await generate({});
  const word = text.slice(10, 14);
  const cut = await generate({
    stop: ['never there', word],
    signal: undefined,
    logprobs: undefined,
    grammar: undefined,
    responseFormat: undefined,
    special: undefined,
    ignoreEos: undefined,
    parseSpecial: undefined,
    topK: undefined,
  });
  expect(cut).toMatchObject({ finishReason: 'stop', stopText: word, text: text.slice(0, text.indexOf(word)) });
  expect((await generate({ stop: undefined })).text).toBe(text);
  expect('stopText' in (await generate({}))).toBe(false);
});

it('special shows control tokens, but not the one that ends the text', async () => {
  const { bos } = model.internals.tokenizer.special;
  const grammar = `root ::= "a" <[${bos}]> "b"`;
  expect((await generate({ grammar, special: true })).text).toBe('a<s>b');
  expect((await generate({ grammar })).text).toBe('ab');
  const ended = await generate({ special: true, maxTokens: 200 });
  expect(ended.text).not.toContain(model.eos);
});

it('a prompt takes the free slot with the longest common prefix; a new conversation takes the least recently used', async () => {
  const stories = ['Once upon a time there was a big dog', 'Lily and Tom like to play in the park', 'The little bird wanted to fly away'];
  const computed = async (text: string): Promise<number> => (await generate({ maxTokens: 2 }, text)).timings.promptTokens;
  await Promise.all(stories.map(computed));
  for (const story of [...stories, ...stories.toReversed()]) expect(await computed(`${story} today`), story).toBeLessThan(5);
  // Three new conversations evict the old ones, each one.
  for (const story of ['Max had a red ball and', 'Sue found an old box under', 'Ben was sad because his'])
    expect(await computed(story)).toBeGreaterThan(3);
  for (const story of ['Max had a red ball and', 'Sue found an old box under', 'Ben was sad because his'])
    expect(await computed(story)).toBe(1);
});
