/**
 * A million lines on 1 to 1000 workers: measures the work of one worker here, and simulates many
 * workers with failures.
 *
 * Usage:
 *
 *   node --import tsx bench/batch.ts [--model FILE] [--threads N] [--lines 1000000]
 *     [--prompt 200] [--answer 50] [--mtbf 24] [--restart 30] [--redis 10000] [--write true]
 *
 * Measured: the time of a step for 1 to 16 sequences, the speed of a prompt, and the time to load.
 *
 * Simulated: workers that answer `parallel` lines at once. A line takes as long as its answer,
 * whose length is exponentially distributed around --answer, at most 4 times it. Workers fail after
 * a time that is exponentially distributed around --mtbf hours. A failed worker is back after
 * --restart seconds and the time to load. Its lines begin again: in a queue on another worker after
 * 30 to 60 s, in a shard on the same one. A queue hands out at most --redis jobs per second, which
 * examples/bullmq/rate.mjs measures.
 */
import type * as Entry from '../src/entry/node.ts';
import { enableRelaxedSimd } from '../src/entry/node-platform.ts';
import type { Model } from '../src/model.ts';
import { benchModel, describeMachine, flags, machine, machineName, median, show, table, warnIfBusy, writeResult } from './support.ts';

const { loadModel } = (await import(new URL('../dist/entry/node.js', import.meta.url).href)) as typeof Entry;
const here = machine();
const options = flags('a million lines', {
  model: '',
  threads: String(here.cores),
  lines: '1000000',
  prompt: '200',
  answer: '50',
  mtbf: '24',
  restart: '30',
  redis: '10000',
  write: '',
});
const [threads, lines, prompt, answer, restart, redis] = (['threads', 'lines', 'prompt', 'answer', 'restart', 'redis'] as const).map(
  (key) => Number(options[key]),
);
const mtbf = Number(options.mtbf) * 3600;
warnIfBusy(here);
enableRelaxedSimd();

/** Reproducible random numbers (mulberry32). */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

const idsOf = (model: Model, client: number, n: number): number[] =>
  Array.from({ length: n }, (_, i) => (3 + client * 101 + i * 7) % model.internals.engine.hparams.nVocab);

interface Measured {
  readonly loadSeconds: number;
  readonly promptTokensPerSecond: number;
  /** Seconds of a step of n sequences, by n. */
  readonly step: ReadonlyMap<number, number>;
}

async function measure(file: string): Promise<Measured> {
  const counts = [1, 2, 4, 8, 16];
  const before = performance.now();
  const model = await loadModel(file, { threads, parallel: 16, contextLength: prompt + 8 * answer });
  const loadSeconds = (performance.now() - before) / 1000;
  const run = (n: number, tokens: number, length: number, salt: number): Promise<unknown> =>
    Promise.all(
      Array.from({ length: n }, (_, client) =>
        model.generate(idsOf(model, client + 17 * salt, length), { maxTokens: tokens, ignoreEos: true, temperature: 0 }).result(),
      ),
    );
  const time = async (work: () => Promise<unknown>): Promise<number> => {
    const start = performance.now();
    await work();
    return (performance.now() - start) / 1000;
  };
  await run(2, 16, 32, 0);
  const middle = async (work: () => Promise<unknown>): Promise<number> => median([await time(work), await time(work), await time(work)]);
  let salt = 0; // makes each prompt a new one, so that none is in the cache
  const promptTokensPerSecond = prompt / (await middle(() => run(1, 1, prompt, ++salt)));
  const step = new Map<number, number>();
  for (const n of counts) {
    const tokens = 32;
    const short = await middle(() => run(n, 2, 4, ++salt));
    step.set(n, Math.max(1e-6, (await middle(() => run(n, 2 + tokens, 4, ++salt))) - short) / tokens);
  }
  await model.dispose();
  return { loadSeconds, promptTokensPerSecond, step };
}

interface Outcome {
  readonly hours: number;
  readonly failures: number;
  /** Fraction of the workers' time spent on lines that were completed. */
  readonly useful: number;
}

/** A heap of [time, value] with the smallest time first. */
function createHeap<T>(): { push(at: number, value: T): void; pop(): [number, T] | undefined } {
  const items: [number, T][] = [];
  const swap = (a: number, b: number): void => void ([items[a], items[b]] = [items[b], items[a]]);
  return {
    push(at, value) {
      let i = items.push([at, value]) - 1;
      for (let up = (i - 1) >> 1; i > 0 && items[up][0] > items[i][0]; i = up, up = (i - 1) >> 1) swap(i, up);
    },
    pop() {
      const [top] = items;
      const last = items.pop();
      if (items.length === 0 || !last) return top;
      items[0] = last;
      for (let i = 0; ;) {
        let least = i;
        for (const child of [2 * i + 1, 2 * i + 2]) if (child < items.length && items[child][0] < items[least][0]) least = child;
        if (least === i) return top;
        swap(i, least);
        i = least;
      }
    },
  };
}

/** @param share if each worker has its own part of the lines; otherwise all take from one queue */
function simulate(workers: number, parallel: number, share: boolean, { loadSeconds, promptTokensPerSecond, step }: Measured): Outcome {
  const random = randomNumbers(workers * 31 + parallel + (share ? 7 : 0));
  const exponential = (mean: number): number => -mean * Math.log(1 - random());
  // The steps of the other lines wait while a prompt is computed, so its time counts for all of
  // them.
  const seconds = (): number =>
    (parallel * prompt) / promptTokensPerSecond + Math.min(4 * answer, Math.max(1, exponential(answer))) * step.get(parallel)!;
  const left = Array.from({ length: share ? workers : 1 }, (_, i) =>
    share ? Math.floor((lines * (i + 1)) / workers) - Math.floor((lines * i) / workers) : lines,
  );
  const fails = Array.from({ length: workers }, () => exponential(mtbf));
  const events = createHeap<{ readonly worker: number; readonly life: number; readonly took: number }>();
  const lives = new Array<number>(workers).fill(0);
  const busy = new Array<number>(workers).fill(0);
  const down = new Array<boolean>(workers).fill(false);
  let [failures, useful, end, given] = [0, 0, 0, 0];
  const begin = (worker: number, now: number): void => {
    const pool = share ? worker : 0;
    if (left[pool] === 0) return;
    left[pool]--;
    busy[worker]++;
    // Redis hands out a limited number of jobs per second in total.
    const at = share ? now : (given = Math.max(now, given + 1 / redis));
    const took = seconds();
    events.push(at + took, { worker, life: lives[worker], took });
  };
  const all = (worker: number, now: number): void => {
    while (busy[worker] < parallel && left[share ? worker : 0] > 0) begin(worker, now);
  };
  for (let worker = 0; worker < workers; worker++) all(worker, loadSeconds);
  for (let event = events.pop(); event; event = events.pop()) {
    const [now, { worker, life, took }] = event;
    if (life === -1) {
      // A worker is back, or the jobs of a lost one are handed out again.
      if (took === 0) down[worker] = false;
      else left[0] += took;
      for (let w = 0; w < workers && !share && took > 0; w++) if (!down[w]) all(w, now);
      if (took === 0) all(worker, now);
      continue;
    }
    if (life !== lives[worker]) continue;
    if (now > fails[worker]) {
      failures++;
      const at = fails[worker];
      lives[worker]++;
      fails[worker] = at + restart + loadSeconds + exponential(mtbf);
      if (share) left[worker] += busy[worker];
      else events.push(Math.max(now, at + 30 + 30 * random()), { worker, life: -1, took: busy[worker] });
      busy[worker] = 0;
      down[worker] = true;
      events.push(Math.max(now, at + restart + loadSeconds), { worker, life: -1, took: 0 });
      continue;
    }
    busy[worker]--;
    useful += took / parallel;
    end = Math.max(end, now);
    begin(worker, now);
  }
  return { hours: end / 3600, failures, useful: useful / (workers * end) };
}

const file = options.model || (await benchModel());
const measured = await measure(file);
const { loadSeconds, promptTokensPerSecond, step } = measured;
const out: string[] = [
  `# A million lines\n\n${describeMachine(here)}\n`,
  `Measured: ${options.model || 'the bench model (190 million parameters, q4_0)'}, ${threads} threads; loads in ${loadSeconds.toFixed(2)} s, prompts at ${show(promptTokensPerSecond)} tokens/s. A step:\n`,
  table(
    ['sequences', 'ms', 'tokens/s', `lines/hour (${prompt} + ${answer} tokens)`],
    [...step].map(([n, s]) => [
      String(n),
      show(1000 * s),
      show(n / s),
      ((3600 * n) / ((n * prompt) / promptTokensPerSecond + answer * s)).toFixed(0),
    ]),
  ),
  `\nSimulated: ${lines} lines of ${prompt} + ${answer} tokens, 4 at once, a failure every ${options.mtbf} h of each worker, ${restart} s and loading until it is back; a queue of ${redis} jobs/s at most.\n`,
  table(
    ['workers', 'hours, queue', 'hours, shards', 'failures', 'useful time, queue', 'useful time, shards'],
    [1, 3, 10, 30, 100, 300, 1000].map((workers) => {
      const [queue, shards] = [simulate(workers, 4, false, measured), simulate(workers, 4, true, measured)];
      return [
        String(workers),
        show(queue.hours),
        show(shards.hours),
        String(queue.failures),
        `${(100 * queue.useful).toFixed(1)} %`,
        `${(100 * shards.useful).toFixed(1)} %`,
      ];
    }),
  ),
];
console.log(out.join('\n'));
if (options.write) console.log(writeResult(`batch-${machineName(here)}-node${Number.parseInt(here.node)}.md`, `${out.join('\n')}\n`));
