/**
 * Executor of threads over shared memories. A platform only tells how to start a task on worker ith
 * (Piscina, Web Workers).
 */
import { instantiate } from '../wasm/load.ts';
import { ARENA_BASE, bytesIn, memoryOf } from '../wasm/memory.ts';
import { disposedError, type Executor } from './executor.ts';
import type { ThreadPool } from './pool.ts';
import type { Compute } from './serve.ts';
import { StepSignals } from './step-signals.ts';
import { makeKnown } from './where.ts';

/** @param readers workers that read weights while the others compute */
export function createShared(compute: Compute, pool: ThreadPool, cores: number, readers?: ThreadPool): Executor {
  const { module, memories } = compute;
  const kernels = memories.map((memory) => instantiate(module, memory));
  const signals = new StepSignals(compute, pool, cores);
  let disposed = false;
  const mustLive = (): void => {
    if (disposed) throw disposedError();
  };

  return makeKnown({
    threads: pool.nth,
    where: () => signals.where(),
    write: (at, bytes) => bytesIn(memories, at, bytes.length).set(bytes),
    read: (at, length) => bytesIn(memories, at, length),
    view: (at, length) => bytesIn(memories, at, length),
    async run(step, signal) {
      mustLive();
      signal?.throwIfAborted();
      for (const { plan } of step.passes) kernels[memoryOf(plan)].begin(plan, step.nTokens, step.nOutputs);
      await signals.post(step, mustLive);
      const cancel = (): void => signals.cancel();
      signal?.addEventListener('abort', cancel, { once: true });
      try {
        await signals.finished(mustLive);
      } finally {
        signal?.removeEventListener('abort', cancel);
      }
      if (signals.wasCancelled()) signal?.throwIfAborted();
    },
    ...(pool.load && {
      async load(work, onDone, signal) {
        mustLive();
        await signals.serving; // a worker has one task at a time
        await pool.load!(work, onDone, signal);
      },
    }),
    ...(readers?.load && {
      async loadBeside(work, onDone, signal) {
        mustLive();
        await readers.load!(work, onDone, signal);
      },
    }),
    compileAhead(plan, record, nTokens, nOutputs) {
      const here = kernels[memoryOf(plan)];
      here.begin(plan, nTokens, nOutputs);
      here.compute(plan, ARENA_BASE, 0, 1, record, record + 1);
    },
    rest: () => {
      if (signals.serving) signals.close();
    },
    async dispose() {
      disposed = true;
      signals.close();
      await Promise.all([pool.dispose(), readers?.dispose()]);
      await signals.serving;
    },
  });
}
