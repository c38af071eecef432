/**
 * The only worker script for browsers. The first request sets its role. The build makes it a
 * classic script without imports, so that the same text runs from a blob and from a URL, bundled or
 * not.
 */
import { createSingle } from '../threads/single.ts';
import type { RemoteInit, RemoteRequest } from '../threads/remote.ts';
import { serveSteps, type Compute, type ServeTask } from '../threads/serve.ts';
import { cacheApiFiles } from '../web/cache-api.ts';
import { opfsFiles } from '../web/opfs.ts';
import { answerCalls, type WorkerScope } from '../web/rpc.ts';
import { serveSource, type OpenInit } from '../web/source.ts';
import { instantiate } from '../wasm/load.ts';
import { createMemories } from '../wasm/memory.ts';

/** Runs one of nth threads over shared memories. */
export interface ThreadInit extends Compute {
  readonly role: 'thread';
}
/** Waits for words of shared memory, for a page without Atomics.waitAsync. */
export interface WatchInit {
  readonly role: 'watch';
  readonly memory: WebAssembly.Memory;
}
export type Init = ThreadInit | WatchInit | RemoteInit | OpenInit;

type Handler = (request: never, signal: AbortSignal) => unknown;

/** Takes a role. Returns the handler of all later requests, and the answer to the first one. */
async function become(init: Init, signal: AbortSignal): Promise<{ handler: Handler; answer?: unknown }> {
  switch (init.role) {
    case 'thread': {
      const kernels = init.memories.map((memory) => instantiate(init.module, memory));
      return { handler: (task: ServeTask) => serveSteps(kernels, init, task) };
    }
    case 'watch': {
      const { memory } = init;
      return {
        handler: ({ at, value }: { at: number; value: number }) => void Atomics.wait(new Int32Array(memory.buffer, at, 1), 0, value),
      };
    }
    case 'remote':
      return { handler: remote(init) };
    case 'open':
      return serveSource(init, init.cache ? ((await opfsFiles()) ?? (await cacheApiFiles())) : undefined, signal);
  }
}

function remote({ module, memoryBytes }: RemoteInit): Handler {
  const executor = createSingle(module, createMemories(memoryBytes, false));
  return async ({ writes, step, reads }: RemoteRequest, signal: AbortSignal) => {
    for (const { at, bytes } of writes) executor.write(at, bytes);
    if (step) await executor.run(step, signal);
    const range = reads ?? step?.reads;
    return range && (await executor.read(range.at, range.length)).slice();
  };
}

let handler: Handler | undefined;
answerCalls(globalThis as unknown as WorkerScope, async (request: never, signal) => {
  if (handler) return handler(request, signal);
  const { handler: own, answer } = await become(request as Init, signal);
  handler = own;
  return answer;
});
