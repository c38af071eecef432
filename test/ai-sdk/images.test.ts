/** Images through the AI SDK: its file parts give the answer that chat() gives. */
import { generateText, streamText, type ModelMessage } from 'ai';
import { loadModel, type Model } from '../../src/entry/node.ts';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { languageModel } from '../../src/ai-sdk/language-model.ts';
import { at, shippedModel } from '../support.ts';
import { bytesOf } from '../vision/golden.ts';

let model: Model;
let plain: Model;
const chatTemplate =
  "{% for m in messages %}{{ m.role + ':' + m.content + '\\n' }}{% for c in m.tool_calls or [] %}{{ c.function | tojson }}{% endfor %}{% endfor %}";
beforeAll(async () => {
  const options = { contextLength: 1024, warmUp: false, threads: 1 };
  const seeing = { ...options, mmproj: at('test/golden/vision/mmproj-idefics3.gguf') };
  model = await loadModel(at('test/golden/vision/idefics3.gguf'), { ...seeing, chatTemplate });
  plain = await loadModel(shippedModel, options);
});
afterAll(() => Promise.all([model, plain].map((one) => one.dispose())));

const png = bytesOf('shapes.png');
const base64 = Buffer.from(png).toString('base64');
const dataUrl = `data:image/png;base64,${base64}`;
const text = { type: 'text' as const, text: 'What is this?' };
const settings = { temperature: 0, maxOutputTokens: 12 };
const expected = async (content: readonly object[]): Promise<{ text: string; promptTokens: number }> => {
  const messages = [{ role: 'user', content: content as never }];
  const { content: said, promptIds } = await model.chat(messages, { temperature: 0, maxTokens: 12 }).result();
  return { text: said, promptTokens: promptIds.length };
};
const user = (...content: object[]): ModelMessage[] => [{ role: 'user', content: content as never }];

describe('generateText', () => {
  it.each([
    ['an image part with bytes', { type: 'image', image: png }],
    ['an image part with base64', { type: 'image', image: base64 }],
    ['an image part with a data: URL', { type: 'image', image: dataUrl }],
    ['an image part with a URL of data:', { type: 'image', image: new URL(dataUrl) }],
    ['a file part with bytes', { type: 'file', data: png, mediaType: 'image/png' }],
    ['a file part with an ArrayBuffer', { type: 'file', data: Uint8Array.from(png).buffer, mediaType: 'image/png' }],
    ['a file part of a wildcard', { type: 'file', data: base64, mediaType: 'image/*' }],
  ])('%s', async (_, part) => {
    const want = await expected([{ type: 'image', image: png }, text]);
    expect(want.promptTokens).toBeGreaterThan(40);
    const { text: said, usage } = await generateText({ model: languageModel(model), messages: user(part, text), ...settings });
    expect([said, usage.inputTokens]).toEqual([want.text, want.promptTokens]);
  });

  it('two images in their places, streamed', async () => {
    const other = bytesOf('photo.jpg');
    const want = await expected([{ type: 'image', image: png }, text, { type: 'image', image: other }]);
    const messages = user({ type: 'image', image: png }, text, { type: 'file', data: other, mediaType: 'image/jpeg' });
    const stream = streamText({ model: languageModel(model), messages, ...settings });
    let said = '';
    for await (const delta of stream.textStream) said += delta;
    expect(said).toBe(want.text);
  });
});

it.each([
  ['v3, data of an image', { type: 'image-data', data: base64, mediaType: 'image/png' }],
  ['v3, data of a file', { type: 'file-data', data: base64, mediaType: 'image/png' }],
  ['v3, a data: URL', { type: 'image-url', url: dataUrl }],
  ['v4', { type: 'file', data: { type: 'data', data: png }, mediaType: 'image/png' }],
])('an image in the result of a tool: %s', async (_, part) => {
  const asked = { role: 'user' as const, content: 'Look' };
  const result = (content: unknown) => ({ role: 'tool' as const, content });
  const call = { type: 'tool-call', toolCallId: 'c', toolName: 'shot', input: {} };
  const output = { type: 'content', value: [{ type: 'text', text: 'The screen:' }, part] };
  const prompt = [
    { ...asked, content: [{ type: 'text', text: 'Look' }] },
    { role: 'assistant', content: [call] },
    result([{ type: 'tool-result', toolCallId: 'c', toolName: 'shot', output }]),
  ];
  const made = await languageModel(model).doGenerate({ prompt, temperature: 0, maxOutputTokens: 12 } as never);
  const calls = [{ id: 'c', type: 'function' as const, function: { name: 'shot', arguments: '{}' } }];
  const messages = [
    asked,
    { role: 'assistant', content: '', tool_calls: calls },
    {
      ...result([
        { type: 'text', text: 'The screen:' },
        { type: 'image', image: png },
      ]),
      tool_call_id: 'c',
      name: 'shot',
    },
  ];
  const want = await model.chat(messages as never, { temperature: 0, maxTokens: 12 }).result();
  expect(want.promptIds).toContain(-1);
  expect(made.usage.inputTokens.total).toBe(want.promptIds.length);
  expect(made.content).toMatchObject([{ type: 'text', text: want.content }]);
});

/** A call as the AI SDK 7 makes it: specification v4 tags the data of files. */
const generate = (of: Model, content: readonly object[]) =>
  languageModel(of).doGenerate({ prompt: [{ role: 'user', content }], temperature: 0, maxOutputTokens: 12 } as never);

describe('specification v4', () => {
  it.each([
    ['bytes', { type: 'data', data: png }],
    ['base64', { type: 'data', data: base64 }],
    ['a data: URL', { type: 'url', url: new URL(dataUrl) }],
  ])('%s', async (_, data) => {
    const want = await expected([{ type: 'image', image: png }, text]);
    const { content } = await generate(model, [{ type: 'file', data, mediaType: 'image' }, text]);
    expect(content).toMatchObject([{ type: 'text', text: want.text }]);
  });

  it('inline text is text', async () => {
    const want = await expected([text, { type: 'text', text: 'a note' }]);
    const { content } = await generate(model, [text, { type: 'file', data: { type: 'text', text: 'a note' }, mediaType: 'text/plain' }]);
    expect(content).toMatchObject([{ type: 'text', text: want.text }]);
  });
});

describe('refused', () => {
  const png8 = { type: 'data', data: png };
  it.each([
    ['another kind of file', { type: 'file', data: png8, mediaType: 'application/pdf' }, /a file of type "application\/pdf"/],
    ['a reference', { type: 'file', data: { type: 'reference', reference: { openai: 'x' } }, mediaType: 'image/png' }, /by a reference/],
    ['an address', { type: 'file', data: new URL('https://example.org/a.png'), mediaType: 'image/png' }, /nothing is downloaded/],
    ['what is no picture', { type: 'file', data: Uint8Array.of(1, 2, 3), mediaType: 'image/png' }, /not a picture/],
    ['what is no base64', { type: 'file', data: 'no!', mediaType: 'image/png' }, /not base64/],
  ])('%s', async (_, part, message) => {
    await expect(generate(model, [part, text])).rejects.toThrow(message);
  });

  it('images for a model without a projector', async () => {
    await expect(generate(plain, [{ type: 'file', data: png, mediaType: 'image/png' }, text])).rejects.toThrow(/mmproj/);
  });
});
