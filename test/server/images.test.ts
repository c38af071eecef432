/** Images in requests of every protocol: where they stand in the prompt, and which URLs are read. */
import { describe, expect, it } from 'vitest';
import { PromptImage, type MediaSource } from '../../src/run/image-tokens.ts';
import { createHandler } from '../../src/server/handler.ts';
import type { HandlerOptions } from '../../src/server/options.ts';
import { scriptedBackend } from './backend.ts';

const PNG = 'iVBORw0KGgo=';
const DATA = `data:image/png;base64,${PNG}`;
const HTTP = 'https://example.com/a.png';
const JSON_HEADERS = { 'content-type': 'application/json' };

/** A server whose model sees an image as `[n]`, the number of its source among all that it was given. */
function serve(options: HandlerOptions = {}) {
  const given: MediaSource[] = [];
  let prompt = '';
  const backend = {
    ...scriptedBackend((text) => ((prompt = text), 'ok'), { contextLength: 65536 }),
    modalities: { vision: true, audio: false },
    readImage: (image: MediaSource) => Promise.resolve(new PromptImage([...new TextEncoder().encode(`[${given.push(image)}]`)], [])),
  };
  const handler = createHandler(backend, options);
  const post = async (path: string, body: object) => {
    const response = await handler(
      new Request(`http://server${path}`, { method: 'POST', headers: JSON_HEADERS, body: JSON.stringify(body) }),
    );
    // eslint-disable-next-line @typescript-eslint/no-explicit-any -- compared with what it must be
    return { status: response.status, answer: JSON.parse(await response.text()) as any };
  };
  return { handler, post, given, prompt: () => prompt };
}

const call = { id: 'call_1', type: 'function', function: { name: 'shot', arguments: '{}' } };
const user = { role: 'user', content: 'Look' };

type Content = (url: string) => readonly object[];
/** An image after "A" and before "B", as content of each protocol. */
const ofChat: Content = (url) => [
  { type: 'text', text: 'A' },
  { type: 'image_url', image_url: { url } },
  { type: 'text', text: 'B' },
];
const ofResponses: Content = (url) => [
  { type: 'input_text', text: 'A' },
  { type: 'input_image', image_url: url },
  { type: 'input_text', text: 'B' },
];
const ofMessages: Content = (url) => [
  { type: 'text', text: 'A' },
  { type: 'image', source: { type: 'url', url } },
  { type: 'text', text: 'B' },
];

type Requests = readonly (readonly [name: string, path: string, body: (url: string) => object])[];
/** Requests with an image, by protocol. */
const inMessages: Requests = [
  ['chat completions', '/v1/chat/completions', (url) => ({ messages: [{ role: 'user', content: ofChat(url) }] })],
  ['responses', '/v1/responses', (url) => ({ input: [{ role: 'user', content: ofResponses(url) }] })],
  ['messages', '/v1/messages', (url) => ({ max_tokens: 9, messages: [{ role: 'user', content: ofMessages(url) }] })],
];

/** Requests with an image in a tool's result. */
const inResults: Requests = [
  [
    'chat completions',
    '/v1/chat/completions',
    (url) => ({
      messages: [user, { role: 'assistant', tool_calls: [call] }, { role: 'tool', tool_call_id: 'call_1', content: ofChat(url) }],
    }),
  ],
  [
    'responses',
    '/v1/responses',
    (url) => ({
      input: [
        user,
        { type: 'function_call', call_id: 'call_1', name: 'shot', arguments: '{}' },
        { type: 'function_call_output', call_id: 'call_1', output: ofResponses(url) },
      ],
    }),
  ],
  [
    'messages',
    '/v1/messages',
    (url) => ({
      max_tokens: 9,
      messages: [
        user,
        { role: 'assistant', content: [{ type: 'tool_use', id: 'call_1', name: 'shot', input: {} }] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'call_1', content: ofMessages(url) }] },
      ],
    }),
  ],
];

describe.each([
  ['in a message', inMessages],
  ["in a tool's result", inResults],
])('an image %s', (_, requests) => {
  it.each(requests)('of %s stands between the texts', async (_, path, body) => {
    const { post, given, prompt } = serve();
    expect((await post(path, body(DATA))).status).toBe(200);
    expect(given).toEqual([DATA]);
    expect(prompt()).toContain('A[1]B');
  });

  it.each(requests)('of %s is read by its URL if the owner allows it, and refused otherwise', async (_, path, body) => {
    const bytes = Uint8Array.of(1, 2, 3);
    const urls: string[] = [];
    const open = serve({ media: (url) => (urls.push(url), Promise.resolve(url === HTTP ? bytes : undefined)) });
    expect((await open.post(path, body(HTTP))).status).toBe(200);
    expect([urls, open.given]).toEqual([[HTTP], [bytes]]);
    for (const { post, given } of [serve(), open]) {
      const { status, answer } = await post(path, body('file:///etc/passwd'));
      expect([status, answer.error.code]).toEqual([400, 'invalid_image_url']);
      expect(answer.error.message).toMatch(/file:, which this server does not read; expected a data: URL/);
      expect(given.length).toBeLessThan(2);
    }
  });
});

describe("Ollama's images", () => {
  const images = [PNG, '/9j/4AAQ'];
  const sources = images.map((base64) => `data:image/any;base64,${base64}`);

  it('/api/chat: they come before the text of their message, in results of tools too', async () => {
    const { post, given, prompt } = serve();
    const messages = [
      { role: 'user', content: 'Look', images },
      { role: 'assistant', content: '', tool_calls: [{ function: { name: 'shot', arguments: {} } }] },
      { role: 'tool', tool_name: 'shot', content: 'done', images: [DATA] },
    ];
    expect((await post('/api/chat', { model: 'm', messages, stream: false })).status).toBe(200);
    expect(given).toEqual([...sources, DATA]);
    expect(prompt()).toContain('[1][2]Look');
    expect(prompt()).toContain('[3]done');
  });

  it('/api/generate: they come before the prompt, which may be empty, and the answer has no context', async () => {
    const { post, given, prompt } = serve();
    const { status, answer } = await post('/api/generate', { model: 'm', prompt: 'Look', images, stream: false });
    expect([status, answer.response, 'context' in answer]).toEqual([200, 'ok', false]);
    expect(given).toEqual(sources);
    expect(prompt()).toContain('[1][2]Look');
    const empty = await post('/api/generate', { model: 'm', prompt: '', images: [PNG], stream: false });
    expect([empty.answer.response, prompt().includes('[3]')]).toEqual(['ok', true]);
    const plain = await post('/api/generate', { model: 'm', prompt: 'Look', images: [], stream: false });
    expect(plain.answer.context.length).toBeGreaterThan(4);
  });

  it.each<[string, object, RegExp]>([
    ['/api/chat', { messages: [{ role: 'user', content: 'a', images: 'x' }] }, /messages\[0\]\.images.*a list of images in base64/],
    ['/api/chat', { messages: [{ role: 'user', content: 'a', images: [7] }] }, /a list of images in base64/],
    ['/api/chat', { messages: [user], images: [PNG] }, /Send it in a message/],
    ['/api/generate', { prompt: 'a', images: {} }, /'images'.*a list of images in base64/],
    ['/api/generate', { prompt: 'a', images: [PNG], raw: true }, /leave out 'raw'/],
    ['/api/generate', { prompt: 'a', images: [PNG], suffix: 'b' }, /leave out .*'suffix'/],
  ])('%s %j is refused', async (path, body, message) => {
    const { status, answer } = await serve().post(path, { model: 'm', ...body });
    expect([status, answer.error]).toEqual([400, expect.stringMatching(message)]);
  });
});

describe('images of one request', () => {
  const ask = (urls: readonly string[]) => ({
    messages: [{ role: 'user', content: urls.map((url) => ({ type: 'image_url', image_url: { url } })) }],
  });

  it('a URL is read once, and 64 of them at most', async () => {
    let n = 0;
    const { post } = serve({ media: () => (n++, Promise.resolve(Uint8Array.of(1))) });
    const urls = Array.from({ length: 65 }, (_, i) => `http://a.example/${i}`);
    expect((await post('/v1/chat/completions', ask([...urls.slice(1), ...urls.slice(1)]))).status).toBe(200);
    expect(n).toBe(64);
    const { status, answer } = await post('/v1/chat/completions', ask(urls));
    expect([status, answer.error.message]).toEqual([400, expect.stringMatching(/more than 64 images by URLs/)]);
  });

  it('the bytes count as kept for the request', async () => {
    const { post } = serve({ maxBufferedBytes: 50_000, media: () => Promise.resolve(new Uint8Array(40_000)) });
    expect((await post('/v1/chat/completions', ask(['http://a.example/1']))).status).toBe(200);
    expect((await post('/v1/chat/completions', ask(['http://a.example/1', 'http://a.example/2']))).status).toBe(503);
  });

  it('base64 without a data: URL is an image, as in llama-server', async () => {
    const { post, given } = serve();
    expect((await post('/v1/chat/completions', ask([PNG]))).status).toBe(200);
    const prompt = { prompt_string: 'a <__media__>', multimodal_data: [PNG] };
    expect((await post('/completion', { prompt })).status).toBe(200);
    expect(given).toEqual(Array.from({ length: 2 }, () => `data:image/any;base64,${PNG}`));
  });
});

it('lists and properties say that the model sees images', async () => {
  const { handler, post } = serve();
  const get = async (path: string) => (await (await handler(new Request(`http://server${path}`))).json()) as Record<string, unknown>;
  expect(await get('/props')).toMatchObject({ modalities: { vision: true, video: false, audio: false }, media_marker: '<__media__>' });
  expect(await get('/v1/models')).toMatchObject({ data: [{ capabilities: ['completion', 'multimodal'] }] });
  expect((await post('/api/show', { model: 'scripted' })).answer.capabilities).toContain('vision');
});
