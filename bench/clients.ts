/**
 * Many sequences at once: tokens per second of 1 and of 8 clients that generate at the same time,
 * and the time until a chat's second turn answers.
 *
 * Usage:
 *
 *   node --import tsx bench/clients.ts [--model FILE] [--threads 1,2] [--clients 8] [--tokens 48]
 *     [--depth 64] [--rounds 5] [--history 512]
 *
 * One client and many alternate; ratios are medians over the rounds. Clients sample with the
 * defaults (temperature, top-k, top-p, min-p) from different prompts of `depth` tokens. They are
 * timed from the last client's first token to the first client's last one.
 */
import type * as Entry from '../src/entry/node.ts';
import { enableRelaxedSimd } from '../src/entry/node-platform.ts';
import type { Model } from '../src/model.ts';
import { benchModel, describeMachine, flags, machine, median, numbers, show, table, warnIfBusy } from './support.ts';

// The entry of dist/, because the workers of a build with threads are files there.
const { loadModel } = (await import(new URL('../dist/entry/node.js', import.meta.url).href)) as typeof Entry;

const here = machine();
const options = flags('many clients and second turns', {
  model: '',
  threads: [...new Set([1, Math.min(2, here.cores)])].join(),
  clients: '8',
  tokens: '48',
  depth: '64',
  rounds: '5',
  history: '512',
});
const tokens = Number(options.tokens);
const depth = Number(options.depth);
const rounds = Number(options.rounds);
const history = Number(options.history);
warnIfBusy(here);
enableRelaxedSimd();

const promptOf = (model: Model, client: number, n: number): number[] =>
  Array.from({ length: n }, (_, i) => (3 + client * 101 + i * 7) % model.internals.engine.hparams.nVocab);

/** Tokens per second of n clients together, while all of them generate. */
async function rate(model: Model, n: number): Promise<number> {
  let started = 0;
  let done = false;
  let counted = 0;
  let begin = 0;
  let end = 0;
  await Promise.all(
    Array.from({ length: n }, async (_, client) => {
      let mine = 0;
      for await (const { id } of model.generate(promptOf(model, client, depth), { maxTokens: 2 * tokens, ignoreEos: true, seed: client })) {
        if (id < 0) continue;
        if (mine++ === 0 && ++started === n) begin = performance.now();
        if (begin === 0 || done) continue;
        counted++;
        if (counted !== tokens * n) continue;
        end = performance.now();
        done = true;
      }
    }),
  );
  return ((counted - 1) / (end - begin)) * 1000;
}

/**
 * Milliseconds from the question to the first token of the answer, in the first and the second
 * turn.
 */
async function turns(model: Model, seed: number): Promise<[first: number, second: number]> {
  const firstToken = async (ids: readonly number[]): Promise<{ ms: number; said: number[] }> => {
    const start = performance.now();
    const said: number[] = [];
    let ms = 0;
    for await (const { id } of model.generate(ids, { maxTokens: 8, ignoreEos: true, seed })) {
      if (said.length === 0) ms = performance.now() - start;
      if (id >= 0) said.push(id);
    }
    return { ms, said };
  };
  const question = promptOf(model, 50 + seed, history);
  const { ms, said } = await firstToken(question);
  const next = await firstToken([...question, ...said, ...promptOf(model, 90 + seed, 12)]);
  return [ms, next.ms];
}

const rows: string[][] = [];
const path = options.model || (await benchModel());
for (const threads of numbers(options.threads)) {
  for (const clients of numbers(options.clients)) {
    const model = await loadModel(path, { threads, parallel: clients, contextLength: Math.max(history + 64, depth + 2 * tokens) });
    const one: number[] = [];
    const many: number[] = [];
    const ratios: number[] = [];
    const answers: [number, number][] = [];
    for (let round = -1; round < rounds; round++) {
      const a = await rate(model, 1);
      const b = await rate(model, clients);
      const t = await turns(model, round);
      if (round < 0) continue; // code and caches warm up
      one.push(a);
      many.push(b);
      ratios.push(b / a);
      answers.push(t);
    }
    await model.dispose();
    rows.push([
      `${threads}`,
      `${clients}`,
      show(median(one)),
      show(median(many)),
      show(median(ratios)),
      `${show(median(answers.map(([f]) => f)))} / ${show(median(answers.map(([, s]) => s)))}`,
      show(median(answers.map(([f, s]) => f / s))),
    ]);
  }
}
console.log(describeMachine(here));
console.log(
  table(
    ['threads', 'clients', 'tokens/s of one', 'of all', 'ratio', `first token, 1st / 2nd turn at ${history} tokens (ms)`, 'ratio'],
    rows,
  ),
);
