/** Node's threads: private Piscina pools, for the steps of a model and for quantising a file. */
import { existsSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { Piscina } from 'piscina';
import { QuantletError } from '../errors.ts';
import type { Crew } from './shared.ts';

const WORKER = new URL('../worker/node.js', import.meta.url);

/** Files of the package are not where they should be. */
export const bundledError = (missing: string, cause?: unknown): QuantletError =>
  new QuantletError('ERR_BUNDLED', `${missing}: a bundler left files of quantlet or Piscina out; keep the package external (Next: serverExternalPackages: ['quantlet'], esbuild: --external:quantlet)`, { cause });

/** Workers that each run one task at a time. */
export interface WorkerPool {
  /** Rejects when its worker is lost, and then no thread of the pool still works at anything that has been told as lost. */
  run(task: unknown): Promise<unknown>;
  /** Its workers and what waits for them, in words. */
  where(): string;
  destroy(): Promise<void>;
}

/** A program that is text (node --input-type=module -e) hands its kind down to workers, which are files and would not start: these get no flags, and need none. */
const workerFlags = (): { execArgv?: string[] } => (process.execArgv.some((flag) => flag.startsWith('--input-type')) ? { execArgv: [] } : {});

/**
 * A pool of exactly n workers, which all stay until destroy(): by itself Piscina ends those that wait, and starts new ones for the next task.
 * It replaces lost workers too, but never again once one was lost before it was ready: tasks would then wait for a worker that nobody starts.
 * Such a pool is ended, with all that waits in it, and the next task gets a new one.
 * @param name the function of the worker's file that tasks run
 * @throws ERR_BUNDLED where the worker's file is missing
 */
export function createPool(worker: URL, name: string, n: number, workerData: object): WorkerPool {
  const filename = fileURLToPath(worker);
  if (!existsSync(filename)) throw bundledError(`${filename} is missing`);
  let destroyed = false;
  /** Resolves when the threads of the last pool that was given up are gone: until then they may write to what a new pool's work on. */
  let gone: Promise<void> | undefined;

  const start = (): Piscina => {
    const made = new Piscina({ filename, name, minThreads: n, maxThreads: n, concurrentTasksPerWorker: 1, workerData, ...workerFlags() });
    // A task's end is heard through its promise. What else Piscina says, a reply that arrives after destroy() (seen on Node 24, one dispose in 20)
    // or the end of an idle worker, would end the process for want of a listener.
    made.on('error', () => {});
    // A moment later, when Piscina has started another worker in its place, or has not.
    made.on('workerDestroy', () => queueMicrotask(() => {
      if (pool !== made || destroyed || made.threads.length >= n) return;
      pool = undefined;
      gone = made.destroy();
    }));
    return made;
  };
  let pool: Piscina | undefined = start();

  return {
    async run(task) {
      while (!pool && !destroyed) {
        await gone;
        if (!destroyed) pool ??= start();
      }
      if (!pool || destroyed) throw new Error('the pool of workers was ended');
      const mine = pool;
      try {
        return await mine.run(task);
      } catch (error) {
        await Promise.resolve(); // whether the pool is given up is known a microtask after its worker was lost
        if (pool !== mine) await gone;
        throw error;
      }
    },
    where: () => (destroyed ? 'the pool was ended' : !pool ? 'the pool is being built anew' : `${pool.threads.length} workers of ${n}, ${pool.queueSize} tasks wait for one`),
    async destroy() {
      destroyed = true;
      await gone;
      await pool?.destroy();
    },
  };
}

/** nth workers over a model's memory; each runs one task a shift. */
export function createCrew(module: WebAssembly.Module, memory: WebAssembly.Memory, nth: number): Crew {
  const pool = createPool(WORKER, 'serve', nth, { module, memory });
  return {
    nth,
    start: (task) => pool.run(task).catch((error: NodeJS.ErrnoException) => {
      throw /MODULE_NOT_FOUND$/.test(error.code ?? '') ? bundledError(error.message, error) : error;
    }) as Promise<void>,
    where: pool.where,
    dispose: () => pool.destroy(),
  };
}

/** Cores this process may use: what Node says, and the container's CPU quota, which Node 20 does not see. */
export function defaultThreads(): number {
  const cores = availableParallelism();
  try {
    const [quota, period] = readFileSync('/sys/fs/cgroup/cpu.max', 'utf8').trim().split(' ').map(Number);
    return quota > 0 && period > 0 ? Math.max(1, Math.min(cores, Math.floor(quota / period))) : cores;
  } catch {
    return cores;
  }
}
