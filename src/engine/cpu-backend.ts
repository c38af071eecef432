/** What computes, for models and for the tensors of quantlet/core alike: a build of the kernels, and threads over one memory. */
import type { WasmMemory, WasmModule } from '../globals.ts';
import type { Executor } from '../threads/executor.ts';
import { createShared } from '../threads/shared.ts';
import { createSingle } from '../threads/single.ts';
import type { Kernels } from '../wasm/abi.ts';
import { isThreaded, kernelFacts, pickBuild, type Build } from '../wasm/load.ts';
import { createMemory, type MemoryUse } from '../wasm/memory.ts';
import type { Platform, Turbo } from './platform.ts';

export interface CpuBackendOptions {
  build: string | undefined;
  threads: number | undefined;
  turbo: Turbo | undefined;
}

/** Threads over a memory, and the module that they run. */
export interface StartedBackend {
  readonly executor: Executor;
  readonly module: WasmModule;
  /** Whether the kernels have 256-bit code. */
  readonly turbo: boolean;
}

export interface CpuBackend {
  readonly build: Build;
  readonly threads: number;
  /** The kernels, for asking about sizes: they have no memory to compute in. */
  readonly facts: Kernels;
  /**
   * Makes a memory of so many bytes, and what computes over it. Where the platform says so the memory is out of this thread's reach.
   * @param sync address of SYNC_SIZE bytes
   * @throws ERR_OUT_OF_MEMORY
   */
  start(bytes: number, sync: number): Promise<StartedBackend>;
  /** The same with a memory that this thread reads and writes too. */
  startHere(bytes: number, sync: number, use: MemoryUse): Promise<StartedBackend & { readonly memory: WasmMemory }>;
  /** For when nothing is started: what was begun ahead is given up. */
  close(): Promise<void>;
}

/** @throws ERR_NO_SIMD, ERR_BUILD_UNAVAILABLE, ERR_INVALID_ARGUMENT */
export async function createCpuBackend(
  platform: Platform,
  { threads: given, build: named, turbo }: CpuBackendOptions,
): Promise<CpuBackend> {
  const build = pickBuild(platform.features(), named || platform.forcedBuild());
  const shared = isThreaded(build);
  const threads = shared ? (given ?? platform.defaultThreads()) : 1;
  // Workers start while the kernels are compiled and the caller finds out what they will compute.
  const spawned = shared ? platform.spawnThreads?.(threads) : undefined;
  const close = async (): Promise<void> => spawned?.dispose();
  const compiling = platform.module(build, turbo, spawned?.started);
  compiling.catch(() => {}); // awaited when there is a memory
  const facts = await platform
    .module(build)
    .then((module) => kernelFacts(module, shared))
    .catch(async (error: unknown) => {
      await close();
      throw error;
    });
  const started = (module: WasmModule, executor: Executor): StartedBackend => ({
    executor,
    module,
    turbo: platform.isTurbo?.(module) ?? false,
  });
  const over = async (module: WasmModule, memory: WasmMemory, sync: number): Promise<StartedBackend> => {
    if (!shared) return started(module, createSingle(module, memory, sync));
    const pool = spawned?.attach(module, memory) ?? (await platform.createThreadPool!(module, memory, threads));
    return started(module, createShared(module, memory, sync, pool, platform.defaultThreads()));
  };
  return {
    build,
    threads,
    facts,
    async start(bytes, sync) {
      const module = await compiling;
      if (!shared && platform.createExecutor) return started(module, await platform.createExecutor(module, bytes, sync));
      return over(module, createMemory(bytes, shared), sync);
    },
    async startHere(bytes, sync, use) {
      const memory = createMemory(bytes, shared, use);
      return { memory, ...(await over(await compiling, memory, sync)) };
    },
    close,
  };
}
