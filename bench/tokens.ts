/**
 * Tokens per second of small models, prompt and generation, and multiply-adds per second of
 * vec_dot.
 *
 * Usage:
 *
 *   node --import tsx bench/tokens.ts [build ...]
 *
 * Run it on an idle machine. The numbers of one run can be compared with each other, those of two
 * runs only if the machine was equally idle.
 */
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import Benchmark from 'benchmark';
import { enableRelaxedSimd } from '../src/entry/node-platform.ts';
import { TYPE, rowSize, type TypeTraits } from '../src/type-traits.ts';
import type { Build } from '../src/wasm/load.ts';
import type * as Entry from '../src/entry/node.ts';

// The entry of dist/, because the workers of a build with threads are files there.
const { loadModel } = (await import(new URL('../dist/entry/node.js', import.meta.url).href)) as typeof Entry;
enableRelaxedSimd();

const root = new URL('../', import.meta.url);
const path = (name: string): string => fileURLToPath(new URL(name, root));
const MODELS = [
  'models/tiny-stories-q4_0.gguf',
  '../shared/models/stories260K/stories260K-Q4_0.gguf',
  '../shared/models/stories260K/stories260K.gguf',
]
  .map(path)
  .filter(existsSync);
const builds = (process.argv.slice(2).length > 0 ? process.argv.slice(2) : ['simd', 'relaxed', 'relaxed-threads']) as Build[];

/**
 * Seconds of measuring a case: enough for hundreds of runs, with the whole suite under a minute.
 */
const MAX_TIME = 0.7;
/** Tokens of the measured prompt, and of each generation. */
const PROMPT = 128;
const GENERATED = 32;

/** Runs the cases of benchmark.js one after another. `work` is the amount that a run counts for. */
const measure = (name: string, work: number, unit: string, fn: (deferred: Benchmark.Deferred) => void, defer: boolean): Promise<void> =>
  new Promise((resolve, reject) => {
    new Benchmark(name, { defer, fn: fn as () => void, maxTime: MAX_TIME })
      .on('complete', (event: Benchmark.Event) => {
        const { stats } = event.target as unknown as Benchmark;
        console.log(`${name.padEnd(64)} ${(work / stats.mean).toFixed(1).padStart(10)} ${unit} +-${stats.rme.toFixed(1)} %`);
        resolve();
      })
      .on('error', (event: Benchmark.Event) => reject((event.target as unknown as { error: Error }).error))
      .run();
  });

async function models(file: string, build: Build): Promise<void> {
  const model = await loadModel(file, { build, contextLength: 256 });
  const name = `${file.split('/').pop()} ${build}, ${model.threads} ${model.threads === 1 ? 'thread' : 'threads'}`;
  const options = { temperature: 0, ignoreEos: true } as const;
  const run = (prompt: readonly number[], maxTokens: number, deferred: Benchmark.Deferred): void => {
    model.internals.slots.all[0].truncate(0); // the last run's prompt must not be reused
    void model
      .generate(prompt, { ...options, maxTokens })
      .result()
      .then(() => deferred.resolve());
  };
  const prompt = Array.from({ length: PROMPT }, (_, i) => 3 + ((i * 7) % 400));
  await measure(`${name}: prompt of ${PROMPT}`, PROMPT, 'tokens/s', (d) => run(prompt, 1, d), true);
  await measure(`${name}: generate ${GENERATED}`, GENERATED, 'tokens/s', (d) => run([1], GENERATED, d), true);
  await model.dispose();
}

/**
 * Weights x activations of a row of 4096 in cache: the kernels' speed if memory does not matter.
 */
async function vecDot(build: Build): Promise<void> {
  const n = 4096;
  const rows = 64;
  const memory = new WebAssembly.Memory({ initial: 64, maximum: 64, shared: build.endsWith('-threads') });
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(readFileSync(path(`dist/wasm/${build}.wasm`))), { env: { memory } });
  const kernels = exports as Record<'heap_base' | 'vec_dot' | 'vec_dot_type' | 'quantize_row', (...args: number[]) => number>;
  const types: TypeTraits[] = [TYPE.f32, TYPE.f16, TYPE.q8_0, TYPE.q4_0, TYPE.q4_K, TYPE.q6_K];
  for (const type of types) {
    const vecDotType = Object.values(TYPE).find((t) => t.id === kernels.vec_dot_type(type.id))!;
    const x = (kernels.heap_base() + 63) & ~63;
    const y = x + rowSize(type, n) * rows;
    const f = (y + rowSize(vecDotType, n) + 63) & ~63;
    new Float32Array(memory.buffer, f, n).forEach((_, i, a) => (a[i] = Math.sin(i * 0.7)));
    for (let r = 0; r < rows; r++) quantise(type, x + r * rowSize(type, n));
    kernels.quantize_row(vecDotType.id, f, y, n);
    let sum = 0;
    await measure(
      `vec_dot ${type.name} x ${vecDotType.name}, ${build}`,
      (n * rows) / 1e9,
      'GMAC/s',
      () => {
        for (let r = 0; r < rows; r++) sum += kernels.vec_dot(type.id, n, x + r * rowSize(type, n), y);
      },
      false,
    );
    if (!Number.isFinite(sum)) throw new Error(`vec_dot ${type.name} gave ${sum}`);

    // K-quants need a search, and for speed any bytes of a moderate scale will do.
    function quantise(t: TypeTraits, at: number): void {
      if (t.blckSize < 256) kernels.quantize_row(t.id, f, at, n);
      else new Uint8Array(memory.buffer, at, rowSize(t, n)).fill(0x11);
    }
  }
}

console.log(
  `node ${process.version}; ${MODELS.length === 1 ? 'without ../shared: the model that ships alone' : `${MODELS.length} models`}`,
);
for (const build of builds) for (const file of MODELS) await models(file, build);
for (const build of builds.filter((b) => !b.endsWith('-threads'))) await vecDot(build);
