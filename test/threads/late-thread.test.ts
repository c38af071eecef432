/**
 * A thread delayed by a busy machine: the step waits for it, whatever the other threads do
 * meanwhile, and nothing waits forever.
 */
import type { Build } from 'quantlet';
import { describe, expect, it } from 'vitest';
import { platform } from '../../src/entry/node-platform.ts';
import { SYNC_SIZE } from '../../src/graph/layout.ts';
import { PLAN_SIZE } from '../../src/graph/structures.ts';
import { computeWith } from '../../src/threads/serve.ts';
import type { ThreadPool } from '../../src/threads/pool.ts';
import { createShared } from '../../src/threads/shared.ts';
import { IDLE_MS } from '../../src/threads/step-signals.ts';
import type { Executor } from '../../src/threads/executor.ts';
import { createAllocator } from '../../src/wasm/allocator.ts';
import { ARENA_BASE, createMemory } from '../../src/wasm/memory.ts';

/** Longer than idle threads wait for work before they end. */
const LATE_MS = 2.5 * IDLE_MS;
const late = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, LATE_MS));

/** An executor of `nth` threads over an empty plan; thread `slow` begins late. */
async function withSlow(
  build: Build,
  nth: number,
  slow: number,
  use: (executor: Executor, step: (threads: number) => Promise<void>) => Promise<void>,
): Promise<void> {
  const arena = createAllocator(ARENA_BASE);
  arena.take(SYNC_SIZE);
  const plan = arena.take(PLAN_SIZE);
  const module = await platform.module(build);
  const memory = createMemory(arena.end, true);
  const compute = computeWith(module, memory);
  const pool = platform.spawnThreads!(nth).attach(compute);
  const held: ThreadPool = { ...pool, start: async (task) => (task.ith === slow ? late().then(() => pool.start(task)) : pool.start(task)) };
  const executor = createShared(compute, held, nth);
  try {
    await use(executor, (threads) => executor.run({ passes: [{ plan, from: 0, to: 0 }], nTokens: 1, nOutputs: 1, threads }));
  } finally {
    await executor.dispose();
  }
}

// Concurrent, since these tests mostly wait.
describe.concurrent.each(['simd-threads', 'relaxed-threads'] as const)('%s', (build) => {
  it.each([
    [2, 1, 0],
    [3, 2, 0],
    [3, 2, 1],
    [3, 3, 2],
  ])('%i threads, %i in the step, thread %i late: threads without work do not end', (nth, threads, slow) =>
    withSlow(build, nth, slow, async (_, step) => {
      const start = performance.now();
      await step(threads);
      expect(performance.now() - start).toBeGreaterThan(LATE_MS - IDLE_MS);
      await step(nth);
    }),
  );

  it('a pause in the middle of a step changes nothing', () =>
    withSlow(build, 2, 1, async (executor, step) => {
      const running = step(2);
      executor.rest();
      await running;
      await step(1);
    }));
});
