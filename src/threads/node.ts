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

/**
 * A pool of exactly n workers, which all stay until destroy(): by itself Piscina ends those that wait, and starts new ones for the next task.
 * @param name the function of the worker's file that tasks run
 * @throws ERR_BUNDLED where the worker's file is missing
 */
export function createPool(worker: URL, name: string, n: number, workerData: object): Piscina {
  const filename = fileURLToPath(worker);
  if (!existsSync(filename)) throw bundledError(`${filename} is missing`);
  const pool = new Piscina({ filename, name, minThreads: n, maxThreads: n, concurrentTasksPerWorker: 1, workerData });
  // A task's end is heard through its promise. What else Piscina says, a reply that arrives after destroy() (seen on Node 24, one dispose in 20)
  // or the end of an idle worker, would end the process for want of a listener.
  pool.on('error', () => {});
  return pool;
}

/** nth workers over a model's memory; each runs one task a shift. */
export function createCrew(module: WebAssembly.Module, memory: WebAssembly.Memory, nth: number): Crew {
  const pool = createPool(WORKER, 'serve', nth, { module, memory });
  return {
    nth,
    start: (task) => pool.run(task).catch((error: NodeJS.ErrnoException) => {
      throw /MODULE_NOT_FOUND$/.test(error.code ?? '') ? bundledError(error.message, error) : error;
    }) as Promise<void>,
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
