/**
 * The page's requests to a server, sent to the real handler with a real model: the server accepts
 * what the page sends.
 */
import { afterAll, expect, it, vi } from 'vitest';
import { loadModel } from '../../src/entry/node.ts';
import type { ReadingPart, WireMessage } from '../../page/src/backend.ts';
import { createHandler } from '../../src/server/handler.ts';
import { at, shippedModel } from '../support.ts';
import { pictures } from '../vision/golden.ts';

// Replaces what a browser gives a page. The handler takes the place of the server.
const kept = new Map<string, string>();
vi.stubGlobal('sessionStorage', {
  getItem: (key: string) => kept.get(key) ?? null,
  setItem: (key: string, value: string) => void kept.set(key, value),
});
const model = await loadModel(shippedModel, { threads: 1 });
const small = await loadModel(shippedModel, { threads: 1, contextLength: 128 });
const seeing = await loadModel(at('test/golden/vision/idefics3.gguf'), {
  mmproj: at('test/golden/vision/mmproj-idefics3.gguf'),
  contextLength: 1024,
  threads: 1,
});
afterAll(() => Promise.all([model, small, seeing].map((one) => one.dispose())));
let handler = createHandler(model);
const asked: string[] = [];
vi.stubGlobal('fetch', (path: string, init: RequestInit) => {
  asked.push(path);
  return handler(new Request(`http://127.0.0.1/${path}`, init));
});
const { createServedBackend } = await import('../../page/src/served.ts');

const tasks = {
  text: { prompt: 'Once upon a time' },
  chat: { messages: [{ role: 'user' as const, content: 'Tell a story' }], continues: false },
};

it.each([
  ['text', {}],
  ['text', { maxTokens: 5 }],
  ['chat', {}],
  ['chat', { maxTokens: 5 }],
] as const)('%s with options %o', async (kind, options) => {
  const backend = createServedBackend();
  await backend.refresh();
  expect(backend.problem.value).toBeUndefined();
  const answer = backend.answer({
    model: backend.models.value[0].id,
    task: tasks[kind],
    options: { ...options, temperature: 0 },
    leaveOut: false,
    signal: new AbortController().signal,
  });
  let text = '';
  let step = await answer.next();
  for (; !step.done; step = await answer.next()) if (step.value.type === 'content') text += step.value.delta;
  expect(text).not.toBe('');
  if ('maxTokens' in options) expect(step.value).toMatchObject({ finishReason: 'length', tokens: 5 });
  else expect(step.value.tokens).toBeGreaterThan(5);
});

it.each(['text', 'chat'] as const)('%s longer than the context loses its beginning if the page asks for it', async (kind) => {
  handler = createHandler(small);
  const backend = createServedBackend();
  await backend.refresh();
  const long = 'Once upon a time there was a little girl. '.repeat(4);
  const roles = ['system', 'user', 'assistant', 'user', 'assistant', 'user'] as const;
  const messages = roles.map((role, i) => ({ role, content: i === 0 ? 'Be kind.' : i === 5 ? 'And then?' : long }));
  const request = (leaveOut: boolean) =>
    backend.answer({
      model: backend.models.value[0].id,
      task: kind === 'text' ? { prompt: long.repeat(8) } : { messages, continues: false },
      options: { maxTokens: 4, temperature: 0 },
      leaveOut,
      signal: new AbortController().signal,
    });
  await expect(request(false).next()).rejects.toMatchObject({ code: 'context_length_exceeded' });
  asked.length = 0;
  const answer = request(true);
  const first = await answer.next();
  if (kind === 'chat') expect(first.value).toEqual({ type: 'leftOut', messages: 4 });
  else expect(first.value).toMatchObject({ type: 'leftOut' });
  let step = first;
  while (!step.done) step = await answer.next();
  expect(step.value).toMatchObject({ finishReason: 'length', tokens: 4 });
  // The server shortens a conversation by itself, so the page only asks for an answer.
  if (kind === 'chat') expect(asked).toEqual(['v1/chat/completions']);
});

it('pictures, if /props says that the model sees', async () => {
  handler = createHandler(model);
  const blind = createServedBackend();
  await blind.refresh();
  expect(blind.models.value).toMatchObject([{ sees: false }]);
  handler = createHandler(seeing);
  const backend = createServedBackend();
  await backend.refresh();
  expect(backend.models.value).toMatchObject([{ sees: true }]);
  const file = pictures.find(([name]) => name === 'shapes.png')![1].data;
  const reading: ReadingPart[] = [];
  const promptTokens = async (content: WireMessage['content']) => {
    const task = { messages: [{ role: 'user' as const, content }], continues: false };
    const options = { maxTokens: 3, temperature: 0 };
    const answer = backend.answer({ model: undefined, task, options, leaveOut: false, signal: new AbortController().signal });
    reading.length = 0;
    let step = await answer.next();
    for (; !step.done; step = await answer.next()) if (step.value.type === 'reading') reading.push(step.value);
    return step.value.promptTokens;
  };
  const picture = { type: 'image_url' as const, image_url: { url: `data:image/png;base64,${file}` } };
  const [words, both] = [await promptTokens('What is it?'), await promptTokens([picture, { type: 'text', text: 'What is it?' }])];
  const { ids } = await seeing.readImage!(picture.image_url.url);
  expect(both).toBe(words + ids.length);
  const fractions = reading.flatMap(({ pictures: fraction }) => fraction ?? []);
  expect(fractions.length).toBeGreaterThan(4);
  expect(fractions.every((fraction, i) => fraction < 1 && fraction > (fractions[i - 1] ?? -1))).toBe(true);
  expect(reading.at(-1)).toEqual({ type: 'reading', pictures: undefined, tokens: 1 });
});
