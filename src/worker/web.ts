/**
 * The one worker script of browsers; the first request says what it is to be. The build makes a classic script without imports of
 * it, so that the same text runs as a blob, by URL, bundled and not.
 */
import { createSingle } from '../threads/single.ts';
import type { RemoteInit, RemoteRequest } from '../threads/remote.ts';
import type { ServeTask } from '../threads/shared.ts';
import { cacheShelf } from '../web/cache-api.ts';
import { openCached } from '../web/cached.ts';
import { opfsShelf } from '../web/opfs.ts';
import { answerCalls, type WorkerScope } from '../web/rpc.ts';
import type { OpenInit, OpenRequest, Opened } from '../web/source.ts';
import { instantiate } from '../wasm/load.ts';
import { createMemory } from '../wasm/memory.ts';

/** One of nth threads over shared memory. */
export interface ThreadInit { readonly role: 'thread'; readonly module: WebAssembly.Module; readonly memory: WebAssembly.Memory }
/** Waits for words of shared memory on behalf of a page that has no Atomics.waitAsync. */
export interface WatchInit { readonly role: 'watch'; readonly memory: WebAssembly.Memory }
export type Init = ThreadInit | WatchInit | RemoteInit | OpenInit;

type Handler = (request: never, signal: AbortSignal) => unknown;

/** What answers from now on, and what the first request is answered with. */
async function become(init: Init, signal: AbortSignal): Promise<{ handler: Handler; answer?: unknown }> {
  switch (init.role) {
    case 'thread': {
      const kernels = instantiate(init.module, init.memory);
      return { handler: ({ sync, ith, last, idleMs }: ServeTask) => kernels.serve(sync, ith, last, BigInt(idleMs) * 1_000_000n) };
    }
    case 'watch': {
      const { memory } = init;
      return { handler: ({ at, value }: { at: number; value: number }) => void Atomics.wait(new Int32Array(memory.buffer, at, 1), 0, value) };
    }
    case 'remote':
      return { handler: remote(init) };
    case 'open':
      return open(init, signal);
  }
}

function remote({ module, memoryBytes, sync }: RemoteInit): Handler {
  const executor = createSingle(module, createMemory(memoryBytes, false), sync);
  return async ({ writes, step, reads }: RemoteRequest, signal: AbortSignal) => {
    for (const { at, bytes } of writes) executor.write(at, bytes);
    if (step) await executor.run(step, signal);
    const range = reads ?? step?.reads;
    return range && (await executor.read(range.at, range.length)).slice();
  };
}

async function open({ url, headers, reload, cache }: OpenInit, signal: AbortSignal): Promise<{ handler: Handler; answer: Opened }> {
  const shelf = cache ? ((await opfsShelf()) ?? (await cacheShelf())) : undefined;
  const { bytes, how, close } = await openCached(url, shelf, { headers, reload, signal });
  let now = false;
  return {
    answer: { byteLength: bytes.byteLength, how },
    async handler(request: OpenRequest, signal: AbortSignal) {
      if ('close' in request) return close({ now });
      const left = new Promise<never>((_, reject) => signal.addEventListener('abort', () => {
        now = true;
        reject(signal.reason);
      }, { once: true }));
      return Promise.race([bytes.read(request.start, request.end), left]);
    },
  };
}

let handler: Handler | undefined;
answerCalls(globalThis as unknown as WorkerScope, async (request: never, signal) => {
  if (handler) return handler(request, signal);
  const { handler: own, answer } = await become(request as Init, signal);
  handler = own;
  return answer;
});
