/** The page's requests to a server, against the real handler and a real model: what one sends the other takes. */
import { afterAll, expect, it, vi } from 'vitest';
import { loadModel } from 'quantlet';
import { createHandler } from '../../src/openai/handler.ts';
import { shippedModel } from '../support.ts';

// A page has these of its browser; the handler is what a server answers with.
const kept = new Map<string, string>();
vi.stubGlobal('sessionStorage', {
  getItem: (key: string) => kept.get(key) ?? null,
  setItem: (key: string, value: string) => void kept.set(key, value),
});
const model = await loadModel(shippedModel, { threads: 1 });
afterAll(() => model.dispose());
const handler = createHandler(model);
vi.stubGlobal('fetch', (path: string, init: RequestInit) => handler(new Request(`http://127.0.0.1/${path}`, init)));
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
