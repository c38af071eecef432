/**
 * `quantlet serve` with speculative decoding: the same answers, many at once, and its numbers for
 * clients and operators.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { runCli, shippedModel } from '../support.ts';
import { metric, startServer, type Served } from './server.ts';

const PASSAGE = 'Once upon a time there was a little girl named Lily. She liked to play in the park with her red ball.';
const prompts = ['', 'Tom and Mia went out. ', 'The big dog ran. ', 'One day it rained. '].map(
  (begin) => `${begin}${PASSAGE} ${PASSAGE.slice(0, 66)}`,
);
const asked = { n_predict: 48, temperature: 0 };

let server: Served;
beforeAll(async () => {
  const spec = ['--spec-type', 'ngram-simple,draft-simple', '--spec-ngram-simple-size-n', 4, '-md', shippedModel, '--spec-draft-n-max', 5];
  server = await startServer(['-m', shippedModel, '-np', 4, '-t', 2, ...spec]);
});
afterAll(async () => {
  server.kill('SIGTERM');
  await server.exit;
});

interface Completion {
  readonly content: string;
  readonly tokens_predicted: number;
  readonly timings: { readonly draft_n: number; readonly draft_n_accepted: number };
}
const complete = async (body: object): Promise<Response> =>
  fetch(`${server.url}/completion`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });

it('four answers at once are those of plain runs; timings and /metrics count the drafts', async () => {
  const answers = await Promise.all(prompts.map(async (prompt) => (await complete({ prompt, ...asked })).json() as Promise<Completion>));
  for (const [i, prompt] of prompts.entries()) {
    const { text } = JSON.parse((await runCli(['run', '-p', prompt, '-n', asked.n_predict, '--temp', 0, '--json', '-t', 2])).stdout) as {
      text: string;
    };
    expect(answers[i].content, prompt).toBe(text);
    const { draft_n: drafted, draft_n_accepted: accepted } = answers[i].timings;
    expect([drafted > 0, accepted >= 0 && accepted <= drafted && accepted <= answers[i].tokens_predicted]).toEqual([true, true]);
  }
  const sum = (name: 'draft_n' | 'draft_n_accepted'): number => answers.reduce((n, { timings }) => n + timings[name], 0);
  expect(await metric(server.url, 'llamacpp:spec_decode_num_draft_tokens_total')).toBe(sum('draft_n'));
  expect(await metric(server.url, 'llamacpp:spec_decode_num_accepted_tokens_total')).toBe(sum('draft_n_accepted'));
  expect(await metric(server.url, 'llamacpp:spec_decode_num_drafts_total')).toBeGreaterThan(0);
});

it('a stream ends with the same timings, and its text is that of the whole answer', async () => {
  const whole = (await (await complete({ prompt: prompts[0], ...asked })).json()) as Completion;
  const events = (await (await complete({ prompt: prompts[0], ...asked, stream: true })).text())
    .split('\n\n')
    .filter((event) => event.startsWith('data: {'))
    .map((event) => JSON.parse(event.slice(6)) as Completion);
  expect(events.map(({ content }) => content).join('')).toBe(whole.content);
  expect(events.at(-1)!.timings.draft_n).toBeGreaterThan(0);
});
