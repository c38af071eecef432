/** Node's threads: private Piscina pools, for a model's steps and for quantising a file. */
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import type { Piscina } from 'piscina';
import { groupFolders, numbersOf, type TextOf } from './cgroup.ts';
import { loadPieces, type LoadFailure } from './loading.ts';
import { bundledError, loadPiscina, packageFile } from './package-files.ts';
import type { SpawnedThreads } from './pool.ts';

const WORKER_URL = import.meta.url ? new URL('../../dist/worker/node.cjs', import.meta.url) : undefined;
const worker = (): string => packageFile(WORKER_URL, 'dist/worker/node.cjs');

/** Workers that each run one task at a time. */
export interface WorkerPool {
  /**
   * Runs a task on a worker, by the function `name` of its file, or by the pool's own. Rejects if
   * the worker is lost; if the pool is abandoned, only after all of its threads have ended.
   */
  run(task: unknown, name?: string): Promise<unknown>;
  /** State of its workers and of waiting tasks, in words. */
  where(): string;
  destroy(): Promise<void>;
}

/**
 * Flags for workers. They are files, so they would not start with --input-type, which they inherit
 * from programs that are text (node --input-type=module -e): then they get no flags.
 */
const workerFlags = (): { execArgv?: string[] } =>
  process.execArgv.some((flag) => flag.startsWith('--input-type')) ? { execArgv: [] } : {};

/**
 * A pool of exactly n workers, which all stay until destroy(). (By default Piscina ends idle
 * workers and starts new ones for the next task.) Piscina replaces lost workers, but no longer
 * after a worker was lost before it was ready: tasks would then wait for ever. Such a pool is
 * destroyed with its waiting tasks, and the next task gets a new pool.
 * @param filename the worker's file
 * @param name the function of that file that tasks run
 * @throws ERR_BUNDLED if Piscina is missing
 */
export function createPool(filename: string, name: string, n: number, workerData: object): WorkerPool {
  const Pool = loadPiscina();
  let destroyed = false;
  /**
   * Resolves when the threads of the last abandoned pool have ended. Until then they may write to
   * memory that a new pool's threads use.
   */
  let gone: Promise<void> | undefined;

  const start = (): Piscina => {
    const made = new Pool({ filename, name, minThreads: n, maxThreads: n, concurrentTasksPerWorker: 1, workerData, ...workerFlags() });
    // The end of a task is known from its promise. Other errors (a reply after destroy(), or the
    // end of an idle worker) would crash the process without a listener.
    made.on('error', () => {});
    // In a microtask: by then Piscina has started another worker, or never will.
    made.on('workerDestroy', () =>
      queueMicrotask(() => {
        if (pool !== made || destroyed || made.threads.length >= n) return;
        pool = undefined;
        gone = made.destroy();
      }),
    );
    return made;
  };
  let pool: Piscina | undefined = start();

  return {
    async run(task, other = name) {
      while (!pool && !destroyed) {
        await gone;
        if (!destroyed) pool ??= start();
      }
      if (!pool || destroyed) throw new Error('the pool of workers was ended');
      const mine = pool;
      try {
        return await mine.run(task, { name: other });
      } catch (error) {
        await Promise.resolve(); // a microtask after the loss of its worker, it is known if the pool is abandoned
        if (pool !== mine) await gone;
        throw error;
      }
    },
    where: () =>
      destroyed
        ? 'the pool was ended'
        : !pool
          ? 'the pool is being restarted'
          : `${pool.threads.length} workers of ${n}, ${pool.queueSize} tasks wait for one`,
    async destroy() {
      destroyed = true;
      await gone;
      await pool?.destroy();
    },
  };
}

/** Starts nth workers at once, while the host finds out what they will compute. */
export function spawnThreads(nth: number): SpawnedThreads {
  const pool = createPool(worker(), 'serve', nth, {});
  const starts = Promise.allSettled(Array.from({ length: nth }, () => pool.run(undefined, 'start')));
  /** Missing files, which a bundler left out, show when workers start. */
  const missed = starts.then((ends) =>
    ends
      .flatMap((end) => (end.status === 'rejected' ? [end.reason as NodeJS.ErrnoException] : []))
      .find(({ code }) => /MODULE_NOT_FOUND$/.test(code ?? '')),
  );
  return {
    started: starts,
    attach(compute) {
      const run = async (task: object, name?: string): Promise<unknown> => {
        const missing = await missed;
        if (missing) throw bundledError(missing.message, missing);
        return pool.run({ ...task, compute }, name);
      };
      return {
        nth,
        start: (task) => run(task) as Promise<void>,
        load: (work, onDone, signal) =>
          loadPieces(nth, (task) => run(task, 'load') as Promise<LoadFailure | undefined>, work, onDone, signal),
        where: pool.where,
        dispose: () => pool.destroy(),
      };
    },
    dispose: () => pool.destroy(),
  };
}

/** CPU quotas of the control groups, in whole cores. */
export function quotas(text: TextOf): number[] {
  const { v1, v2 } = groupFolders(text, 'cpu');
  const all = [
    ...v2.map((at) => numbersOf(text, `${at}/cpu.max`)),
    ...v1.map((at) => ['quota', 'period'].flatMap((name) => numbersOf(text, `${at}/cpu.cfs_${name}_us`))),
  ];
  return all.filter(([quota, period]) => quota > 0 && period > 0).map(([quota, period]) => Math.floor(quota / period));
}

/**
 * Cores that this process may use: Node's number, and the quotas of its control groups, which Node
 * 20 ignores.
 */
export const defaultThreads = (): number => Math.max(1, Math.min(availableParallelism(), ...quotas((path) => readFileSync(path, 'utf8'))));
