/** Threads that measure ceilings and kernels at the same time, each with a memory of its own. */
import { readFileSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import asc from 'assemblyscript/asc';
import { median } from '../support.ts';

export type BuildKind = 'relaxed' | 'simd';

/** A job to time; every thread does all of it. */
export interface Job {
  readonly name: string;
  readonly what: 'read' | 'read_streams' | 'peak_add' | 'peak_less' | 'peak_f32' | 'peak_dot' | 'peak_dot_add' | 'mul_mat';
  /** Time until V8 has optimised it. */
  readonly warmMs: number;
  readonly bytes?: number;
  readonly type?: number;
  readonly rows?: number;
  readonly ne00?: number;
  readonly columns?: number;
  readonly chunk?: number;
}

/** Compiles the loops of assembly/ceilings.ts for a kind of build. */
async function compileCeilings(kind: BuildKind): Promise<WebAssembly.Module> {
  let binary: Uint8Array | undefined;
  const { error, stderr } = await asc.main(
    [
      'bench/roofline/assembly/ceilings.ts',
      '--outFile',
      'ceilings.wasm',
      '-O3',
      '--noAssert',
      '--runtime',
      'stub',
      '--importMemory',
      '--enable',
      kind === 'relaxed' ? 'simd,relaxed-simd' : 'simd',
    ],
    { writeFile: (_name, contents) => void (binary = contents as Uint8Array) },
  );
  if (error || !binary) throw error ?? new Error(`asc wrote nothing: ${stderr.toString()}`);
  return new WebAssembly.Module(Uint8Array.from(binary));
}

const packageModule = (kind: BuildKind): WebAssembly.Module =>
  new WebAssembly.Module(readFileSync(new URL(`../../dist/wasm/${kind}.wasm`, import.meta.url)));

export interface Threads {
  /** Repetitions per second of the first nth threads together. */
  measure(job: Job, nth: number, ms: number): Promise<number>;
  end(): Promise<void>;
}

/** Threads for one kind of build. `dram`: bytes of weights that every thread can hold. */
export async function startThreads(kind: BuildKind, most: number, dram: number): Promise<Threads> {
  const modules = { ceilings: await compileCeilings(kind), kernels: packageModule(kind) };
  const words = new Int32Array(new SharedArrayBuffer(8));
  const workers = Array.from(
    { length: most },
    (_, ith) => new Worker(new URL('worker.mjs', import.meta.url), { workerData: { ith, dram, words, modules }, execArgv: [] }),
  );
  return {
    async measure(job, nth, ms) {
      const rates = await Promise.all(
        workers.slice(0, nth).map(
          (w) =>
            new Promise<number>((done, fail) => {
              w.once('message', ({ perSecond }: { perSecond: number }) => {
                w.off('error', fail);
                done(perSecond);
              }).once('error', fail);
              w.postMessage({ job, nth, ms });
            }),
        ),
      );
      return rates.reduce((a, b) => a + b, 0);
    },
    end: async () => void (await Promise.all(workers.map((w) => w.terminate()))),
  };
}

/**
 * Rates by job and number of threads. The jobs alternate, round after round. Kernels get the
 * median, ceilings the best, because nothing can make a ceiling look too high.
 */
export async function measureAll(
  threads: Threads,
  jobs: readonly Job[],
  counts: readonly number[],
  rounds: number,
  ms: number,
  progress: (part: number) => void,
): Promise<Map<string, number>> {
  const samples = new Map<string, number[]>();
  const kernels = new Set(jobs.filter((j) => j.what === 'mul_mat').map((j) => j.name));
  for (let round = 0; round < rounds; round++) {
    for (const [i, job] of jobs.entries()) {
      for (const nth of counts) {
        const key = `${job.name} x${nth}`;
        const list = samples.get(key) ?? [];
        list.push(await threads.measure(job, nth, ms));
        samples.set(key, list);
      }
      progress((round + (i + 1) / jobs.length) / rounds);
    }
  }
  return new Map([...samples].map(([key, list]) => [key, kernels.has(key.replace(/ x\d+$/, '')) ? median(list) : Math.max(...list)]));
}
