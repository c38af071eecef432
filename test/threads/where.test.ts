/** The report of a step that does not end. */
import type { Build } from 'quantlet';
import { describe, expect, it } from 'vitest';
import { whereAllStand } from '../../src/threads/where.ts';
import { heldThread } from './held-thread.ts';

describe.each(['simd-threads', 'relaxed-threads'] as const)('%s', (build: Build) => {
  it('names the record that each thread has reached, and the thread that never came', async () => {
    await heldThread(build, 1, async ({ executor, passes, come }) => {
      expect(executor.where()).toMatch(/step 0 on 0 threads.*no thread serves/);
      const running = executor.run({ passes, nTokens: 1, nOutputs: 1 });
      await expect
        .poll(() => executor.where(), { timeout: 10_000 })
        .toMatch(
          /^step 1 on 2 threads, done 0 on 0 threads, records 0 to 2 .* 1 arrived.*thread 0 is at the barrier before record 1 \(GET_ROWS\).*threads serve/,
        );
      expect(whereAllStand()).toContain(executor.where());
      come();
      await running;
      expect(executor.where()).toMatch(/^step 1 on 2 threads, done 1 on 2 threads/);
    });
    expect(whereAllStand()).toEqual([]);
  });
});
