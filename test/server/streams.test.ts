/**
 * Streams before their first token and at their end: headers, pings, failures, a stopping server.
 */
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import type { Backend } from '../../src/server/backend.ts';
import { createHandler } from '../../src/server/handler.ts';
import { createModels } from '../../src/server/models-on-demand.ts';
import type { HandlerOptions } from '../../src/server/options.ts';
import { breaking, scriptedBackend } from './backend.ts';

const messages = [{ role: 'user' as const, content: 'Hi' }];
const ENDPOINTS = [
  ['/v1/chat/completions', { messages }],
  ['/v1/completions', { prompt: 'a' }],
  ['/completion', { prompt: 'a' }],
  ['/v1/responses', { input: 'Hi' }],
  ['/v1/messages', { messages, max_tokens: 9 }],
] as const;

type Handler = ReturnType<typeof createHandler>;
const ask = (handler: Handler, path: string, body: object, signal?: AbortSignal): Promise<Response> =>
  handler(
    new Request(`http://server${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ stream: true, ...body }),
      ...(signal ? { signal } : {}),
    }),
  );

/** A model that produces nothing until the test releases it. */
function held(options: HandlerOptions = {}, parallel = 4) {
  const backend = scriptedBackend(() => 'yes', { parallel });
  let letGo = (): void => {};
  const gate = new Promise<void>((resolve) => (letGo = resolve));
  const slow: Backend = {
    ...backend,
    generate(ids, given) {
      const generation = backend.generate(ids, given);
      return {
        result: () => generation.result(),
        async *[Symbol.asyncIterator]() {
          const aborted = new Promise<never>((_, reject) =>
            given.signal?.addEventListener('abort', () => reject(given.signal!.reason as Error)),
          );
          await Promise.race([gate, aborted]);
          yield* generation;
        },
      };
    },
  };
  return { handler: createHandler(slow, options), letGo, backend };
}

/** Text of a stream that arrives within `ms` milliseconds. */
async function seen(reader: ReadableStreamDefaultReader<Uint8Array>, ms: number): Promise<string> {
  let text = '';
  const end = new Promise<undefined>((resolve) => setTimeout(resolve, ms));
  for (;;) {
    const next = await Promise.race([reader.read(), end]);
    if (!next || next.done) return text;
    text += new TextDecoder().decode(next.value);
  }
}

describe('the header', () => {
  it.each(ENDPOINTS)('%s: at once, before the prompt is read and while all places are taken', async (path, body) => {
    const { handler, letGo } = held({}, 1);
    const [first, second] = [await ask(handler, path, body), await ask(handler, path, body)];
    for (const { status, headers } of [first, second])
      expect([status, headers.get('content-type')]).toEqual([200, 'text/event-stream; charset=utf-8']);
    letGo();
    const texts = await Promise.all([first.text(), second.text()]);
    // Ids, times and speeds differ.
    const plain = texts.map((text) => text.replace(/"(?:id|item_id|created|created_at|completed_at)":(?:"[^"]*"|\d+)/g, ''));
    expect(plain[1]).toBe(plain[0]);
    expect(plain[0]).toContain('"y');
  });

  it.each(ENDPOINTS)('%s: not before what can be known to be wrong', async (path, body) => {
    const { handler } = held({ maxQueue: 1 }, 1);
    const status = async (more: object): Promise<number> => (await ask(handler, path, { ...body, ...more })).status;
    expect(await status({ grammar: 'bad' })).toBe(400);
    expect(await status({ sse_ping_interval: -2 })).toBe(400);
    expect(await status({ sse_ping_interval: 1.5 })).toBe(400);
    expect([await status({}), await status({}), await status({})]).toEqual([200, 200, 429]);
  });
});

describe('silence', () => {
  const PINGS = { '/v1/messages': 'event: ping\ndata: {"type":"ping"}\n\n' } as Readonly<Record<string, string>>;

  it.each(ENDPOINTS)('%s: a ping at every interval, and none while there is something to say', async (path, body) => {
    const { handler, letGo } = held({ ssePingMs: 40 });
    const reader = (await ask(handler, path, body)).body!.getReader();
    const ping = PINGS[path] ?? ':\n\n';
    const quiet = await seen(reader, 220);
    expect(quiet.split(ping).length - 1).toBeGreaterThanOrEqual(2);
    expect(quiet.endsWith(ping)).toBe(true);
    letGo();
    const rest = await seen(reader, 2000);
    expect(rest.split(ping)).toHaveLength(1);
  });

  it('a request may ask for another interval, or for none', async () => {
    const { handler } = held({ ssePingMs: 40 });
    const pings = async (more: object): Promise<number> => {
      const response = await ask(handler, '/v1/completions', { prompt: 'a', ...more });
      return (await seen(response.body!.getReader(), 1300)).split(':\n\n').length - 1;
    };
    const [second, never, zero] = await Promise.all([1, -1, 0].map((seconds) => pings({ sse_ping_interval: seconds })));
    expect([second, never, zero]).toEqual([1, 0, 0]);
    const off = held({ ssePingMs: 0 });
    const quiet = (await ask(off.handler, '/v1/completions', { prompt: 'a' })).body!.getReader();
    expect(await seen(quiet, 100)).toBe('');
  });

  it('of a model that is being loaded: the header comes with the first ping, and its failure is an event', async () => {
    let load = (_: 'ok' | 'broken'): void => {};
    const models = createModels(
      ['one', 'two'].map((id) => ({
        id,
        load: async () => {
          const how = await new Promise<string>((resolve) => (load = resolve));
          if (how === 'broken') throw new Error('secret');
          return { ...scriptedBackend(() => 'yes'), name: id, dispose: () => Promise.resolve() };
        },
      })),
    );
    const handler = createHandler(models, { ssePingMs: 50 });
    const begun = await ask(handler, '/v1/chat/completions', { messages, model: 'one' });
    expect(begun.status).toBe(200);
    const whole = begun.text();
    load('ok');
    expect(await whole).toMatch(/^:\n\n(?::\n\n)*data: \{.*"content":"y".*data: \[DONE\]\n\n$/s);
    for (const [path, body] of ENDPOINTS) {
      const text = (await ask(handler, path, { ...body, model: 'two' })).text();
      load('broken');
      expect(await text, path).toMatch(/\ndata: \{[^\n]*"message":"The server failed\."[^\n]*\}\n\n$/);
      expect(await text).not.toContain('secret');
    }
    // Errors in the request itself are found after the model is loaded, so these get a status.
    expect((await ask(handler, '/v1/chat/completions', { messages: [], model: 'one' })).status).toBe(400);
    expect((await ask(handler, '/v1/chat/completions', { messages, model: 'three' })).status).toBe(404);
  });
});

describe('a failure behind the header', () => {
  const errors: unknown[] = [];
  const handler = createHandler(breaking(scriptedBackend(() => '')), { onError: (error) => errors.push(error) });
  const fetch = (url: string | URL | Request, init?: RequestInit): Promise<Response> => handler(new Request(url, init));

  it.each(ENDPOINTS)("%s: its protocol's error, and nothing behind it", async (path, body) => {
    const text = await (await ask(handler, path, body)).text();
    const last = text.split('\n\n').at(-2)!;
    expect(last).toContain('"The server failed."');
    expect(last.startsWith(/responses|messages/.test(path) ? 'event: error\n' : 'data: {"error":')).toBe(true);
    expect(errors.at(-1)).toMatchObject({ message: 'secret' });
  });

  it('is thrown by the official clients', async () => {
    const openai = new OpenAI({ apiKey: 'x', baseURL: 'http://server/v1', maxRetries: 0, fetch });
    const anthropic = new Anthropic({ apiKey: 'x', baseURL: 'http://server', maxRetries: 0, fetch });
    const drain = async (events: AsyncIterable<unknown>): Promise<void> => {
      for await (const _ of events);
    };
    const asked = [
      openai.chat.completions.create({ model: 'm', messages, stream: true }),
      openai.completions.create({ model: 'm', prompt: 'a', stream: true }),
      openai.responses.create({ model: 'm', input: 'Hi', stream: true }),
      anthropic.messages.create({ model: 'm', messages, max_tokens: 9, stream: true }),
    ] as const;
    for (const stream of asked) await expect(drain((await stream) as AsyncIterable<unknown>)).rejects.toThrow(/The server failed/);
  });
});

describe('a server that stops', () => {
  it.each(ENDPOINTS)("%s: what is under way ends in its protocol's way, new requests get 503", async (path, body) => {
    const stopping = new AbortController();
    const lines: unknown[] = [];
    const { handler, backend } = held({
      signal: stopping.signal,
      onAccess: ({ status }) => lines.push(status),
      onError: (e) => lines.push(e),
    });
    const stream = await ask(handler, path, body);
    const whole = ask(handler, path, { ...body, stream: false });
    await new Promise((resolve) => setTimeout(resolve, 20));
    stopping.abort();
    expect((await stream.text()).split('\n\n').at(-2)).toContain('"The server is stopping. Try again in 1 s."');
    const { status, headers } = await whole;
    expect([status, headers.get('retry-after'), (await ask(handler, path, body)).status]).toEqual([503, '1', 503]);
    expect(lines).toEqual([503, 503, 503]);
    expect(backend.seen.now).toBe(0);
  });
});
