/**
 * A prompt of 8,000 tokens on a machine that takes longer for it than clients wait. All times are
 * scaled: the official clients give up a try after ten minutes and try three times, here after 4.5
 * s. Streams send a ping every half minute, here every 225 ms.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { loadModel, type Model } from 'quantlet';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createHandler } from '../../src/server/handler.ts';
import { nodeListener } from '../../src/server/http/node-listener.ts';
import { patchedLlama } from '../support.ts';

const TOKENS = 8000;
const BATCH = 64;
/** Shortest time of a step: the prompt's 125 steps take at least 5 s. */
const STEP_MS = 40;
/**
 * The clients' timeout: shorter than the prompt takes. On a busy machine the prompt may take three
 * times this, because the clients try three times.
 */
const TIMEOUT = 4500;

let model: Model;
let url: string;
let close = (): void => {};
let requests = 0;
beforeAll(async () => {
  model = await loadModel(await patchedLlama({ metadata: { 'llama.context_length': 8448 } }), {
    contextLength: 8448,
    batchSize: BATCH,
    parallel: 2,
    threads: 1,
    warmUp: false,
    chatTemplate: '{% for m in messages %}{{ m.content }}{% endfor %}',
  });
  const { executor } = model.internals.engine;
  const run = executor.run.bind(executor);
  executor.run = async (...args) => {
    await new Promise((resolve) => setTimeout(resolve, STEP_MS));
    return run(...args);
  };
  const handler = createHandler(model, { ssePingMs: 225 });
  const server = createServer(nodeListener((request) => (requests++, handler(request)))).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  close = () => (server.closeAllConnections(), server.close());
});
afterAll(async () => {
  close();
  await model.dispose();
});

/**
 * A text of slightly more than TOKENS tokens, with its own beginning so that no cache is shared.
 */
function textOf(begin: string): string {
  const part = ' the cat sat at a hat';
  return begin + part.repeat(Math.ceil((TOKENS / model.tokenize(part.repeat(20)).length) * 20) + 20);
}
const messages = (begin: string) => [{ role: 'user' as const, content: textOf(begin) }];
const retried = async (ask: () => Promise<unknown>): Promise<number> => {
  const before = requests;
  await ask();
  return requests - before;
};

it('the official clients, whole: by retries', async () => {
  const openai = new OpenAI({ apiKey: 'x', baseURL: `${url}/v1`, timeout: TIMEOUT });
  const anthropic = new Anthropic({ apiKey: 'x', baseURL: url, timeout: TIMEOUT });
  const ask = { model: 'm', max_tokens: 1, temperature: 0 };
  const tries = [
    await retried(async () =>
      expect((await openai.chat.completions.create({ ...ask, messages: messages('one') })).usage!.prompt_tokens).toBeGreaterThanOrEqual(
        TOKENS,
      ),
    ),
    await retried(async () => expect((await anthropic.messages.create({ ...ask, messages: messages('two') })).content).toHaveLength(1)),
  ];
  for (const n of tries) expect([n > 1, n <= 3]).toEqual([true, true]);
}, 120_000);

it('the official clients, streaming: at once, without a retry', async () => {
  const openai = new OpenAI({ apiKey: 'x', baseURL: `${url}/v1`, timeout: TIMEOUT });
  const anthropic = new Anthropic({ apiKey: 'x', baseURL: url, timeout: TIMEOUT });
  const ask = { model: 'm', max_tokens: 1, temperature: 0, stream: true } as const;
  const events = async (stream: AsyncIterable<unknown>): Promise<number> => {
    let n = 0;
    for await (const _ of stream) n++;
    return n;
  };
  const tries = [
    await retried(async () =>
      expect(await events(await openai.chat.completions.create({ ...ask, messages: messages('three') }))).toBeGreaterThan(1),
    ),
    await retried(async () =>
      expect(
        await events(await openai.responses.create({ model: 'm', max_output_tokens: 1, stream: true, input: textOf('four') })),
      ).toBeGreaterThan(3),
    ),
    await retried(async () =>
      expect(await events(await anthropic.messages.create({ ...ask, messages: messages('five') }))).toBeGreaterThan(3),
    ),
  ];
  expect(tries).toEqual([1, 1, 1]);
}, 120_000);
