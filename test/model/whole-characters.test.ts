/**
 * An answer that ends within a character is cut before it, whatever ends it and however it is sent.
 * Bytes that cannot be UTF-8 stay U+FFFD.
 */
import { afterAll, describe, expect, it } from 'vitest';
import { loadModel, type GenerateOptions } from 'quantlet';
import { createHandler } from '../../src/server/handler.ts';
import { runCli, shippedModel } from '../support.ts';

/** Its tokens are bytes: the grammar's text has five. */
const grammar = 'root ::= "a🦙"';
const model = await loadModel(shippedModel, {
  threads: 1,
  warmUp: false,
  chatTemplate: '{% for m in messages %}{{ m.content }}{% endfor %}',
});
const small = await loadModel(shippedModel, { threads: 1, warmUp: false, contextLength: 32 });
afterAll(() => Promise.all([model.dispose(), small.dispose()]));

async function generated(
  options: GenerateOptions,
  of = model,
  prompt: string | number[] = 'x',
): Promise<{ parts: string; text: string; n: number }> {
  const generation = of.generate(prompt, { temperature: 0, grammar, ...options });
  let parts = '';
  for await (const { text } of generation) parts += text;
  const { text, ids } = await generation.result();
  return { parts, text, n: ids.length };
}

describe('a text that ends within a character', () => {
  it.each([1, 2, 3, 4, 5])('after %i tokens', async (maxTokens) => {
    const { parts, text, n } = await generated({ maxTokens });
    expect(n).toBe(maxTokens);
    expect(text).toBe(maxTokens === 5 ? 'a🦙' : 'a');
    expect(parts).toBe(text);
  });

  it.each([27, 28, 29, 30, 31])('if the context is full after %i tokens', async (length) => {
    const [id] = model.tokenize('x', { addSpecial: false });
    const { parts, text } = await generated(
      {},
      small,
      Array.from({ length }, () => id),
    );
    expect('a🦙').toContain(text);
    expect(text).not.toMatch(/[\ufffd\p{Surrogate}]/u);
    expect(parts).toBe(text);
  });

  it('keeps bytes that cannot be UTF-8 as U+FFFD', async () => {
    const tokens = [...(model.metadata.get('tokenizer.ggml.tokens') as Iterable<string>)];
    const [byte, other] = ['<0xF0>', '<0xFF>'].map((piece) => tokens.indexOf(piece));
    const biased = (id: number): GenerateOptions => ({ logitBias: { [id]: 1000 }, maxTokens: 3, grammar: undefined });
    expect((await generated(biased(other))).text).toBe('\ufffd\ufffd\ufffd');
    // Each byte begins a character. The first two are interrupted by the next byte and stay as
    // U+FFFD; the last is incomplete and cut.
    expect((await generated(biased(byte))).text).toBe('\ufffd\ufffd');
  });

  it('in a conversation, its events and its log probabilities', async () => {
    for (let maxTokens = 1; maxTokens < 5; maxTokens++) {
      const chat = model.chat([{ role: 'user', content: 'x' }], { grammar, maxTokens, temperature: 0, logprobs: 1 });
      let content = '';
      for await (const event of chat) if (event.type === 'content') content += event.delta;
      const result = await chat.result();
      expect(result.content).toBe(content);
      expect('a').toContain(content);
      expect(result.logprobs).toHaveLength(maxTokens);
    }
  });

  it('in the output of the command, with a limit of tokens', async () => {
    for (const n of [2, 3, 4]) {
      const args = ['run', '-m', shippedModel, '-p', 'x', '--no-display-prompt', '--grammar', grammar, '--temp', 0, '-n', n, '--no-warmup'];
      expect((await runCli(args)).stdout.trim(), `-n ${n}`).toBe('a');
    }
  });
});

const asked = { temperature: 0, grammar };
const messages = [{ role: 'user', content: 'x' }];
/** A request of each protocol for n tokens. */
const REQUESTS: Record<string, (n: number) => object> = {
  '/v1/chat/completions': (n) => ({ ...asked, messages, max_tokens: n }),
  '/v1/completions': (n) => ({ ...asked, prompt: 'x', max_tokens: n }),
  '/v1/responses': (n) => ({ ...asked, input: 'x', max_output_tokens: n }),
  '/v1/messages': (n) => ({ ...asked, messages, max_tokens: n }),
  '/completion': (n) => ({ ...asked, prompt: 'x', n_predict: n }),
};

describe.each(Object.keys(REQUESTS))('%s', (path) => {
  const handler = createHandler(model);
  it.each([false, true])('never writes half a character (stream: %s)', async (stream) => {
    for (const n of [2, 3, 4, 5]) {
      const body = JSON.stringify({ ...REQUESTS[path](n), stream });
      const headers = { 'content-type': 'application/json', 'anthropic-version': '2023-06-01' };
      const response = await handler(new Request(`http://server${path}`, { method: 'POST', headers, body }));
      const text = await response.text();
      expect([response.status, text.includes('a')], text).toEqual([200, true]);
      expect(text).not.toMatch(/\ufffd|\\ufffd/);
      if (n === 5 && !stream) expect(text).toContain('a🦙');
    }
  });
});

it("log probabilities give a token's bytes, and the whole characters of its text", async () => {
  const body = JSON.stringify({ ...asked, messages, max_tokens: 3, logprobs: true });
  const headers = { 'content-type': 'application/json' };
  const response = await createHandler(model)(new Request('http://server/v1/chat/completions', { method: 'POST', headers, body }));
  const { choices } = (await response.json()) as { choices: { logprobs: { content: { token: string; bytes: number[] }[] } }[] };
  // The third byte does not begin a character.
  expect(choices[0].logprobs.content.map(({ token, bytes }) => [token, bytes])).toEqual([
    ['a', [0x61]],
    ['', [0xf0]],
    ['\ufffd', [0x9f]],
  ]);
});

it('lists of ids that are cut have U+FFFD where bytes are missing, and tokenBytes() has those that are there', () => {
  const ids = model.tokenize('a🦙', { addSpecial: false });
  const bytes = ids.map((id) => [...model.tokenBytes(id)]);
  expect(Buffer.from(bytes.flat()).toString().trimStart()).toBe('a🦙');
  expect(model.detokenize(ids).trimStart()).toBe('a🦙');
  expect(model.detokenize(ids.slice(0, -1)).trimStart()).toBe('a\ufffd');
  const decoder = new TextDecoder();
  const streamed = ids.slice(0, -1).map((id) => decoder.decode(model.tokenBytes(id), { stream: true }));
  expect(streamed.join('').trimStart()).toBe('a');
});
