/**
 * generate() and chat() return an object to iterate over or to ask for its result(). Reading the
 * result directly from that object gives an error that says so.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { loadModel, type Model } from '../../src/entry/node.ts';
import { failure, shippedModel } from '../support.ts';

let model: Model;
beforeAll(
  async () => void (model = await loadModel(shippedModel, { threads: 1, warmUp: false, contextLength: 128, chatTemplate: 'chatml' })),
);
afterAll(() => model.dispose());

const asked = { maxTokens: 2, temperature: 0 };
const messages = [{ role: 'user' as const, content: 'Hi' }];
const streams = {
  generation: () => model.generate('Once', asked),
  chat: () => model.chat(messages, asked),
};

it.each(['generation', 'chat'] as const)('what was awaited without result() says so: %s', async (what) => {
  const stream: object = await streams[what]();
  const { result, ...others } = stream as { result: () => Promise<object> };
  const fields = Object.keys(await result());
  for (const field of [...fields, 'text', 'content'])
    expect(await failure(() => Promise.resolve(Reflect.get(stream, field)))).toMatchObject({
      code: 'ERR_INVALID_ARGUMENT',
      message: `this ${what} has no ${field} yet; expected \`const { ${field} } = await ${what}.result()\`, or \`for await\` over its parts`,
    });
  // The getters that throw are hidden: listing, copying or printing the object does not call them.
  expect(Object.keys(others)).toEqual([]);
  expect(JSON.stringify(stream)).toBe('{}');
  expect(String(stream)).toBe('[object Object]');
});

it.each(['generation', 'chat'] as const)('it can still be iterated over: %s', async (what) => {
  const stream = streams[what]();
  expect(() => (stream as { text?: string }).text).toThrow(/has no text yet/);
  let parts = 0;
  for await (const _ of stream) parts++;
  expect(parts).toBeGreaterThan(0);
  expect((await stream.result()).finishReason).toBe('length');
});
