/**
 * The AI SDK over the shipped model: text, streams, tools, and objects whose form the grammar
 * guarantees.
 */
import { generateObject, generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai';
import { loadModel, type Model } from 'quantlet';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { embeddingModel } from '../../src/ai-sdk/vector-models.ts';
import { languageModel } from '../../src/ai-sdk/language-model.ts';
import { shippedModel } from '../support.ts';

const plain = "{% for m in messages %}{{ m.role[0] + ':' + m.content + '\\n' }}{% endfor %}{% if add_generation_prompt %}a:{% endif %}";
let model: Model;
beforeAll(
  async () =>
    void (model = await loadModel(shippedModel, { threads: 2, parallel: 2, warmUp: false, contextLength: 1024, chatTemplate: plain })),
);
afterAll(() => model.dispose());

const settings = { prompt: 'Tell me about a dog.', temperature: 0, maxOutputTokens: 24 };

it('generates and streams the same text, with usage', async () => {
  const whole = await generateText({ model: languageModel(model), ...settings });
  expect(whole.text.length).toBeGreaterThan(10);
  expect(whole.usage).toMatchObject({ outputTokens: 24 });
  const stream = streamText({ model: languageModel(model), ...settings });
  let text = '';
  for await (const delta of stream.textStream) text += delta;
  expect(text).toBe(whole.text);
});

it('calls tools with arguments of their schema, and goes on with the results', async () => {
  const cities: string[] = [];
  const inputSchema = jsonSchema<{ city: string }>({
    type: 'object',
    properties: { city: { enum: ['Oslo', 'Rome'] } },
    required: ['city'],
    additionalProperties: false,
  });
  const weather = tool({ description: 'Weather', inputSchema, execute: ({ city }) => (cities.push(city), { sky: 'snow' }) });
  const result = await generateText({
    model: languageModel(model),
    ...settings,
    maxOutputTokens: 150,
    tools: { weather },
    stopWhen: stepCountIs(2),
    prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? 'required' : 'none' }),
  });
  expect(result.steps).toHaveLength(2);
  expect(cities).toHaveLength(1);
  expect(['Oslo', 'Rome']).toContain(cities[0]);
});

it('makes objects of a schema', async () => {
  const schema = jsonSchema<{ name: string; age: number }>({
    type: 'object',
    properties: { name: { type: 'string', minLength: 1, maxLength: 8 }, age: { type: 'integer', minimum: 0, maximum: 99 } },
    required: ['name', 'age'],
    additionalProperties: false,
  });
  const { object } = await generateObject({ model: languageModel(model), ...settings, maxOutputTokens: 100, schema });
  expect([typeof object.name, Number.isInteger(object.age), object.age < 100]).toEqual(['string', true, true]);
});

it('an abort ends the stream and frees the place; a model of texts makes no vectors', async () => {
  const controller = new AbortController();
  const stream = streamText({ model: languageModel(model), ...settings, maxOutputTokens: 900, abortSignal: controller.signal });
  let ended = '';
  for await (const part of stream.fullStream) {
    if (part.type === 'text-delta') controller.abort();
    ended = part.type;
  }
  expect(ended).toBe('abort');
  for (let i = 0; i < 200 && model.internals.slots.active > 0; i++) await new Promise((resolve) => setTimeout(resolve, 5));
  expect(model.internals.slots.active).toBe(0);
  await expect(embeddingModel(model).doEmbed({ values: ['a'] })).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
});
