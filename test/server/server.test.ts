/**
 * `quantlet serve` with the shipped model over real sockets: the official client, many requests at
 * once, invalid requests.
 */
import { createServer, connect } from 'node:net';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runCli, shippedModel, temporaryFolder, writeTo } from '../support.ts';
import { send } from '../fuzz/requests.ts';
import { metric, startServer, until, type Served } from './server.ts';

const plain = "{% for m in messages %}{{ m.role[0] + ':' + m.content + '\\n' }}{% endfor %}{% if add_generation_prompt %}a:{% endif %}";
const folder = temporaryFolder();
let server: Served, client: OpenAI;
beforeAll(async () => {
  const template = writeTo(folder, 'template.jinja', plain);
  server = await startServer([
    '-m',
    shippedModel,
    '-c',
    1024,
    '-np',
    4,
    '-t',
    2,
    '--api-key',
    'key',
    '--api-key',
    'other',
    '--cors',
    'https://page.example',
    '--max-body',
    100_000,
    '--max-queue',
    20,
    '--access-log',
    '--chat-template-file',
    template,
  ]);
  client = new OpenAI({ apiKey: 'key', baseURL: `${server.url}/v1`, maxRetries: 0 });
});
afterAll(async () => {
  server.kill('SIGTERM');
  await server.exit;
});

const auth = { authorization: 'Bearer other' };
const post = (path: string, body: unknown, init: RequestInit = {}): Promise<Response> =>
  fetch(server.url + path, {
    method: 'POST',
    headers: { ...auth, 'content-type': 'application/json' },
    body: typeof body === 'string' ? body : JSON.stringify(body),
    ...init,
  });
const idle = (): Promise<boolean> => until(async () => (await metric(server.url, 'llamacpp:requests_processing', auth)) === 0);
const model = 'tiny-stories-q4_0';
const greedy = { model, temperature: 0, prompt: 'Once upon a time', max_tokens: 32 };
const messages = [{ role: 'user' as const, content: 'Tell me about a dog.' }];

describe('responses and messages, by the official clients', () => {
  const tokens = 24;
  const chat = (content: string) =>
    client.chat.completions.create({ model, messages: [{ role: 'user', content }], temperature: 0, max_tokens: tokens });

  it('say what a chat completion says, whole and streamed, of texts in parts too', async () => {
    const { content } = (await chat('Tell me about a dog.')).choices[0].message;
    const ask = { model, temperature: 0, max_output_tokens: tokens };
    const input = [{ role: 'user' as const, content: [{ type: 'input_text' as const, text: 'Tell me about a dog.' }] }];
    expect((await client.responses.create({ ...ask, input })).output_text).toBe(content);
    expect((await client.responses.stream({ ...ask, input: 'Tell me about a dog.' }).finalResponse()).output_text).toBe(content);
    const anthropic = new Anthropic({ apiKey: 'key', baseURL: server.url, maxRetries: 0 });
    const request = { model, temperature: 0, max_tokens: tokens, messages };
    const message = await anthropic.messages.create(request);
    expect(message.content).toMatchObject([{ type: 'text', text: content }]);
    const parts = [{ role: 'user' as const, content: [{ type: 'text' as const, text: 'Tell me about a dog.' }] }];
    const streamed = await anthropic.messages.stream({ ...request, messages: parts }).finalMessage();
    expect(streamed).toMatchObject({ content: [{ text: content }], stop_reason: 'max_tokens' });
    // The second prompt was in the cache, except for its last token.
    expect(streamed.usage.cache_read_input_tokens).toBeGreaterThan(5);
    expect((await anthropic.messages.countTokens({ model, messages })).input_tokens).toBe(
      streamed.usage.input_tokens + streamed.usage.cache_read_input_tokens!,
    );
  });

  it('call tools whose arguments fit their schema', async () => {
    const schema = {
      type: 'object' as const,
      properties: { city: { enum: ['Oslo', 'Rome'] } },
      required: ['city'],
      additionalProperties: false,
    };
    const sampling = { model, temperature: 0.8, seed: 1 };
    const response = await client.responses.create({
      ...sampling,
      max_output_tokens: 100,
      input: 'Weather?',
      tools: [{ type: 'function', name: 'weather', parameters: schema, strict: true }],
      tool_choice: 'required',
    } as OpenAI.Responses.ResponseCreateParamsNonStreaming);
    const [call] = response.output;
    expect(call.type === 'function_call' && ['Oslo', 'Rome'].includes((JSON.parse(call.arguments) as { city: string }).city)).toBe(true);
    const anthropic = new Anthropic({ apiKey: 'key', baseURL: server.url, maxRetries: 0 });
    const { content } = await anthropic.messages.create({
      ...sampling,
      max_tokens: 100,
      messages,
      tools: [{ name: 'weather', input_schema: schema }],
      tool_choice: { type: 'any' },
    } as Anthropic.MessageCreateParamsNonStreaming);
    expect(content[0].type === 'tool_use' && ['Oslo', 'Rome'].includes((content[0].input as { city: string }).city)).toBe(true);
  });

  it('end when their clients go', async () => {
    const anthropic = new Anthropic({ apiKey: 'key', baseURL: server.url, maxRetries: 0 });
    const stream = await anthropic.messages.create({ model, max_tokens: 900, messages, stream: true });
    let events = 0;
    for await (const _ of stream) if (++events === 6) stream.controller.abort();
    const other = await client.responses.create({ model, input: 'Once', max_output_tokens: 900, stream: true });
    events = 0;
    for await (const _ of other) if (++events === 6) other.controller.abort();
    expect(await idle()).toBe(true);
  });
});

describe('the openai client', () => {
  it('lists the model, completes, streams the same, stops, echoes', async () => {
    expect((await client.models.list()).data.map((m) => m.id)).toEqual([model]);
    const whole = await client.completions.create(greedy);
    const { text } = whole.choices[0];
    expect(text.length).toBeGreaterThan(20);
    expect(whole.usage).toMatchObject({ completion_tokens: 32, total_tokens: 32 + whole.usage!.prompt_tokens });
    let streamed = '';
    for await (const chunk of await client.completions.create({ ...greedy, stream: true })) streamed += chunk.choices[0]?.text ?? '';
    expect(streamed).toBe(text);
    const word = text.slice(12, 16);
    const stopped = await client.completions.create({ ...greedy, stop: [word] });
    expect(stopped.choices[0]).toMatchObject({ text: text.slice(0, text.indexOf(word)), finish_reason: 'stop' });
    const own = (await (
      await post('/completion', { prompt: greedy.prompt, n_predict: 32, temperature: 0, stop: [word], n_probs: 2 })
    ).json()) as { stopping_word: string; completion_probabilities: { top_logprobs: unknown[] }[] };
    expect(own).toMatchObject({ content: text.slice(0, text.indexOf(word)), stop_type: 'word', stopping_word: word });
    expect(own.completion_probabilities.every((p) => p.top_logprobs.length === 2)).toBe(true);
  });

  it('chats: whole, streamed, several answers, log probabilities, a second turn from the cache', async () => {
    const chat = { model, messages, temperature: 0, max_tokens: 24 };
    const { choices } = await client.chat.completions.create({ ...chat, logprobs: true, top_logprobs: 2 });
    const content = choices[0].message.content!;
    expect(content.length).toBeGreaterThan(10);
    expect(choices[0].logprobs!.content!.map((entry) => entry.token).join('')).toBe(content);
    expect(choices[0].logprobs!.content!.every((entry) => entry.top_logprobs.length === 2)).toBe(true);
    let streamed = '';
    for await (const chunk of await client.chat.completions.create({ ...chat, stream: true }))
      streamed += chunk.choices[0]?.delta.content ?? '';
    expect(streamed).toBe(content);
    const next = await client.chat.completions.create({
      ...chat,
      messages: [...messages, { role: 'assistant', content }, { role: 'user', content: 'And then?' }],
    });
    expect(next.usage!.prompt_tokens_details!.cached_tokens!).toBeGreaterThan(30);
    const several = await client.chat.completions.create({ ...chat, temperature: 1, seed: 5, n: 3 });
    expect(new Set(several.choices.map((c) => c.message.content)).size).toBe(3);
  });

  it('makes a required tool call that fits its schema, and JSON of a schema', async () => {
    const tools = [
      {
        type: 'function' as const,
        function: {
          name: 'weather',
          parameters: { type: 'object', properties: { city: { enum: ['Oslo', 'Rome'] } }, required: ['city'], additionalProperties: false },
        },
      },
    ];
    const asked = { model, messages, tools, tool_choice: 'required' as const, temperature: 0.8, seed: 1, max_tokens: 100 };
    const { choices } = await client.chat.completions.create(asked);
    expect(choices[0].finish_reason).toBe('tool_calls');
    const streamed = (await client.chat.completions.stream(asked).finalChatCompletion()).choices[0];
    for (const { message } of [choices[0], streamed]) {
      const call = message.tool_calls![0];
      if (call.type !== 'function') throw new TypeError('no function call');
      expect(call.function.name).toBe('weather');
      expect(['Oslo', 'Rome']).toContain((JSON.parse(call.function.arguments) as { city: string }).city);
    }
    const schema = {
      type: 'object',
      properties: { n: { type: 'integer', minimum: 0, maximum: 99 } },
      required: ['n'],
      additionalProperties: false,
    };
    const json = await client.chat.completions.create({
      model,
      messages,
      temperature: 0,
      max_tokens: 60,
      response_format: { type: 'json_schema', json_schema: { name: 'n', schema } },
    });
    expect(Object.keys(JSON.parse(json.choices[0].message.content!) as object)).toEqual(['n']);
  });

  it('is told of errors: wrong key, no embeddings, too long, bad requests', async () => {
    const stranger = new OpenAI({ apiKey: 'wrong', baseURL: `${server.url}/v1`, maxRetries: 0 });
    await expect(stranger.models.list()).rejects.toBeInstanceOf(OpenAI.AuthenticationError);
    await expect(client.embeddings.create({ model, input: 'x' })).rejects.toMatchObject({
      status: 400,
      message: expect.stringMatching(/embeddings/) as string,
    });
    await expect(client.completions.create({ ...greedy, prompt: 'word '.repeat(3000) })).rejects.toMatchObject({
      status: 400,
      code: 'context_length_exceeded',
    });
    await expect(client.completions.create({ ...greedy, max_tokens: -5 })).rejects.toBeInstanceOf(OpenAI.BadRequestError);
  });

  it('aborts a stream, which frees its place', async () => {
    const stream = await client.chat.completions.create({ model, messages, stream: true, max_tokens: 900 });
    for await (const _ of stream) stream.controller.abort();
    expect(await idle()).toBe(true);
  });
});

it('16 at once, streamed and not: each as if it were alone', async () => {
  const prompts = ['Once upon a time', 'Lily and Tom', 'The little bird', 'Max had a red ball'];
  const complete = async (prompt: string, stream: boolean): Promise<string> => {
    const response = await post('/v1/completions', { ...greedy, prompt, stream });
    if (!stream) return ((await response.json()) as { choices: { text: string }[] }).choices[0].text;
    const lines = (await response.text()).split('\n').filter((line) => line.startsWith('data: {'));
    return lines.map((line) => (JSON.parse(line.slice(6)) as { choices: { text: string }[] }).choices[0].text).join('');
  };
  const alone: string[] = [];
  for (const prompt of prompts) alone.push(await complete(prompt, false));
  const together = await Promise.all(Array.from({ length: 16 }, (_, i) => complete(prompts[i % 4], i % 3 === 0)));
  expect(together).toEqual(Array.from({ length: 16 }, (_, i) => alone[i % 4]));
});

it('clients that hang up, waiting or streaming, free their places', async () => {
  const long = { ...greedy, max_tokens: 900, ignore_eos: true, stream: true };
  for (let round = 0; round < 3; round++) {
    const controllers = Array.from({ length: 8 }, () => new AbortController());
    const answers = controllers.map(async ({ signal }) => {
      const response = await post('/v1/completions', long, { signal });
      await response.body!.getReader().read();
    });
    await Promise.all(answers.slice(0, 4));
    for (const controller of controllers) controller.abort();
    await Promise.allSettled(answers);
  }
  expect(await idle()).toBe(true);
  expect((await post('/v1/completions', greedy)).status).toBe(200);
});

interface Failure {
  error: { message: string; type: string; code: string | null };
}

describe("bad input has its status and an error in OpenAI's shape, and the server stays up", () => {
  const chat = { messages, max_tokens: 4 };
  it.each<[string, string, unknown, number]>([
    ['malformed JSON', '/v1/completions', '{"prompt": ', 400],
    ['no object', '/v1/chat/completions', '[1]', 400],
    ['bytes that are not UTF-8', '/v1/completions', Buffer.from([0x7b, 0xff, 0x7d]), 400],
    ['negative max_tokens', '/v1/completions', { ...greedy, max_tokens: -5 }, 400],
    ['too long a prompt', '/v1/completions', { ...greedy, prompt: 'word '.repeat(5000) }, 400],
    ['too long a conversation', '/v1/chat/completions', { messages: [{ role: 'user', content: 'word '.repeat(5000) }] }, 400],
    ['an id outside the vocabulary', '/v1/completions', { ...greedy, prompt: [1, 999_999] }, 400],
    ['a bad grammar', '/v1/completions', { ...greedy, grammar: 'root ::= (' }, 400],
    ['a bad grammar, streamed', '/v1/completions', { ...greedy, grammar: 'root ::= (', stream: true }, 400],
    ['a bad grammar, chat, streamed', '/v1/chat/completions', { ...chat, grammar: 'root ::= (', stream: true }, 400],
    [
      'a schema that nothing fits',
      '/v1/chat/completions',
      { ...chat, response_format: { type: 'json_schema', json_schema: { name: 'x', schema: { enum: [] } } } },
      400,
    ],
    ['a grammar and a format', '/v1/chat/completions', { ...chat, grammar: 'root ::= "a"', response_format: { type: 'json_object' } }, 400],
    ['a bias for no token', '/v1/completions', { ...greedy, logit_bias: { 99999: 1 } }, 400],
    ['a top_p out of range', '/v1/completions', { ...greedy, top_p: 2 }, 400],
    ['a body over the limit', '/v1/completions', { ...greedy, prompt: 'x'.repeat(200_000) }, 413],
    ['a template that throws', '/v1/chat/completions', { messages: [{ role: 'user', content: [{ type: 'image_url' }] }] }, 400],
    ['an unknown path', '/v1/nothing', {}, 404],
    ['a path out of here', '/../../etc/passwd', {}, 404],
    ['another one', '/%2e%2e/%2e%2e/etc/passwd', {}, 404],
  ])('%s', async (_, path, body, status) => {
    const response = await post(path, body, Buffer.isBuffer(body) ? { body: new Blob([Uint8Array.from(body)]) } : {});
    const { error } = (await response.json()) as Failure;
    expect([response.status, typeof error.message, typeof error.type], error.message).toEqual([status, 'string', 'string']);
    expect((await fetch(`${server.url}/health`)).status).toBe(200);
  });

  it.each([
    ['no key', {}],
    ['a wrong key', { authorization: 'Bearer kex' }],
    ['a beginning of the key', { authorization: 'Bearer ke' }],
    ['an empty key', { authorization: 'Bearer ' }],
  ])('%s: 401', async (_, headers) => {
    expect((await fetch(`${server.url}/v1/models`, { headers: headers as Record<string, string> })).status).toBe(401);
  });

  /** Sends text on a raw connection and returns the answer. */
  const raw = (text: string): Promise<string> =>
    new Promise((resolve, reject) => {
      const { hostname, port } = new URL(server.url);
      const socket = connect(Number(port), hostname, () => socket.write(text));
      let got = '';
      socket
        .setEncoding('utf8')
        .on('data', (chunk: string) => (got += chunk))
        .on('close', () => resolve(got))
        .on('error', (e: NodeJS.ErrnoException) => (e.code === 'ECONNRESET' || e.code === 'EPIPE' ? resolve(got) : reject(e)));
    });
  it.each<[string, string, RegExp]>([
    [
      'a header flood',
      `GET /health HTTP/1.1\r\nhost: a\r\n${Array.from({ length: 3000 }, (_, i) => `x-${i}: ${'y'.repeat(20)}\r\n`).join('')}\r\n`,
      /^HTTP\/1\.1 431 [^]*"error"/,
    ],
    ['no HTTP at all', 'hello\r\n\r\n', /^HTTP\/1\.1 400 [^]*"error"/],
    ['a method that fetch forbids', 'TRACE /health HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n', /^HTTP\/1\.1 400 /],
    ['a strange host', 'GET /health HTTP/1.1\r\nhost: [::not a host\r\nconnection: close\r\n\r\n', /^HTTP\/1\.1 403 [^]*host_not_allowed/],
    [
      'a name that was made to lead here',
      'GET /v1/models HTTP/1.1\r\nhost: evil.example:8080\r\nauthorization: Bearer key\r\nconnection: close\r\n\r\n',
      /^HTTP\/1\.1 403 [^]*host_not_allowed/,
    ],
    ['what this machine calls itself', 'GET /health HTTP/1.1\r\nhost: LOCALHOST:1\r\nconnection: close\r\n\r\n', /^HTTP\/1\.1 200 /],
    [
      'an absolute URL',
      'GET http://elsewhere/etc/passwd HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n',
      /^HTTP\/1\.1 (404|401) /,
    ],
    ['HEAD', 'HEAD /health HTTP/1.1\r\nhost: 127.0.0.1:80\r\nconnection: close\r\n\r\n', /^HTTP\/1\.1 200 [^]*\r\n\r\n$/],
  ])('%s', async (_, text, want) => {
    expect(await raw(text)).toMatch(want);
    expect((await fetch(`${server.url}/health`)).status).toBe(200);
  });

  it('plain text and forms, which pages of any origin may post without asking; programs may call JSON what they like', async () => {
    for (const type of [
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'text/plain; x=application/json',
      '',
    ]) {
      const status = async (page: Record<string, string>): Promise<unknown[]> => {
        const response = await post('/v1/completions', '', {
          body: new Blob([JSON.stringify({ ...greedy, max_tokens: 1 })]),
          headers: { ...auth, ...page, ...(type === '' ? {} : { 'content-type': type }) },
        });
        return [response.status, ((await response.json()) as Partial<Failure>).error?.code];
      };
      const pages: readonly Record<string, string>[] = [
        { origin: 'https://page.example' },
        { origin: 'null' },
        { origin: 'http://localhost:1' },
        { 'sec-fetch-site': 'cross-site' },
      ];
      for (const page of pages) expect(await status(page)).toEqual([415, 'unsupported_media_type']);
      expect(await status({})).toEqual([200, undefined]);
    }
    expect((await post('/v1/completions', 'prompt=a', { headers: auth })).status).toBe(400);
  });

  // These two tests wait for some seconds, so they run at the same time.
  it.concurrent('a reader that stopped reading does not hold up the end; a key of the environment counts', async () => {
    const own = await startServer(['-m', shippedModel, '--no-warmup', '-t', 2], { LLAMA_API_KEY: 'secret' });
    expect((await fetch(`${own.url}/v1/models`)).status).toBe(401);
    const { hostname, port } = new URL(own.url);
    const body = JSON.stringify({ ...greedy, max_tokens: 200, ignore_eos: true, stream: true });
    const socket = connect(Number(port), hostname, () =>
      socket.write(
        `POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer secret\r\ncontent-type: application/json\r\ncontent-length: 9999\r\n\r\n${body}`,
      ),
    );
    socket.on('error', () => {}).pause();
    await until(async () => (await fetch(`${own.url}/health`)).ok);
    const began = Date.now();
    own.kill('SIGTERM');
    expect(await own.exit).toBe(0);
    expect(Date.now() - began).toBeLessThan(8000);
    socket.destroy();
  });

  it.concurrent('a body that trickles: an answer, and the connection is closed', async () => {
    const own = await startServer(['-m', shippedModel, '--no-warmup', '-t', 1, '--body-timeout', 1]);
    const { hostname, port } = new URL(own.url);
    const closed = await new Promise<string>((resolve) => {
      let got = '';
      const socket = connect(Number(port), hostname, () =>
        socket.write(
          'POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n{"prompt": "',
        ),
      );
      const dripping = setInterval(() => socket.write('x'), 100);
      socket
        .setEncoding('utf8')
        .on('data', (chunk: string) => (got += chunk))
        .on('error', () => undefined)
        .on('close', () => (clearInterval(dripping), resolve(got)));
    });
    expect(closed).toMatch(/^HTTP\/1\.1 408 /);
    own.kill('SIGTERM');
    await own.exit;
  });

  it('an upload whose client vanishes is not a failure of the server', async () => {
    const { hostname, port } = new URL(server.url);
    const before = server.stderr().length;
    const socket = connect(Number(port), hostname, () =>
      socket.write(
        'POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer key\r\ncontent-type: application/json\r\ncontent-length: 5000\r\n\r\n{"prompt": "',
        () => setTimeout(() => socket.destroy(), 100),
      ),
    );
    socket.on('error', () => undefined);
    expect(await until(() => /POST \/v1\/completions 499 /.test(server.stderr().slice(before)))).toBe(true);
    expect(server.stderr().slice(before)).not.toMatch(/Error|at /);
  });

  it('more than may wait: 429 with Retry-After', async () => {
    const answers = await Promise.all(Array.from({ length: 40 }, () => post('/v1/completions', { ...greedy, max_tokens: 64 })));
    const refused = answers.filter((r) => r.status === 429);
    expect(refused.length).toBeGreaterThan(0);
    expect(Number(refused[0].headers.get('retry-after'))).toBeGreaterThan(0);
    expect(answers.every((r) => r.status === 200 || r.status === 429)).toBe(true);
    await Promise.all(answers.map((r) => r.text()));
  });
});

it('pages of allowed origins alone may read; the page at / is served; requests are logged', async () => {
  const from = async (origin: string): Promise<string | null> =>
    (await fetch(`${server.url}/health`, { headers: { origin } })).headers.get('access-control-allow-origin');
  expect([await from('https://page.example'), await from('https://evil.example')]).toEqual(['https://page.example', null]);
  const page = await fetch(server.url, { headers: { accept: 'text/html' } });
  expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
  expect(await until(() => /GET \/health 200 [\d.]+ ms\n/.test(server.stderr()))).toBe(true);
});

describe('the process', () => {
  it('SIGTERM lets an answer end, then exits 0', async () => {
    const own = await startServer(['-m', shippedModel, '--no-warmup', '-t', 2]);
    const response = await fetch(`${own.url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...greedy, max_tokens: 100, stream: true }),
    });
    own.kill('SIGTERM');
    expect((await response.text()).endsWith('data: [DONE]\n\n')).toBe(true);
    expect(await own.exit).toBe(0);
  });

  /** A stream that continues until it is stopped. */
  const endless = (url: string): Promise<Response> =>
    fetch(`${url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ prompt: 'Once', max_tokens: 1e9, ignore_eos: true, stream: true }),
    });

  it('Ctrl-C says what it waits for; an answer that does not end is ended in the words of its protocol; exit code 130', async () => {
    const own = await startServer(['-m', shippedModel, '--no-warmup', '-t', 1, '--context-shift']);
    const text = (await endless(own.url)).text();
    text.catch(() => undefined); // the server may be gone before the text is awaited
    own.kill('SIGINT');
    expect(await until(() => own.stderr().includes('one answer is under way and has 5 s to end; press Ctrl-C again to end at once'))).toBe(
      true,
    );
    expect((await text).split('\n\n').at(-2)).toMatch(/^data: \{"error":\{"message":"The server is stopping/);
    expect(await own.exit).toBe(130);
  });

  it('a second Ctrl-C ends at once, and without an answer under way nothing is said', async () => {
    const [own, idle] = await Promise.all([1, 2].map(() => startServer(['-m', shippedModel, '--no-warmup', '-t', 1, '--context-shift'])));
    void (await endless(own.url)).text().catch(() => undefined);
    const began = Date.now();
    own.kill('SIGINT');
    await until(() => own.stderr().includes('under way'));
    own.kill('SIGINT');
    expect(await own.exit).toBe(130);
    expect(Date.now() - began).toBeLessThan(4000);
    idle.kill('SIGINT');
    expect(await idle.exit).toBe(130);
    expect(idle.stderr()).not.toContain('under way');
  });

  it('goes on when the reader of its log has gone', async () => {
    const own = await startServer(['-m', shippedModel, '--no-warmup', '-t', 1, '--access-log']);
    expect((await fetch(`${own.url}/health`)).status).toBe(200);
    own.closeStderr();
    for (let i = 0; i < 20; i++) expect((await fetch(`${own.url}/health`)).status).toBe(200);
    own.kill('SIGTERM');
    expect(await own.exit).toBe(0);
  });

  it('on an address that others reach: a warning without a key, and any host is served unless some are named', async () => {
    const open = await startServer(['-m', shippedModel, '--no-warmup', '-t', 1, '--host', '0.0.0.0']);
    const status = async (served: Served, host: string): Promise<number> =>
      (await send(served.url, { name: host, method: 'GET', path: '/health', headers: { host } })).status;
    expect([open.stderr().includes('open to everybody'), await status(open, 'some.example')]).toEqual([true, 200]);
    open.kill('SIGTERM');
    const named = await startServer([
      '-m',
      shippedModel,
      '--no-warmup',
      '-t',
      1,
      '--host',
      '0.0.0.0',
      '--api-key',
      'x',
      '--allowed-hosts',
      'some.example',
    ]);
    expect([
      named.stderr().includes('open to everybody'),
      await status(named, 'some.example'),
      await status(named, 'localhost'),
      await status(named, 'other.example'),
    ]).toEqual([false, 200, 200, 403]);
    named.kill('SIGTERM');
    expect([await open.exit, await named.exit]).toEqual([0, 0]);
  });

  it('a port in use, an invalid port, a missing model: one line, exit 1 or 2', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => other.once('listening', resolve));
    const { port } = other.address() as { port: number };
    const taken = await runCli(['serve', '-m', shippedModel, '--port', port]);
    expect([taken.code, taken.stderr]).toEqual([
      1,
      expect.stringMatching(/^quantlet: cannot listen on 127\.0\.0\.1:\d+: the port is in use; [^\n]*\n$/),
    ]);
    await new Promise((resolve) => other.close(resolve));
    expect((await runCli(['serve', '-m', shippedModel, '--port', 70000])).code).toBe(2);
    expect((await runCli(['serve', '-m', 'no-such.gguf', '--port', 0])).code).toBe(1);
    expect((await runCli(['serve', '--help'])).stdout).toContain('--api-key');
  });
});
