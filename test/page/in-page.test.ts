/** The backend of the page that runs the model itself. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { AnswerPart } from '../../page/src/backend.ts';
import { backend, loaded } from '../../page/src/in-page/engine.ts';
import { loadModel, type Model } from '../../src/entry/node.ts';
import { shippedModel } from '../support.ts';

let model: Model;
beforeAll(async () => {
  model = await loadModel(shippedModel, { contextLength: 256, threads: 1, warmUp: false, chatTemplate: 'chatml' });
  loaded.value = { model: model as never, files: '', name: 'tiny' };
});
afterAll(() => model.dispose());

it('an answer that is stopped has said what was left out', async () => {
  const turn = (i: number) => [
    { role: 'user' as const, content: `Question ${i}: ${'a word and '.repeat(8)}` },
    { role: 'assistant' as const, content: `Answer ${i}.` },
  ];
  const messages = [...Array.from({ length: 8 }, (_, i) => turn(i)).flat(), { role: 'user' as const, content: 'And now?' }];
  const controller = new AbortController();
  const parts: AnswerPart[] = [];
  const options = { maxTokens: 40, temperature: 0 };
  const answer = backend.answer({
    model: 'tiny',
    task: { messages, continues: false },
    options,
    leaveOut: true,
    signal: controller.signal,
  });
  await expect(
    (async () => {
      for await (const part of answer) {
        parts.push(part);
        if (part.type === 'content') controller.abort(new Error('stopped'));
      }
    })(),
  ).rejects.toThrow('stopped');
  const shown = parts.map(({ type }) => type).filter((type) => type !== 'reading');
  expect(parts.length).toBeGreaterThan(shown.length);
  expect(shown.slice(0, 2)).toEqual(['leftOut', 'content']);
  expect(parts[0]).toMatchObject({ messages: expect.any(Number) as number });
});

it('goes on with the beginning of JSON, within its schema', async () => {
  const schema = { type: 'object', properties: { city: { enum: ['Oslo'] } }, required: ['city'], additionalProperties: false };
  const messages = [
    { role: 'user' as const, content: 'Where?' },
    { role: 'assistant' as const, content: '{"city": "O' },
  ];
  const { signal } = new AbortController();
  const options = { maxTokens: 40, temperature: 0, responseFormat: { type: 'json_schema' as const, schema } };
  let text = '';
  for await (const part of backend.answer({ model: 'tiny', task: { messages, continues: true }, options, leaveOut: false, signal }))
    if (part.type === 'content') text += part.delta;
  expect(JSON.parse(`{"city": "O${text}`)).toEqual({ city: 'Oslo' });
});

it('counts tokens, and says how the context can be larger', async () => {
  expect(await backend.count('Once upon a time', 'tiny', new AbortController().signal)).toBe(model.tokenize('Once upon a time').length);
  expect(backend.enlarge).toMatch(/larger context/);
});
