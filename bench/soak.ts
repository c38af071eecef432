/**
 * A search for hangs and leaks: several models in one process, each with another number of threads,
 * used at random while other threads keep cores busy. Pauses are close to the quarter of a second
 * after which idle threads end. Generations are aborted, models disposed of and loaded again.
 *
 * Usage:
 *
 *   node --import tsx bench/soak.ts [--minutes 5] [--models 3] [--threads 4] [--busy 2] [--seed S]
 *     [--build simd-threads] [--model FILE] [--tokens N]
 *
 * Ends after --minutes, or with --tokens after that number of tokens. Every generation must have
 * the ids of the first one with its prompt, whatever was aborted before it. If something takes
 * longer than --limit seconds, the run ends and reports where every thread stood. It prints a line
 * per minute, with memory after garbage collection.
 */
import { readFileSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Worker } from 'node:worker_threads';
import type * as Entry from '../src/entry/node.ts';
import type { Model } from '../src/model.ts';
import { IDLE_MS } from '../src/threads/step-signals.ts';
import { inTime } from '../src/threads/where.ts';
import { isThreaded, type Build } from '../src/wasm/load.ts';
import { describeMachine, flags, machine, root } from './support.ts';

const options = flags('a hunt for hangs', {
  minutes: '5',
  tokens: '',
  models: '3',
  threads: '4',
  busy: '2',
  limit: '120',
  seed: String(Date.now() % 2 ** 31),
  build: '',
  model: `${root}models/tiny-stories-q4_0.gguf`,
});
const { loadModel } = (await import(new URL('../dist/entry/node.js', import.meta.url).href)) as typeof Entry;
const build = options.build as Build | '';
const limitMs = 1000 * Number(options.limit);
const mostTokens = options.tokens === '' ? Infinity : Number(options.tokens);

let state = Number(options.seed) >>> 0;
const next = (): number => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
const below = (n: number): number => Math.floor(next() * n);
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;
const rssMiB = (): number => {
  collect();
  return process.memoryUsage.rss() / 2 ** 20;
};

/** A worker that alternately keeps a core busy and idles for some milliseconds. */
const BUSY = `
const { workerData: seed } = require('node:worker_threads');
let state = seed;
const next = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
(function work() {
  for (const end = performance.now() + next() * 400; performance.now() < end;);
  setTimeout(work, next() * 400);
})();`;
const busy = Array.from({ length: Number(options.busy) }, (_, i) => {
  const worker = new Worker(BUSY, { eval: true, workerData: Number(options.seed) + i });
  worker.unref();
  return worker;
});

const PROMPTS = ['Once upon a time', 'The dog', 'Lily and Tom went to the park to play with', 'One day', 'a'];
/**
 * Ids by prompt and length, from the first generation of each. They are the same for every model
 * and number of threads.
 */
const known = new Map<string, string>();
const counts = { generations: 0, tokens: 0, aborts: 0, loads: 0 };

const bytes = new Uint8Array(readFileSync(options.model));
const load = async (threads: number): Promise<Model> => {
  counts.loads++;
  return inTime(
    limitMs,
    `loading with ${threads} threads`,
    loadModel(bytes, { threads, warmUp: next() < 0.2, parallel: 2, contextLength: 256, ...(build ? { build } : {}) }),
  );
};

async function generate(model: Model): Promise<void> {
  const prompt = PROMPTS[below(PROMPTS.length)];
  const maxTokens = 1 + below(40);
  const aborting = next() < 0.25 ? new AbortController() : undefined;
  const generation = model.generate(prompt, {
    temperature: 0,
    maxTokens,
    ignoreEos: true,
    ...(aborting ? { signal: aborting.signal } : {}),
  });
  if (aborting) {
    void pause(next() * 15).then(() => aborting.abort());
    counts.aborts++;
  }
  const result = await inTime(
    limitMs,
    `${maxTokens} tokens after "${prompt}" on ${model.threads} threads${aborting ? ', aborted' : ''}`,
    generation.result().catch((error: unknown) => {
      if (aborting?.signal.aborted) return undefined;
      throw error;
    }),
  );
  if (!result) return;
  counts.generations++;
  counts.tokens += result.ids.length;
  const key = `${maxTokens} ${prompt}`;
  const got = result.ids.join(' ');
  const want = known.get(key) ?? got;
  if (got !== want) throw new Error(`"${prompt}" gave ${got} on ${model.threads} threads, before ${want}`);
  known.set(key, want);
}

console.log(`${describeMachine(machine())}; seed ${options.seed}`);
const end = Date.now() + 60_000 * Number(options.minutes);
const models: Model[] = [];
let told = Date.now();
let first = 0;
const tell = (): void => {
  const rss = rssMiB();
  first ||= rss;
  told = Date.now();
  console.log(
    `${new Date().toISOString().slice(11, 19)} ${counts.tokens} tokens in ${counts.generations} generations, ${counts.aborts} aborted, ${counts.loads} loads; RSS ${rss.toFixed(0)} MiB (${first.toFixed(0)} after the first minute)`,
  );
};

/** One user: takes a model, uses it, waits, each for a random time. */
async function user(slot: number): Promise<void> {
  let model = await load(1 + below(Number(options.threads)));
  models[slot] = model;
  if (!isThreaded(model.build)) throw new Error(`the build ${model.build} has no threads: nothing to hunt for`);
  while (Date.now() < end && counts.tokens < mostTokens) {
    const both = next() < 0.3;
    await Promise.all(both ? [generate(model), generate(model)] : [generate(model)]);
    const kind = next();
    // Close to the moment at which idle threads end, within milliseconds and less.
    if (kind < 0.3) await pause(IDLE_MS - 5 + next() * 10);
    else if (kind < 0.4) await pause(next() * 2 * IDLE_MS);
    else if (kind < 0.42) {
      await inTime(limitMs, 'dispose()', model.dispose());
      models[slot] = model = await load(1 + below(Number(options.threads)));
    }
    if (Date.now() - told > 60_000) tell();
  }
}

try {
  await Promise.all(Array.from({ length: Number(options.models) }, (_, slot) => user(slot)));
  tell();
  console.log('no hang, the same ids throughout');
} catch (error) {
  tell();
  console.error(error);
  process.exitCode = 1;
} finally {
  await Promise.race([Promise.all(models.map((model) => model.dispose())), pause(10_000)]);
  for (const worker of busy) await worker.terminate();
  process.exit();
}
