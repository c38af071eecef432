/**
 * Executor without threads: the caller's thread computes, in slices of records, with a turn of the
 * event loop after each slice.
 */
import { instantiate } from '../wasm/load.ts';
import { ARENA_BASE, bytesIn, memoryOf } from '../wasm/memory.ts';
import { yieldToEventLoop } from '../event-loop.ts';
import { disposedError, type Executor } from './executor.ts';
import { carryOn } from './serve.ts';

/**
 * A slice ends with the first record that ends after this time; a single record may take longer (a
 * prompt's largest product). A slice can span steps: between the short steps of a small model there
 * are only microtasks, which give timers and input no turn.
 */
const SLICE_MS = 4;

export function createSingle(module: WebAssembly.Module, memories: readonly WebAssembly.Memory[], yieldTurn = yieldToEventLoop): Executor {
  const kernels = memories.map((memory) => instantiate(module, memory));
  let disposed = false;
  let since = 0;
  let record = -1;
  return {
    threads: 1,
    where: () => (record < 0 ? 'no step' : `record ${record} was the last computed`),
    write: (at, bytes) => bytesIn(memories, at, bytes.length).set(bytes),
    read: (at, length) => bytesIn(memories, at, length),
    view: (at, length) => bytesIn(memories, at, length),
    async run({ passes, nTokens, nOutputs }, signal) {
      signal?.throwIfAborted();
      for (const { plan, from, to, carries } of passes) {
        const here = kernels[memoryOf(plan)];
        here.begin(plan, nTokens, nOutputs);
        for (let i = from; i < to; i++) {
          if (disposed) throw disposedError();
          here.compute(plan, ARENA_BASE, 0, 1, (record = i), i + 1);
          if (performance.now() - since < SLICE_MS) continue;
          await yieldTurn();
          signal?.throwIfAborted();
          since = performance.now();
        }
        carries?.forEach((carry) => carryOn(memories, carry));
      }
    },
    rest() {},
    async dispose() {
      disposed = true;
    },
  };
}
