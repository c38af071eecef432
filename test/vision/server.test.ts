/** A server whose model sees images: the same picture in every protocol, and what answers count. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { loadModel, type Model } from 'quantlet';
import { createHandler } from '../../src/server/handler.ts';
import { at } from '../support.ts';
import { bytesOf } from './golden.ts';

let model: Model;
let handler: ReturnType<typeof createHandler>;
beforeAll(async () => {
  model = await loadModel(at('test/golden/vision/idefics3.gguf'), {
    mmproj: at('test/golden/vision/mmproj-idefics3.gguf'),
    contextLength: 1024,
    parallel: 2,
    warmUp: false,
  });
  handler = createHandler(model, { media: () => Promise.resolve(bytesOf('shapes.png')) });
});
afterAll(() => model.dispose());

async function post(path: string, body: object) {
  const headers = { 'content-type': 'application/json' };
  const response = await handler(new Request(`http://server${path}`, { method: 'POST', headers, body: JSON.stringify(body) }));
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- compared with what it must be
  const answer = JSON.parse(await response.text()) as any;
  expect(response.status, JSON.stringify(answer)).toBe(200);
  return answer;
}

const base64 = Buffer.from(bytesOf('shapes.png')).toString('base64');
const url = `data:image/png;base64,${base64}`;
const text = 'What is this?';

it('the same picture has the same tokens in every protocol, and each counts them', async () => {
  const parts = [
    { type: 'image_url', image_url: { url } },
    { type: 'text', text },
  ];
  const settings = { max_tokens: 3, temperature: 0 };
  const chat = await post('/v1/chat/completions', { ...settings, messages: [{ role: 'user', content: parts }] });
  const plain = await post('/v1/chat/completions', { ...settings, messages: [{ role: 'user', content: text }] });
  const { prompt_tokens: tokens } = chat.usage;
  const { ids } = await model.internals.vision!.read(bytesOf('shapes.png'));
  expect(tokens).toBe(plain.usage.prompt_tokens + ids.length);

  const source = { type: 'base64', media_type: 'image/png', data: base64 };
  const blocks = [
    { type: 'image', source },
    { type: 'text', text },
  ];
  const messages = await post('/v1/messages', { ...settings, messages: [{ role: 'user', content: blocks }] });
  expect(messages.usage.input_tokens + messages.usage.cache_read_input_tokens).toBe(tokens);
  const input = [
    {
      role: 'user',
      content: [
        { type: 'input_image', image_url: 'https://example.com/a.png' },
        { type: 'input_text', text },
      ],
    },
  ];
  expect((await post('/v1/responses', { max_output_tokens: 3, temperature: 0, input })).usage.input_tokens).toBe(tokens);
  const options = { num_predict: 3, temperature: 0 };
  const ollama = await post('/api/chat', {
    model: 'm',
    stream: false,
    options,
    messages: [{ role: 'user', content: text, images: [base64] }],
  });
  expect([ollama.prompt_eval_count, ollama.message.content]).toEqual([tokens, chat.choices[0].message.content]);
  const generated = await post('/api/generate', { model: 'm', stream: false, options, prompt: text, images: [base64] });
  expect([generated.prompt_eval_count, generated.response]).toEqual([tokens, chat.choices[0].message.content]);
  const earlier = await post('/api/generate', { model: 'm', stream: false, options, prompt: 'Hi' });
  const later = await post('/api/generate', {
    model: 'm',
    stream: false,
    options,
    prompt: text,
    images: [base64],
    context: earlier.context,
  });
  expect(later.prompt_eval_count).toBeGreaterThan(tokens);
});

it('a picture in the result of a tool', async () => {
  const messages = [
    { role: 'user', content: 'Look' },
    { role: 'assistant', content: '', tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'shot', arguments: '{}' } }] },
    { role: 'tool', tool_call_id: 'call_1', content: [{ type: 'image_url', image_url: { url } }] },
  ];
  const without = messages.map((message) => (message.role === 'tool' ? { ...message, content: 'x' } : message));
  const [seen, blind] = [
    await post('/v1/chat/completions', { max_tokens: 2, messages }),
    await post('/v1/chat/completions', { max_tokens: 2, messages: without }),
  ];
  const { ids } = await model.internals.vision!.read(bytesOf('shapes.png'));
  expect(seen.usage.prompt_tokens).toBeGreaterThan(blind.usage.prompt_tokens + ids.length - 4);
});

it('text of users that looks like a marker stays text', async () => {
  const count = async (content: string): Promise<number> =>
    (await post('/v1/chat/completions', { max_tokens: 1, messages: [{ role: 'user', content }] })).usage.prompt_tokens as number;
  expect(await count('<__media__>')).toBeLessThan((await count('a')) + 20);
});

interface Told {
  readonly total: number;
  readonly cache: number;
  readonly processed: number;
  readonly time_ms: number;
  readonly images?: { readonly done: number; readonly total: number };
}

it.each([
  ['/v1/chat/completions', { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }] }],
  ['/completion', { prompt: { prompt_string: '<__media__>?', multimodal_data: [base64] } }],
  ['/v1/completions', { prompt: 'Once upon a time' }],
])('%s streams the progress of the prompt and its pictures to who asks for it', async (path, body) => {
  await using fresh = await loadModel(at('test/golden/vision/idefics3.gguf'), {
    mmproj: at('test/golden/vision/mmproj-idefics3.gguf'),
    contextLength: 1024,
    warmUp: false,
  });
  const serve = createHandler(fresh);
  const ask = async (more: object) => {
    const init = { method: 'POST', headers: { 'content-type': 'application/json' } };
    const answer = await serve(
      new Request(`http://server${path}`, { ...init, body: JSON.stringify({ ...body, max_tokens: 2, temperature: 0, ...more }) }),
    );
    const events = (await answer.text()).split('\n\n').filter((event) => event.startsWith('data: {'));
    return events.map((event) => JSON.parse(event.slice(6)) as { readonly prompt_progress?: Told; readonly timings?: object });
  };
  const events = await ask({ stream: true, return_progress: true });
  const told = events.flatMap(({ prompt_progress }) => prompt_progress ?? []);
  expect(told[0]).toMatchObject({ cache: 0, processed: 0 });
  expect(told.at(-1)!.processed).toBe(told[0].total);
  expect(told.every(({ time_ms }, i) => time_ms >= (told[i - 1]?.time_ms ?? 0))).toBe(true);
  const images = told.flatMap((one) => one.images ?? []);
  const n = path === '/v1/completions' ? 0 : (await fresh.internals.vision!.read(bytesOf('shapes.png'))).runs.length;
  expect(images.at(-1)).toEqual(n > 0 ? { done: n, total: n } : undefined);
  if (n > 0) expect(images.length).toBeGreaterThan(4);
  expect(events.findLastIndex((event) => event.prompt_progress !== undefined)).toBeLessThan(events.length - 1);
  expect((await ask({ stream: true })).some((event) => event.prompt_progress)).toBe(false);
  const again = await ask({ stream: true, return_progress: true });
  expect(again.flatMap(({ prompt_progress }) => prompt_progress?.images ?? [])).toEqual([]);
  expect(again[path === '/v1/chat/completions' ? 1 : 0].prompt_progress!.cache).toBeGreaterThan(0);
});

it('return_progress is a boolean', async () => {
  const init = { method: 'POST', body: JSON.stringify({ prompt: 'x', stream: true, return_progress: 'yes' }) };
  const answer = await handler(new Request('http://server/v1/completions', { ...init, headers: { 'content-type': 'application/json' } }));
  expect([answer.status, await answer.text()]).toEqual([400, expect.stringContaining("'return_progress'")]);
});
