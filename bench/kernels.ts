/**
 * GMAC/s, and GB/s of weights, of every packed kernel on every build with one thread.
 *
 * Usage:
 *
 *   node --import tsx bench/kernels.ts [--turbo] [filter ...]
 *
 * A line is shown if all filters occur in its name, as in "relaxed q4_0 gemm". The cases alternate
 * in rounds and a line is the median of its rounds, so ratios between lines are valid on a noisy
 * machine. "memory" walks 256 MB of weights, more than any L3 cache. The other cases stay in cache
 * as far as they fit.
 */
import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { setFlagsFromString } from 'node:v8';
import Benchmark from 'benchmark';
import { compileTurbo } from '../src/turbo/compile.ts';
import { TYPE, namesOf, rowSize, typesWith } from '../src/type-traits.ts';
import { CHUNK_ROWS } from './support.ts';

const args = process.argv.slice(2);
const turbo = args.includes('--turbo');
const filters = args.filter((a) => a !== '--turbo').flatMap((a) => a.split(' '));
// Must come before the first module is compiled. Node 20 needs this flag for relaxed SIMD; later
// versions refuse it.
if (process.versions.node.startsWith('20.')) setFlagsFromString('--experimental-wasm-relaxed-simd');

const TYPES = namesOf(typesWith((k) => k.packed));
const SHAPES: readonly (readonly [number, number])[] = [
  [1024, 1024],
  [2816, 1024],
  [4096, 4096],
];
const COLUMNS = 64;
const MEMORY = 256 * 2 ** 20;
const ROUNDS = 5;

interface Case {
  readonly name: string;
  readonly macs: number;
  /** Weights read, counted once for any number of columns. */
  readonly bytes: number;
  /** Prepares the activations for run; not timed. */
  readonly fill: () => void;
  readonly run: () => void;
  readonly seconds: number[];
}

function casesOf(build: string): Case[] {
  const memory = new WebAssembly.Memory({ initial: 6400, maximum: 6400 });
  const bytes = readFileSync(new URL(`../dist/wasm/${build}.wasm`, import.meta.url));
  const module = turbo ? compileTurbo(bytes) : new WebAssembly.Module(bytes);
  const k = new WebAssembly.Instance(module, { env: { memory } }).exports as Record<string, (...a: number[]) => number>;
  const scratch = (k.heap_base() + 63) & ~63;
  const act = scratch + 2 ** 20;
  const x = act + 2 ** 23;
  const dst = x + 2 ** 23;
  const weights = dst + 2 ** 23;
  const f32 = new Float32Array(memory.buffer);
  for (let i = 0; i < 2 ** 21; i++) f32[x / 4 + i] = Math.sin(i * 12.9898) * 3;
  // 0x2424 as f16 is 0.016, a usual scale: sums stay normal numbers (subnormal ones would be
  // slower).
  new Uint8Array(memory.buffer, weights).fill(0x24);

  const cases: Case[] = [];
  for (const type of TYPES) {
    const id = TYPE[type].id;
    const actType = k.packed_act_type(id);
    const takesF32 = actType === TYPE.f32.id;
    const add = (what: string, rows: number, ne00: number, columns: number, chunk: number): void => {
      const stride = takesF32 ? ne00 * 4 : k.act_row_size(actType, ne00);
      const run = (): void => {
        for (let row = 0; row < rows; row += chunk) {
          k.mul_mat_packed(id, weights, ne00, row, Math.min(row + chunk, rows), act, stride, columns, dst - row * 4, chunk * 4, scratch);
        }
      };
      const fill = (): void => {
        if (takesF32) f32.copyWithin(act / 4, x / 4, x / 4 + columns * ne00);
        else for (let c = 0; c < columns; c++) k.quantize_act(actType, x + ((c * ne00 * 4) % 2 ** 22), 0, ne00, act, stride, c, columns);
      };
      const name = `${build} ${type} ${what}`;
      if (!filters.every((f) => name.split(' ').includes(f))) return;
      cases.push({ name, macs: rows * ne00 * columns, bytes: rowSize(TYPE[type], ne00) * rows, fill, run, seconds: [] });
    };
    for (const [rows, ne00] of SHAPES) {
      add(`gemm ${rows}x${ne00}x${COLUMNS}`, rows, ne00, COLUMNS, CHUNK_ROWS);
      add(`gemv ${rows}x${ne00}`, rows, ne00, 1, CHUNK_ROWS);
    }
    const rows = Math.floor(MEMORY / rowSize(TYPE[type], 2048) / CHUNK_ROWS) * CHUNK_ROWS;
    add('gemv memory', rows, 2048, 1, CHUNK_ROWS);
  }
  return cases;
}

const cases = ['relaxed', 'simd'].flatMap(casesOf);
console.log(
  `${cpus()[0]?.model ?? 'unknown CPU'}, Node ${process.version}${turbo ? ', revectoriser' : ''}, one thread, median of ${ROUNDS} rounds`,
);
// wasm starts in the baseline compiler and is replaced function by function, so run until the
// optimised code is there.
for (const c of cases) {
  c.fill();
  const until = performance.now() + 150;
  while (performance.now() < until) c.run();
}
for (let round = 0; round < ROUNDS; round++) {
  for (const c of cases) {
    c.fill();
    const bench = new Benchmark(c.name, c.run, { maxTime: 0.1, minSamples: 2, initCount: 1 }).run();
    c.seconds.push(bench.stats.mean);
  }
}
for (const c of cases) {
  const seconds = c.seconds.sort((a, b) => a - b)[ROUNDS >> 1];
  console.log(
    `${c.name.padEnd(36)} ${(c.macs / seconds / 1e9).toFixed(1).padStart(6)} GMAC/s ${(c.bytes / seconds / 1e9).toFixed(1).padStart(6)} GB/s`,
  );
}
