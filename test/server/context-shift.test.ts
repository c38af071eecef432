/**
 * `quantlet serve --context-shift`: answers longer than the context equal those of the model alone,
 * even if several run at once.
 */
import { afterAll, expect, it } from 'vitest';
import { loadModel } from 'quantlet';
import { createHandler } from '../../src/server/handler.ts';
import type { HandlerOptions } from '../../src/server/options.ts';
import { shippedModel } from '../support.ts';

const CONTEXT = 64;
const CHAT = '{% for m in messages %}{{ m.content }}{% endfor %}';
const model = await loadModel(shippedModel, { threads: 2, contextLength: CONTEXT, parallel: 4, chatTemplate: CHAT });
afterAll(() => model.dispose());

const server = (options: HandlerOptions = {}): ((path: string, body: object) => Promise<Response>) => {
  const handler = createHandler(model, { defaults: { temperature: 0, ignoreEos: true }, ...options });
  return (path, body) =>
    handler(
      new Request(`http://server${path}`, { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    );
};
const shifting = server({ contextShift: { keep: 0 } });
const ending = server();

type Json = ReturnType<typeof JSON.parse>;
const json = async (answer: Promise<Response>): Promise<Json> => (await answer).json();
const story = 'Once upon a time there was a little girl named Lily. She liked to play';
/** The model's answer without a server. */
const alone = async (prompt: string, n: number, keep: number): Promise<string> =>
  (await model.generate(prompt, { temperature: 0, ignoreEos: true, maxTokens: n, onContextFull: 'shift', keep }).result()).text;

it('on every endpoint, at once, streamed too; what the prompt keeps is asked for by n_keep', async () => {
  const messages = [{ role: 'user', content: story }];
  const n = 150;
  const [native, kept, completion, chat, anthropic, responses, short, streamed] = await Promise.all([
    json(shifting('/completion', { prompt: story, n_predict: n })),
    json(shifting('/completion', { prompt: story, n_predict: n, n_keep: -1 })),
    json(shifting('/v1/completions', { prompt: story, max_tokens: n, n_keep: 5 })),
    json(shifting('/v1/chat/completions', { messages, max_tokens: n })),
    json(shifting('/v1/messages', { model: 'any', messages, max_tokens: n })),
    json(shifting('/v1/responses', { input: story, max_output_tokens: n })),
    json(shifting('/completion', { prompt: 'The dog', n_predict: 20 })),
    shifting('/v1/chat/completions', { messages, max_tokens: n, stream: true }).then((response) => response.text()),
  ]);
  const [all, with5, whole] = await Promise.all([alone(story, n, 0), alone(story, n, 5), alone(story, n, -1)]);
  expect(new Set([all, with5, whole]).size, 'what is kept makes a difference').toBe(3);
  expect(native).toMatchObject({ content: all, truncated: true, stop_type: 'limit', tokens_predicted: n, tokens_cached: CONTEXT });
  expect(kept).toMatchObject({ content: whole, truncated: true });
  expect(completion.choices[0]).toMatchObject({ text: with5, finish_reason: 'length' });
  expect(chat).toMatchObject({ choices: [{ message: { content: all }, finish_reason: 'length' }], usage: { completion_tokens: n } });
  expect(anthropic).toMatchObject({ content: [{ text: all }], stop_reason: 'max_tokens' });
  expect(responses.output[0].content[0].text).toBe(all);
  expect(short).toMatchObject({ content: await alone('The dog', 20, 0), truncated: false });
  const deltas = streamed
    .split('\n\n')
    .filter((line) => line.startsWith('data: {'))
    .map((line) => (JSON.parse(line.slice(6)) as Json).choices[0].delta.content ?? '');
  expect(deltas.join('')).toBe(all);
});

it('without it an answer ends where the context is full, whatever n_keep says; a prompt that is too long is refused either way', async () => {
  const { content, tokens_evaluated, tokens_predicted, truncated } = await json(
    ending('/completion', { prompt: story, n_predict: 150, n_keep: 5 }),
  );
  expect([tokens_evaluated + tokens_predicted, truncated]).toEqual([CONTEXT, false]);
  expect(await alone(story, 150, 0)).toMatch(content);
  const long = `${story}. `.repeat(5);
  for (const ask of [shifting, ending])
    for (const [path, body] of [
      ['/completion', { prompt: long }],
      ['/v1/chat/completions', { messages: [{ role: 'user', content: long }] }],
    ] as const)
      expect((await ask(path, body)).status, path).toBe(400);
  expect((await shifting('/completion', { prompt: 'a', n_keep: -2 })).status).toBe(400);
});

it('without a limit an answer goes on until its client has gone', async () => {
  const response = await shifting('/completion', { prompt: story, stream: true });
  const reader = response.body!.getReader();
  let events = 0;
  while (events < 2 * CONTEXT) events += new TextDecoder().decode((await reader.read()).value).split('\n\n').length - 1;
  await reader.cancel();
  expect((await json(shifting('/completion', { prompt: 'The dog', n_predict: 8 }))).tokens_predicted).toBe(8);
});

it('a conversation that does not fit: refused, or without its oldest turns, which the answer says', async () => {
  const messages = [
    { role: 'system', content: 'Kind.' },
    ...Array.from({ length: 6 }, (_, i) => [
      { role: 'user', content: `${story} ${i}.` },
      { role: 'assistant', content: `Yes ${i}.` },
    ]).flat(),
    { role: 'user', content: 'The end?' },
  ];
  const quantlet = { on_context_full: 'shift' };
  const { leftOut } = await model.chat(messages as never, { maxTokens: 4, onContextFull: 'shift' }).result();
  expect(leftOut).toBeGreaterThan(0);
  const bodies = [
    ['/v1/chat/completions', { messages, max_tokens: 4 }],
    ['/v1/messages', { messages: messages.slice(1), system: 'Kind.', max_tokens: 4 }],
    ['/v1/responses', { input: messages, max_output_tokens: 4 }],
  ] as const;
  for (const [path, body] of bodies) {
    expect([path, (await ending(path, body)).status]).toEqual([path, 400]);
    const whole = await json(ending(path, { ...body, quantlet }));
    expect(whole.quantlet, path).toEqual({ left_out: leftOut });
    const streamed = await (await ending(path, { ...body, quantlet, stream: true })).text();
    expect(streamed.split('\n\n')[0], path).toContain(`"quantlet":{"left_out":${leftOut}}`);
    expect((await json(ending(path, { ...body, quantlet: { on_context_full: 'sometimes' } }))).error.param).toBe(
      'quantlet.on_context_full',
    );
    expect((await json(ending(path, { ...body, quantlet: { on_context_fool: 'shift' } }))).error.param).toBe('quantlet.on_context_fool');
  }
  const short = await json(ending('/v1/chat/completions', { messages: messages.slice(-1), max_tokens: 4, quantlet }));
  expect(short).not.toHaveProperty('quantlet');
});

it('one token takes no time of its own: no speed is made of it', async () => {
  const { timings } = await json(ending('/completion', { prompt: story, n_predict: 1 }));
  expect(timings).toMatchObject({ predicted_n: 1, predicted_per_second: 0, predicted_per_token_ms: 0 });
});
