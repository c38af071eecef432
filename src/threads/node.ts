/** Node's threads: a private Piscina pool of exactly nth workers, one task each per shift. */
import { existsSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { Piscina } from 'piscina';
import { QuantletError } from '../errors.ts';
import type { Crew } from './shared.ts';

const WORKER = new URL('../worker/node.js', import.meta.url);

export function createCrew(module: WebAssembly.Module, memory: WebAssembly.Memory, nth: number): Crew {
  const filename = fileURLToPath(WORKER);
  const bundled = (missing: string, cause?: unknown): QuantletError => new QuantletError('ERR_BUNDLED', `${missing}: a bundler left files of quantlet or Piscina out; keep the package external (Next: serverExternalPackages: ['quantlet'], esbuild: --external:quantlet)`, { cause });
  if (!existsSync(filename)) throw bundled(`${filename} is missing`);
  const pool = new Piscina({ filename, name: 'serve', minThreads: nth, maxThreads: nth, concurrentTasksPerWorker: 1, workerData: { module, memory } });
  // A task's end is heard through its promise. What else Piscina says, a reply that arrives after destroy() (seen on Node 24, one dispose in 20)
  // or the end of an idle worker, would end the process for want of a listener.
  pool.on('error', () => {});
  return {
    nth,
    start: (task) => pool.run(task).catch((error: NodeJS.ErrnoException) => {
      throw /MODULE_NOT_FOUND$/.test(error.code ?? '') ? bundled(error.message, error) : error;
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
