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
