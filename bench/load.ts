/**
 * Time to load compared with time to read, and memory compared with what is needed.
 *
 * Usage:
 *
 *   node --import tsx bench/load.ts [--threads 2] [--rounds 7] [--model FILE] [--out FOLDER]
 *
 * Time: loadModel without warm-up but with packing, and reading the file into a buffer. They
 * alternate, each in a process of its own, with the file in the page cache. Memory: the peak
 * resident size after a prompt and some tokens, minus that of the same process with idle workers,
 * compared with weights, the written part of the KV cache, and compute buffers. Writes
 * bench/results/load-<cpu>-node<major>.md.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ARENA_BASE } from '../src/wasm/memory.ts';
import { readGGUF } from '../src/gguf/read.ts';
import { toBytes } from '../src/io/source.ts';
import {
  benchModel,
  describeMachine,
  flags,
  machine,
  machineName,
  median,
  root,
  run,
  show,
  table,
  warnIfBusy,
  writeResult,
} from './support.ts';

const here = machine();
const options = flags('time and memory of loading', {
  threads: String(Math.min(2, here.cores)),
  rounds: '7',
  model: '',
  prompt: '256',
  gen: '16',
  out: '',
});
const model = options.model || (await benchModel());
const rounds = Number(options.rounds);
const tokens = Number(options.prompt) + Number(options.gen);
warnIfBusy(here);

const entry = new URL('../dist/entry/node.js', import.meta.url).href;
const load = `const { loadModel } = await import(${JSON.stringify(entry)}); const options = { threads: ${options.threads}, warmUp: false, build: 'relaxed-threads', contextLength: 2048 };`;

/** Runs code in a process that prints one JSON value. */
const child = async (code: string): Promise<unknown> => JSON.parse(await run(process.execPath, ['--input-type=module', '-e', code]));

/**
 * Loaded first, so that compiling kernels and starting threads are not timed: they take the same
 * time for any model.
 */
const small = JSON.stringify(join(root, 'models/tiny-stories-q4_0.gguf'));
const CODE = {
  read: `const { open } = await import('node:fs/promises');
    const start = performance.now(); const file = await open(${JSON.stringify(model)}); const { size } = await file.stat(); const bytes = new Uint8Array(size);
    for (let at = 0; at < size; ) at += (await file.read(bytes, at, Math.min(size - at, 8 << 20), at)).bytesRead;
    console.log(performance.now() - start);`,
  load: `${load} await (await loadModel(${small}, options)).dispose(); const start = performance.now(); const model = await loadModel(${JSON.stringify(model)}, options);
    console.log(performance.now() - start); await model.dispose();`,
  loadFirst: `${load} const start = performance.now(); const model = await loadModel(${JSON.stringify(model)}, options); console.log(performance.now() - start); await model.dispose();`,
};
const times: Record<keyof typeof CODE, number[]> = { read: [], load: [], loadFirst: [] };
readFileSync(model);
for (let round = 0; round < rounds; round++) {
  process.stderr.write(`\rround ${round + 1} of ${rounds} `);
  for (const what of Object.keys(CODE) as (keyof typeof CODE)[]) times[what].push((await child(CODE[what])) as number);
}
process.stderr.write('\n');
const ratio = (what: 'load' | 'loadFirst'): number => median(times[what].map((t, i) => t / times.read[i]));

/**
 * Peak resident bytes of a process that runs `use` with a model. Without a use it only has the idle
 * workers of the small model.
 */
const peak = async (path: string, use: string, more = ''): Promise<{ rss: number; memory: number }> =>
  (await child(`${load}
  const model = await loadModel(${path}, { ...options${more} }); ${use}
  console.log(JSON.stringify({ rss: process.resourceUsage().maxRSS * 1024, memory: model.stats.memoryBytes })); await model.dispose();`)) as {
    rss: number;
    memory: number;
  };
const generate = `await model.generate(Array.from({ length: ${options.prompt} }, (_, i) => 3 + i % 100), { maxTokens: ${options.gen}, ignoreEos: true, temperature: 0 }).result();`;

const idle: number[] = [];
const full: number[] = [];
let reserved = 0;
for (let i = 0; i < 3; i++) {
  idle.push((await peak(small, '', ', contextLength: 64, batchSize: 8')).rss);
  const { rss, memory } = await peak(JSON.stringify(model), generate);
  full.push(rss);
  reserved = memory;
}
const gguf = await readGGUF(toBytes(readFileSync(model)));
const number = (key: string): number => Number(gguf.metadata.get(`llama.${key}`));
const weights = [...gguf.tensors.values()].reduce((n, t) => n + t.byteLength, 0);
const headDim = number('embedding_length') / number('attention.head_count');
const kvBytes = (cells: number): number => 2 * 2 * number('block_count') * number('attention.head_count_kv') * headDim * cells;
/** Bytes that the engine reserves for everything except weights and cache. */
const compute = reserved - ARENA_BASE - weights - kvBytes(2048);
const touched = kvBytes(tokens);
const used = median(full) - median(idle);
const needed = weights + touched + compute;

const mb = (bytes: number): string => (bytes / 1e6).toFixed(1);
const mark = (x: number, most: number): string => `${x.toFixed(2)} ${x <= most ? '✓' : '✗'} <= ${most}`;
const report = [
  `# Loading, Node ${here.node}, ${options.threads} threads`,
  '',
  describeMachine(here),
  '',
  `Medians of ${rounds} rounds in turns, page cache warm, ${mb(weights)} MB of weights.`,
  '',
  table(
    ['time', 'ms', 'all'],
    [
      ['reading the file into memory', show(median(times.read)), times.read.map((t) => t.toFixed(0)).join(' ')],
      ['loadModel with packing', show(median(times.load)), times.load.map((t) => t.toFixed(0)).join(' ')],
      [
        'the first loadModel of a process: kernels compiled too',
        show(median(times.loadFirst)),
        times.loadFirst.map((t) => t.toFixed(0)).join(' '),
      ],
    ],
  ),
  '',
  `- loadModel against reading: ${mark(ratio('load'), 1.5)}; the first one of a process: ${mark(ratio('loadFirst'), 1.5)}`,
  '',
  table(
    [`memory after a prompt of ${options.prompt} and ${options.gen} tokens`, 'MB'],
    [
      ['peak resident size', mb(median(full))],
      ['less that of a process with idle workers', mb(median(idle))],
      ['difference', mb(used)],
      ['weights', mb(weights)],
      [`KV cache of ${tokens} cells`, mb(touched)],
      ['compute buffers, scratch, tables and plans', mb(compute)],
      ['their sum', mb(needed)],
    ],
  ),
  '',
  `- difference against their sum: ${mark(used / needed, 1.3)}`,
].join('\n');
console.log(report);
console.error(
  `written: ${writeResult(`load-${machineName(here)}-node${Number.parseInt(here.node)}.md`, report, options.out || undefined)}`,
);
