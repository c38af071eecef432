/**
 * Tiles of the GEMM that no build has: rows and columns are parameters of the loops' templates
 * (assembly/templates/). Each is compiled from its template and held to f64, over panels and column
 * blocks that this test lays out itself. Factors are powers of two, so results are exact.
 */
import { beforeAll, describe, expect, it } from 'vitest';
import { loopText } from '../../scripts/loops.ts';
import { isThreaded } from '../../src/wasm/load.ts';
import { compileKernels } from './compile.ts';
import { BUILDS, over, random, type Build, type Kernels } from './harness.ts';

/** Rows x columns; 8x4 is the one of the builds. */
const TILES = [
  [8, 4],
  [8, 6],
  [8, 8],
  [16, 4],
  [16, 5],
] as const;

interface Format {
  readonly name: string;
  /** Codes are less than this. */
  readonly codes: number;
  readonly centre: number;
  readonly hasMin: boolean;
  /** Sub-blocks with a scale of their own, or 1. */
  readonly subs: number;
  /** Bytes of a code in the panel, and of a quant, if not those of the build. */
  readonly bytes?: number;
}

const FORMATS: readonly Format[] = [
  { name: 'q4_0', codes: 16, centre: 8, hasMin: false, subs: 1 },
  { name: 'q5_1', codes: 32, centre: 0, hasMin: true, subs: 1 },
  { name: 'q4_K', codes: 16, centre: 0, hasMin: true, subs: 8 },
  { name: 'q8_0', codes: 256, centre: 128, hasMin: false, subs: 1, bytes: 2 },
];
const BLOCKS = 3;

/** Builds with i16 codes for formats of 8 bits; the dotadd build has a loop of its own for them. */
const formats = (build: Build): readonly Format[] => FORMATS.filter(({ bytes }) => !bytes || build !== 'dotadd');

/** The rows of 16, the columns and the float tile: their exports, and the sources of their loops. */
function sources(build: Build): Map<string, string> {
  const found = new Map<string, string>();
  let imports = '';
  let exports = '';
  const add = (template: string, name: string, values: { ROWS: number; COLS: number }): void => {
    found.set(`assembly/matmul/${name}.ts`, loopText({ template, values }));
    if (template !== 'tile') imports += `import { ${name} } from './matmul/${name}';\n`;
  };
  for (const { name } of formats(build)) imports += `import { ${name.toUpperCase()} } from './matmul/format/${name}';\n`;
  for (const [ROWS, COLS] of TILES) {
    const tile = `${ROWS}x${COLS}`;
    add('tile', `tile_${tile}`, { ROWS, COLS });
    add('gemm', `gemm_${tile}`, { ROWS, COLS });
    add('gemm_i16', `gemm_${tile}_i16`, { ROWS, COLS });
    add('gemm_f32', `gemm_f32_${tile}`, { ROWS, COLS });
    for (const { name, bytes } of formats(build))
      exports += `export function ${name}_${tile}(w: usize, a: usize, acc: usize, n: i32): void {
  gemm_${tile}${bytes ? '_i16' : ''}<${name.toUpperCase()}>(w, a, acc, n);
}\n`;
    const columns = Array.from({ length: COLS }, (_, c) => `x + ${c} * stride`).join(', ');
    exports += `export function f32_${tile}(w: usize, x: usize, stride: usize, acc: usize, n: i32): void {
  gemm_f32_${tile}(w, ${columns}, acc, n);
}\n`;
  }
  found.set('assembly/tiles.ts', `${imports}${exports}export function heap_base(): usize {\n  return __heap_base;\n}\n`);
  return found;
}

/** Bytes in the order in which they are pushed. */
class Layout {
  readonly #bytes: number[] = [];
  push(array: Int8Array | Uint8Array | Int16Array | Int32Array | Float32Array): void {
    this.#bytes.push(...new Uint8Array(array.buffer));
  }
  get bytes(): Uint8Array {
    return Uint8Array.from(this.#bytes);
  }
}

const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i);

/** Integers from 0 to below n, the same ones in every run. */
function integers(seed: number): (n: number) => number {
  const next = random(seed);
  return (n) => Math.floor(next() * n);
}

/** A panel, a column block, and their products in f64. */
function example(build: Build, format: Format, rows: number, cols: number): { w: Uint8Array; a: Uint8Array; products: number[][] } {
  const below = integers(rows * 100 + cols);
  const size = format.bytes ?? (build === 'simd' ? 2 : 1);
  const pairs = build === 'relaxed';
  const isSuper = format.subs > 1;
  const signed = format.bytes !== undefined;
  const w = new Layout();
  const a = new Layout();
  const products = range(cols).map(() => range(rows).map(() => 0));
  const power = (): number => 2 ** (below(3) - 1);
  // Sums of a super-block fit the 24 bits of an f32 with these.
  const [quants, scales] = isSuper ? [15, 8] : [127, 1];
  for (let block = 0; block < BLOCKS; block++) {
    const integer = range(cols).map(() => range(rows).map(() => 0));
    const minimum = range(cols).map(() => range(rows).map(() => 0));
    const da = range(cols).map(power);
    const minima = range(format.subs).map(() => range(rows).map(() => below(scales)));
    let even: number[] = [];
    for (let sub = 0; sub < format.subs; sub++) {
      const code = range(rows).map(() => range(32).map(() => below(format.codes)));
      const quant = range(cols).map(() => range(32).map(() => below(2 * quants + 1) - quants));
      const scale = range(rows).map(() => (isSuper ? below(scales) : 1));
      const sums = quant.map((q) => q.reduce((s, x) => s + x, 0));
      for (let k = 0; k < 32; k += 4 / size) {
        const step = (of: readonly (readonly number[])[], less: number): Int8Array | Int16Array => {
          const values = of.flatMap((line) => line.slice(k, k + 4 / size).map((v) => v - less));
          return size === 2 ? Int16Array.from(values) : Int8Array.from(values);
        };
        w.push(step(code, signed ? format.centre : 0));
        a.push(step(quant, 0));
      }
      for (const c of range(cols))
        for (const r of range(rows)) {
          integer[c][r] += scale[r] * code[r].reduce((s, v, k) => s + (v - format.centre) * quant[c][k], 0);
          minimum[c][r] += (isSuper ? minima[sub][r] : 1) * sums[c];
        }
      if (isSuper) w.push(pairs ? Int16Array.from(scale.flatMap((s) => [s, s])) : Int32Array.from(scale));
      // d or, of every other sub-block of a super-block, the sums of two; then sums and lane sums.
      a.push(sub % 2 === 0 ? Float32Array.from(da) : Int16Array.from(sums.flatMap((s, c) => [even[c], s])));
      a.push(Float32Array.from(sums));
      even = sums;
      for (const half of [0, 16]) {
        const lane = (q: readonly number[], pair: number): number =>
          q.reduce((s, x, k) => (k >> 4 === half >> 4 && (k & 3) >> 1 === pair ? s - x : s), 0);
        a.push(Int16Array.from(quant.flatMap((q) => [lane(q, 0), lane(q, 1)])));
      }
    }
    if (isSuper)
      for (let sub = 0; sub < 8; sub += 2) w.push(Int16Array.from(range(rows).flatMap((r) => [minima[sub][r], minima[sub + 1][r]])));
    const d = range(rows).map(power);
    const dmin = range(rows).map(power);
    w.push(Float32Array.from(d));
    if (format.hasMin) w.push(Float32Array.from(dmin));
    for (const c of range(cols))
      for (const r of range(rows)) products[c][r] += (integer[c][r] * d[r] + (format.hasMin ? minimum[c][r] * dmin[r] : 0)) * da[c];
  }
  return { w: w.bytes, a: a.bytes, products };
}

/** Bytes of a column's sums, of which the tile's rows are the first. */
const ACC = 64;

describe.each(BUILDS.filter((build) => !isThreaded(build)))('tiles on %s', (build) => {
  let k: Kernels;
  beforeAll(async () => {
    const threaded = `${build}-threads` as Build;
    k = over(await compileKernels('assembly/tiles.ts', threaded, sources(build)), threaded);
  }, 120_000);

  const sumsOf = (cols: number): number => k.arena.f32(range((cols * ACC) / 4));
  /** Expects that each sum of the tile has grown by its product, and that no other has changed. */
  const expectSums = (acc: number, rows: number, cols: number, products: readonly (readonly number[])[]): void => {
    k.arena.checkGuards();
    const want = range((cols * ACC) / 4).map((i) => i + (i % 16 < rows ? products[i >> 4][i % 16] : 0));
    expect([...k.arena.readF32(acc, want.length)]).toEqual(want);
  };

  it.each(TILES.flatMap(([rows, cols]) => formats(build).map((format) => [rows, cols, format.name, format] as const)))(
    '%i x %i of %s',
    (rows, cols, name, format) => {
      k.arena.reset();
      const { w, a, products } = example(build, format, rows, cols);
      const acc = sumsOf(cols);
      // Vectors of a last part of a column block reach beyond it.
      const columns = k.arena.bytes(Uint8Array.from([...a, ...new Uint8Array(16)]));
      k.call(`${name}_${rows}x${cols}`, k.arena.bytes(w), columns, acc, BLOCKS);
      expectSums(acc, rows, cols, products);
    },
  );

  it.each(TILES)('%i x %i of f32', (rows, cols) => {
    k.arena.reset();
    const below = integers(7);
    const n = 19;
    const w = range(n).map(() => range(rows).map(() => below(31) - 15));
    const x = range(cols).map(() => range(n).map(() => below(31) - 15));
    const acc = sumsOf(cols);
    k.call(`f32_${rows}x${cols}`, k.arena.f32(w.flat()), k.arena.f32(x.flat()), n * 4, acc, n);
    const products = x.map((column) => range(rows).map((r) => column.reduce((s, v, i) => s + v * w[i][r], 0)));
    expectSums(acc, rows, cols, products);
  });
});
