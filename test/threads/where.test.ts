/** What a step that does not end says of itself. */
import type { Build } from 'quantlet';
import { describe, expect, it } from 'vitest';
import { platform } from '../../src/entry/node-platform.ts';
import { CODE } from '../../src/graph/kernels.ts';
import { OP, OP_BARRIER, OP_SIZE, PLAN, PLAN_SIZE, SYNC_SIZE } from '../../src/graph/layout.ts';
import { createShared, type ThreadPool } from '../../src/threads/shared.ts';
import { whereAllStand } from '../../src/threads/where.ts';
import { createAllocator } from '../../src/wasm/allocator.ts';
import { ARENA_BASE, createMemory } from '../../src/wasm/memory.ts';

describe.each(['simd-threads', 'relaxed-threads'] as const)('%s', (build: Build) => {
  it('names the record that each thread has reached, and the one that never came', async () => {
    const arena = createAllocator(ARENA_BASE);
    const sync = arena.take(SYNC_SIZE);
    const plan = arena.take(PLAN_SIZE);
    const ops = arena.take(2 * OP_SIZE);
    const module = await platform.module(build);
    const memory = createMemory(arena.end, true);
    const words = new Int32Array(memory.buffer);
    // One record that does nothing (rows of an empty tensor), and one before which all threads meet.
    const empty = arena.take(256) / 4;
    words[plan / 4 + PLAN.nOps] = 2;
    words[plan / 4 + PLAN.ops] = ops;
    for (const record of [0, 1]) {
      const at = (ops + record * OP_SIZE) / 4;
      words[at + OP.code] = CODE.GET_ROWS;
      words[at + OP.flags] = record === 1 ? OP_BARRIER : 0;
      for (const operand of [OP.dst, OP.src, OP.src + 1]) words[at + operand] = 4 * empty;
    }
    const pool = platform.spawnThreads!(2).attach(module, memory);
    let come = (): void => {};
    const waiting = new Promise<void>((resolve) => (come = resolve));
    const held: ThreadPool = { ...pool, start: async (task) => (task.ith === 1 ? waiting.then(() => pool.start(task)) : pool.start(task)) };
    const executor = createShared(module, memory, sync, held, 2);
    try {
      expect(executor.where()).toMatch(/step 0 on 0 threads.*no thread serves/);
      const running = executor.run({ plan, nTokens: 1, nOutputs: 1, from: 0, to: 2 });
      await expect
        .poll(() => executor.where(), { timeout: 10_000 })
        .toMatch(
          /^step 1 on 2 threads, done 0 on 0 threads, records 0 to 2 .* 1 arrived.*thread 0 is at the barrier before record 1 \(GET_ROWS\).*threads serve/,
        );
      expect(whereAllStand()).toContain(executor.where());
      come();
      await running;
      expect(executor.where()).toMatch(/^step 1 on 2 threads, done 1 on 2 threads/);
    } finally {
      come();
      await executor.dispose();
    }
    expect(whereAllStand()).toEqual([]);
  });
});
