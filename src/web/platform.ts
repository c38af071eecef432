/** Platform of a web page. The build depends on the workers that can be started. */
import type { LoadOptions } from '../load-options.ts';
import type { Platform } from '../platform.ts';
import { createRemote } from '../threads/remote.ts';
import { createSingle } from '../threads/single.ts';
import { createThreadPool } from '../threads/web.ts';
import { detectFeatures, pickBuild } from '../wasm/load.ts';
import { createMemories } from '../wasm/memory.ts';
import type { Channel } from './rpc.ts';
import { openSource } from './source.ts';
import { buildOf, compileWasm, inlinedModule } from './wasm.ts';
import { startWorker } from './workers.ts';

/**
 * Default limit of threads. More are not faster on machines that report more, and each costs
 * memory.
 */
const MOST_THREADS = 16;

export async function createWebPlatform(options: LoadOptions): Promise<Platform> {
  const given = options.wasm === undefined ? undefined : await compileWasm(options.wasm);
  const givenBuild = given && buildOf(given, options.build);
  const features = detectFeatures();
  // Pages that are not cross-origin isolated may have SharedArrayBuffer but cannot post shared
  // memory.
  features.threads &&= globalThis.crossOriginIsolated !== false;
  pickBuild(features, givenBuild ?? options.build); // reports a build that cannot run at all before anything is started

  // Start the first worker before choosing the build: without workers, no build with threads runs.
  let spare: Channel | undefined;
  try {
    spare = await startWorker(options.createWorker);
  } catch (error) {
    features.threads = false;
    console.warn(
      `quantlet: the model computes on the page's own thread, in slices: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
  const hasWorkers = spare !== undefined;
  const start = async (): Promise<Channel> => {
    const taken = spare ?? (await startWorker(options.createWorker));
    spare = undefined;
    return taken;
  };

  return {
    open: (source, signal) =>
      openSource(source, { ...options, signal, start: hasWorkers ? () => startWorker(options.createWorker) : undefined }),
    features: () => features,
    forcedBuild: () => givenBuild,
    module: async (build) => given ?? inlinedModule(build),
    defaultThreads: () => Math.min(globalThis.navigator?.hardwareConcurrency || 4, MOST_THREADS),
    createThreadPool: (compute, nth) => createThreadPool(start, compute, nth),
    createExecutor: async (module, memoryBytes) => {
      if (!hasWorkers) return createSingle(module, createMemories(memoryBytes, false));
      const channel = await start();
      try {
        return await createRemote(channel, module, memoryBytes);
      } catch (error) {
        channel.close();
        throw error;
      }
    },
    warn: (message) => console.warn(`quantlet: ${message}`),
    loaded: () => spare?.close(),
  };
}
