/**
 * A worker that dies: the caller gets ERR_WORKER_LOST within a second, the process lives, and the
 * next generation gives the usual output.
 */
import diagnostics from 'node:diagnostics_channel';
import type { Worker } from 'node:worker_threads';
import { loadModel, type Build, type Model } from 'quantlet';
import { afterAll, describe, expect, it } from 'vitest';
import { failure, patchedLlama, randomIds } from '../support.ts';

/** The pool does not expose its workers, but Node announces every worker it starts. */
const workers: Worker[] = [];
const collect = (message: unknown): void => {
  const { worker } = message as { worker: Worker };
  workers.push(worker);
  worker.once('exit', () => workers.splice(workers.indexOf(worker), 1));
};
diagnostics.subscribe('worker_threads', collect);
afterAll(() => diagnostics.unsubscribe('worker_threads', collect));

const LIMIT_MS = 1000;
const prompt = randomIds(700, 272, 3);
const options = { temperature: 0, maxTokens: 12, ignoreEos: true } as const;

async function withModel(
  build: Build,
  threads: number,
  use: (model: Model, ids: () => Promise<readonly number[]>) => Promise<void>,
): Promise<void> {
  const model = await loadModel(await patchedLlama({ metadata: { 'llama.context_length': 1024 } }), { build, threads, warmUp: false });
  try {
    await use(model, async () => (await model.generate(prompt, options).result()).ids);
  } finally {
    await model.dispose();
  }
}

/**
 * Starts computing the prompt of 700 tokens again. Resolves when its first step is on the threads.
 */
async function begin(model: Model, ids: () => Promise<unknown>): Promise<{ running: ReturnType<typeof failure> }> {
  const posted = (): string => /posted step (\d+)/.exec(model.internals.engine.executor.where())![1];
  // evaluate the whole prompt again, without its cached part
  model.internals.slots.all[0].truncate(0);
  const before = posted();
  const running = failure(ids());
  while (posted() === before) await new Promise((resolve) => setImmediate(resolve));
  return { running };
}

/** Kills workers `ms` after a step has begun. Either they are lost, or the step ends first. */
async function killWhile(
  model: Model,
  ids: () => Promise<unknown>,
  which: readonly number[],
  ms: number,
): Promise<{ code: string; tookMs: number }> {
  const { running } = await begin(model, ids);
  if (ms > 0) await new Promise((resolve) => setTimeout(resolve, ms));
  const start = performance.now();
  await Promise.all(which.map((i) => workers[i].terminate()));
  const { code } = await running;
  return { code, tookMs: performance.now() - start };
}

describe.each(['simd-threads', 'relaxed-threads'] as const)('%s', (build) => {
  it.each([1, 2, 3])('%i threads: any worker, at any moment of a step', (threads) =>
    withModel(build, threads, async (model, ids) => {
      const want = await ids();
      const codes: string[] = [];
      for (let round = 0; round < 6; round++) {
        const { code, tookMs } = await killWhile(model, ids, [round % threads], round * 2);
        codes.push(code);
        expect(['ERR_WORKER_LOST', 'none'], `round ${round}`).toContain(code);
        expect(tookMs, `round ${round}: ms from the kill to the answer`).toBeLessThan(LIMIT_MS);
        model.internals.slots.all[0].truncate(0);
        expect(await ids(), `round ${round}: the generation after it`).toEqual(want);
      }
      expect(codes, 'no blow fell into a step').toContain('ERR_WORKER_LOST');
    }),
  );

  it('all workers at once', () =>
    withModel(build, 2, async (model, ids) => {
      const want = await ids();
      let code = 'none';
      // A step of 512 tokens has just begun. It only ends before a worker does if the machine
      // delays this process.
      for (let round = 0; round < 50 && code === 'none'; round++) {
        expect(workers).toHaveLength(2);
        ({ code } = await killWhile(model, ids, [0, 1], 0));
      }
      expect(code, 'no blow fell into a step').toBe('ERR_WORKER_LOST');
      expect(await ids()).toEqual(want);
    }));

  it('between two tokens', () =>
    withModel(build, 2, async (model, ids) => {
      const want = await ids();
      const parts = model.generate(prompt, options)[Symbol.asyncIterator]();
      const got = [(await parts.next()).value!.id, (await parts.next()).value!.id];
      // the threads wait for a step that the consumer has not asked for
      await workers[0].terminate();
      const rest = failure(async () => {
        for (let p = await parts.next(); !p.done; p = await parts.next()) got.push(p.value.id);
      });
      const { code } = await rest;
      expect(['ERR_WORKER_LOST', 'none']).toContain(code);
      expect(got).toEqual(code === 'none' ? want : want.slice(0, got.length));
      expect(await ids()).toEqual(want);
    }));

  it('a second one before the first is replaced: waiting requests get the error, and new workers start', () =>
    withModel(build, 2, async (model, ids) => {
      const want = await ids();
      const lost: string[] = [];
      for (let round = 0; round < 8; round++) {
        const { running } = await begin(model, ids);
        await workers[0].terminate();
        await new Promise((resolve) => setTimeout(resolve, round * 3));
        const next = failure(running.then(ids));
        void workers.at(-1)!.terminate(); // the replacement, mostly before it is ready
        const codes = [(await running).code, (await next).code];
        lost.push(...codes);
        for (const code of codes) expect(['ERR_WORKER_LOST', 'none'], `round ${round}`).toContain(code);
        expect(await ids().catch(ids), `round ${round}: the generation after it`).toEqual(want);
      }
      expect(lost, 'no blow fell into a step').toContain('ERR_WORKER_LOST');
    }));

  it('while nothing runs: no error', () =>
    withModel(build, 2, async (model, ids) => {
      const want = await ids();
      model.internals.engine.executor.rest();
      await new Promise((resolve) => setTimeout(resolve, 50));
      await workers[0].terminate();
      expect(await ids()).toEqual(want);
    }));
});
