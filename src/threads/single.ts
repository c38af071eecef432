/** No threads: the caller's thread computes, in slices of records, with a turn of the event loop after each slice. */
import { instantiate } from '../wasm/load.ts';
import { disposedError, yieldToEventLoop, type Executor } from './executor.ts';

/**
 * A slice ends with the first record that ends later than this; a single record may take longer (a prompt's largest product). A slice can
 * span steps: between the short steps of a small model there are only microtasks, which let no timer or input have its turn.
 */
const SLICE_MS = 4;

export function createSingle(module: WebAssembly.Module, memory: WebAssembly.Memory, sync: number, yieldTurn = yieldToEventLoop): Executor {
  const kernels = instantiate(module, memory);
  let disposed = false;
  let since = 0;
  let record = -1;
  return {
    threads: 1,
    where: () => (record < 0 ? 'no step' : `record ${record} was the last computed`),
    write: (at, bytes) => new Uint8Array(memory.buffer, at, bytes.length).set(bytes),
    read: (at, length) => new Uint8Array(memory.buffer, at, length),
    view: (at, length) => new Uint8Array(memory.buffer, at, length),
    async run({ plan, nTokens, nOutputs, from, to }, signal) {
      signal?.throwIfAborted();
      kernels.begin(plan, nTokens, nOutputs);
      for (let i = from; i < to; i++) {
        if (disposed) throw disposedError();
        kernels.compute(plan, sync, 0, 1, (record = i), i + 1);
        if (performance.now() - since < SLICE_MS) continue;
        await yieldTurn();
        signal?.throwIfAborted();
        since = performance.now();
      }
    },
    rest() {},
    async dispose() {
      disposed = true;
    },
  };
}
