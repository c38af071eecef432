/**
 * CPU backend, for models and for the tensors of quantlet/core: a build of the kernels, and threads
 * over memories.
 */
import type { WasmMemory, WasmModule } from '../globals.ts';
import type { Executor } from './executor.ts';
import { computeWith } from './serve.ts';
import { createShared } from './shared.ts';
import { createSingle } from './single.ts';
import { isThreaded, pickBuild, type Build } from '../wasm/load.ts';
import { createMemories, createMemory, type MemoryUse } from '../wasm/memory.ts';
import type { Platform, Turbo } from '../platform.ts';

export interface CpuBackendOptions {
  build: string | undefined;
  threads: number | undefined;
  turbo: Turbo | undefined;
}

/** Kernels, compiled in the form in which they will run. */
export interface CompiledKernels {
  readonly module: WasmModule;
  /** True if the kernels have 256-bit code. */
  readonly turbo: boolean;
}

export interface CpuBackend {
  readonly build: Build;
  readonly threads: number;
  /**
   * Resolves when the kernels are compiled. With turbo, waits for the threads to start first
   * (Platform.module).
   * @throws what compiling throws, after the threads have ended
   */
  compiled(): Promise<CompiledKernels>;
  /**
   * Creates memories of these sizes and an executor over them. The executor owns the first
   * SYNC_SIZE bytes from ARENA_BASE on in each memory. With createExecutor() of a platform, this
   * thread may be unable to reach the memories.
   * @param readers threads that read weights while others compute, if threads can
   * @throws ERR_OUT_OF_MEMORY
   */
  start(bytes: readonly number[], readers?: number): Promise<Executor>;
  /** Creates one memory that this thread reads and writes too, and an executor over it. */
  startHere(bytes: number, use: MemoryUse): Promise<{ memory: WasmMemory; executor: Executor }>;
  /** Ends the threads and the executor over them. */
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
  const spawned = shared ? platform.spawnThreads?.(threads) : undefined;
  const open: { dispose(): Promise<void> }[] = spawned ? [spawned] : [];
  const opened = <T extends { dispose(): Promise<void> }>(one: T): T => {
    open.push(one);
    return one;
  };
  const close = async (): Promise<void> => {
    for (const one of open.splice(0).reverse()) await one.dispose();
  };
  const compile = async (): Promise<CompiledKernels> => {
    try {
      const module = await platform.module(build, turbo, spawned?.started);
      return { module, turbo: platform.isTurbo?.(module) ?? false };
    } catch (error) {
      await close();
      throw error;
    }
  };
  const compiling = compile();
  compiling.catch(() => {}); // thrown by whoever awaits it
  const over = async (memories: readonly WasmMemory[], readers = 0): Promise<Executor> => {
    const { module } = await compiling;
    if (!shared) return createSingle(module, memories);
    const compute = computeWith(module, ...memories);
    const pool = spawned?.attach(compute) ?? opened(await platform.createThreadPool!(compute, threads));
    const readersPool = readers > 0 && platform.spawnThreads ? opened(platform.spawnThreads(readers)).attach(compute) : undefined;
    return createShared(compute, pool, platform.defaultThreads(), readersPool);
  };
  return {
    build,
    threads,
    compiled: () => compiling,
    async start(bytes, readers) {
      const { module } = await compiling;
      const elsewhere = shared ? undefined : platform.createExecutor?.(module, bytes);
      return opened(await (elsewhere ?? over(createMemories(bytes, shared), readers)));
    },
    async startHere(bytes, use) {
      const memory = createMemory(bytes, shared, use);
      return { memory, executor: opened(await over([memory])) };
    },
    close,
  };
}
