/**
 * Steps that end only when a test says so: thread 1 of two comes late or never, and thread 0 waits
 * for it at a barrier.
 */
import { platform } from '../../src/entry/node-platform.ts';
import { CODE } from '../../src/graph/kernels.ts';
import { OP_BARRIER, SYNC_SIZE } from '../../src/graph/layout.ts';
import { OP, OP_SIZE, PLAN, PLAN_SIZE } from '../../src/graph/structures.ts';
import type { Executor, Pass } from '../../src/threads/executor.ts';
import { computeWith } from '../../src/threads/serve.ts';
import type { ThreadPool } from '../../src/threads/pool.ts';
import { createShared } from '../../src/threads/shared.ts';
import { createAllocator } from '../../src/wasm/allocator.ts';
import type { Build } from '../../src/wasm/load.ts';
import { ARENA_BASE, createMemory, MEMORY_SPACE } from '../../src/wasm/memory.ts';

export interface Held {
  readonly executor: Executor;
  /**
   * For each memory, a plan of two records that do nothing (rows of an empty tensor), with a
   * barrier before the second.
   */
  readonly passes: readonly Pass[];
  /** Lets thread 1 run, now and whenever it is started again. */
  come(): void;
  /** Ends thread 1 before it has run. It runs when it is started again. */
  lose(): void;
}

export async function heldThread(build: Build, memories: number, use: (held: Held) => Promise<void>): Promise<void> {
  const arena = createAllocator(ARENA_BASE);
  arena.take(SYNC_SIZE);
  const plan = arena.take(PLAN_SIZE);
  const ops = arena.take(2 * OP_SIZE);
  const empty = arena.take(256);
  const module = await platform.module(build);
  const made = Array.from({ length: memories }, () => createMemory(arena.end, true));
  const passes = made.map((memory, i) => {
    const words = new Int32Array(memory.buffer);
    words[plan / 4 + PLAN.n_ops] = 2;
    words[plan / 4 + PLAN.ops] = ops;
    for (const record of [0, 1]) {
      const at = (ops + record * OP_SIZE) / 4;
      words[at + OP.code] = CODE.GET_ROWS;
      words[at + OP.flags] = record === 1 ? OP_BARRIER : 0;
      for (const operand of [OP.dst, OP.src, OP.src + 1]) words[at + operand] = empty;
    }
    return { plan: i * MEMORY_SPACE + plan, from: 0, to: 2 };
  });
  const compute = computeWith(module, ...made);
  const pool = platform.spawnThreads!(2).attach(compute);
  let come = (): void => {};
  let lose = (_: Error): void => {};
  let held: Promise<void> | undefined = new Promise((resolve, reject) => ([come, lose] = [resolve, reject]));
  const late: ThreadPool = {
    ...pool,
    start: async (task) => (task.ith === 1 && held ? held.then(() => pool.start(task)) : pool.start(task)),
  };
  const executor = createShared(compute, late, 2);
  const end = (how: () => void): void => {
    held = undefined;
    how();
  };
  try {
    await use({ executor, passes, come: () => end(come), lose: () => end(() => lose(new Error('killed'))) });
  } finally {
    end(come);
    await executor.dispose();
  }
}
