/**
 * CPU backend, for models and for the tensors of quantlet/core: a build of the kernels, and threads
 * over memories.
 */
import type { WasmMemory, WasmModule } from '../globals.ts';
import type { Executor } from '../threads/executor.ts';
import { computeWith } from '../threads/serve.ts';
import { createShared } from '../threads/shared.ts';
import { createSingle } from '../threads/single.ts';
import { isThreaded, pickBuild, type Build } from '../wasm/load.ts';
import { createMemories, createMemory, MEMORY_LIMIT, type MemoryUse } from '../wasm/memory.ts';
import type { Platform, Turbo } from './platform.ts';

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
  /**
   * Creates one memory with this many bytes for now, which reach() can grow, and a function that
   * starts an executor over it. For platforms with `growsMemory`. undefined if threads cannot be
   * started ahead of memories, or if the address space is too small.
   */
  growing(bytes: number): { readonly memory: WasmMemory; start(): Promise<Executor> } | undefined;
  /** Creates one memory that this thread reads and writes too, and an executor over it. */
  startHere(bytes: number, use: MemoryUse): Promise<{ memory: WasmMemory; executor: Executor }>;
  /** Ends threads that were started ahead, if no executor was started. */
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
  const close = async (): Promise<void> => spawned?.dispose();
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
    const pool = spawned?.attach(compute) ?? (await platform.createThreadPool!(compute, threads));
    const reading = readers > 0 ? platform.spawnThreads?.(readers).attach(compute) : undefined;
    return createShared(compute, pool, platform.defaultThreads(), reading);
  };
  return {
    build,
    threads,
    compiled: () => compiling,
    start: async (bytes, readers) =>
      !shared && platform.createExecutor
        ? platform.createExecutor((await compiling).module, bytes)
        : over(createMemories(bytes, shared), readers),
    growing(bytes) {
      if (!spawned) return undefined;
      try {
        const memory = createMemory(bytes, shared, undefined, bytes, MEMORY_LIMIT);
        return { memory, start: () => over([memory]) };
      } catch {
        return undefined;
      }
    },
    async startHere(bytes, use) {
      const memory = createMemory(bytes, shared, use);
      return { memory, executor: await over([memory]) };
    },
    close,
  };
}
