/**
 * Steps through several memories (memory links): a thread that waits in any of them is woken by
 * whatever ends the step.
 */
import { describe, expect, it } from 'vitest';
import type { Carry } from '../../src/threads/executor.ts';
import { ARENA_BASE, MEMORY_SPACE } from '../../src/wasm/memory.ts';
import { SYNC_SIZE } from '../../src/graph/layout.ts';
import { failure } from '../support.ts';
import { heldThread, type Held } from './held-thread.ts';

const MEMORIES = 3;

/** Begins a step of one pass in this memory, and waits until thread 0 sleeps there. */
async function begin(
  { executor, passes }: Held,
  memory: number,
  signal?: AbortSignal,
): Promise<{ readonly running: ReturnType<typeof failure> }> {
  const running = failure(executor.run({ passes: [passes[memory]], nTokens: 1, nOutputs: 1 }, signal));
  const place = memory === 0 ? '' : `memory ${memory}: `;
  await expect
    .poll(() => executor.where(), { timeout: 10_000 })
    .toMatch(new RegExp(`${place}(step [^;]*)?records 0 to 2 [^;]* 1 arrived[^;]*; thread 0 is at the barrier before record 1`));
  return { running };
}

describe.each(['simd-threads', 'relaxed-threads'] as const)('%s', (build) => {
  it.each([0, 1, 2])('memory %i: a lost worker ends the step, and the next one runs through all memories', (memory) =>
    heldThread(build, MEMORIES, async (held) => {
      const { executor, passes, lose } = held;
      const { running } = await begin(held, memory);
      lose();
      expect((await running).code).toBe('ERR_WORKER_LOST');
      await executor.run({ passes, nTokens: 1, nOutputs: 1 });
    }),
  );

  it.each([0, 1, 2])('memory %i: an abort ends the step at its barrier', (memory) =>
    heldThread(build, MEMORIES, async (held) => {
      const { executor, passes, come } = held;
      const controller = new AbortController();
      const { running } = await begin(held, memory, controller.signal);
      const reason = new Error('enough');
      controller.abort(reason);
      come();
      expect((await running).error).toBe(reason);
      await executor.run({ passes, nTokens: 1, nOutputs: 1 });
    }),
  );

  it.each([0, 1, 2])('memory %i: dispose ends the step', (memory) =>
    heldThread(build, MEMORIES, async (held) => {
      const { running } = await begin(held, memory);
      held.lose();
      await held.executor.dispose();
      expect((await running).code).toBe('ERR_DISPOSED');
    }),
  );

  it('the result of a pass is carried to the next memory, for any number of threads', () =>
    heldThread(build, MEMORIES, async ({ executor, passes, come }) => {
      come();
      const at = (memory: number): number => memory * MEMORY_SPACE + ARENA_BASE + SYNC_SIZE + 4096;
      for (const threads of [1, 2])
        for (const length of [1, 2, 63, 1001]) {
          const bytes = Uint8Array.from({ length }, (_, i) => i * 7 + length + threads);
          await executor.write(at(0), bytes);
          const carry = (from: number, to: number): Carry => ({ from: at(from), to: at(to), length });
          const chain = [{ ...passes[0], carries: [carry(0, 1)] }, { ...passes[1], carries: [carry(1, 2)] }, passes[2]];
          await executor.run({ passes: chain, nTokens: 1, nOutputs: 1, threads });
          expect([...(await executor.read(at(2), length))], `${length} bytes, ${threads} threads`).toEqual([...bytes]);
        }
    }));
});
