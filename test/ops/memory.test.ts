/**
 * The engine's memory: effects of packing, the plan that a result is read from, constants shared by
 * plans.
 */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import * as core from 'quantlet/core';
import { createEngine, type Engine, type Tensor } from 'quantlet/core';
import { gaussian } from '../kernel/harness.ts';

let engine: Engine;
beforeAll(async () => void (engine = await createEngine({ threads: 2 })));
afterAll(() => engine.dispose());

const code = (work: () => unknown): Promise<string | undefined> =>
  Promise.resolve()
    .then(work)
    .then(
      () => undefined,
      (e: { code?: string }) => e.code,
    );

describe('pack', () => {
  const [k, n] = [64, 3];
  const x = gaussian(k, 2);
  /**
   * Rows come in row blocks of 16, so this matrix grows and must move. The room that it leaves is
   * too small for the plan that moves it.
   */
  const grown = 16 * k * 4;

  it.each([
    ['neither room for the matrix', grown - 64],
    ['room for the matrix, none for the plan', grown],
  ])('%s: nothing has changed', async (_, left) => {
    await using small = await createEngine({ build: 'simd', memoryBytes: 1 << 20 });
    const weights = gaussian(k * n, 1);
    const w = small.tensor('f32', [k, n], weights);
    const y = core.mul_mat(w, x);
    const plan = small.plan(y);
    await small.compute(plan);
    const before = small.read(y);
    const rest = small.tensor('i8', [small.freeBytes - left]);
    const free = small.freeBytes;
    expect(free).toBe(left);
    expect(await code(() => small.pack(w))).toBe('ERR_OUT_OF_MEMORY');
    expect(small.freeBytes).toBe(free);
    // A tensor that takes the rest of the memory overwrites nothing in use.
    const other = small.tensor('f32', [left / 4], 7);
    await small.compute(plan);
    expect(small.read(y)).toEqual(before);
    expect(small.read(w)).toEqual(weights);
    small.free(other);
    small.free(rest);
    expect(await small.pack(w)).toBe(true);
    expect(await code(() => small.compute(plan)), 'it has moved').toBe('ERR_TENSOR_SHAPE');
    await small.compute(small.plan(y));
    small.read(y).forEach((v, i) => expect(v).toBeCloseTo(before[i], 4));
  });
});

describe('results', () => {
  it('are read from the newest living plan that has them', async () => {
    const x = engine.tensor('f32', [2], [1, 2]);
    const y = core.scale(x, 10);
    const z = core.add(y, 1);
    const first = engine.plan(y);
    const second = engine.plan(y, z);
    await engine.compute(first);
    engine.write(x, [3, 4]);
    await engine.compute(second);
    expect(engine.read(y)).toEqual(Float32Array.of(30, 40));
    second.dispose();
    expect(engine.read(y), "the first plan's").toEqual(Float32Array.of(10, 20));
    expect(await code(() => engine.read(z))).toBe('ERR_INVALID_ARGUMENT');
    const third = engine.plan(y);
    await engine.compute(third);
    expect(engine.read(y)).toEqual(Float32Array.of(30, 40));
    first.dispose();
    expect(engine.read(y)).toEqual(Float32Array.of(30, 40));
    third.dispose();
    expect(await code(() => engine.read(y))).toBe('ERR_INVALID_ARGUMENT');
  });

  it('have views that can be read, made before the plan or after', async () => {
    const x = engine.tensor('f32', [3, 2], [1, 2, 3, 4, 5, 6]);
    const y = core.scale(x, 2);
    const early = core.transpose(y);
    const plan = engine.plan(y);
    await engine.compute(plan);
    expect([...engine.read(early)]).toEqual([2, 8, 4, 10, 6, 12]);
    expect([...engine.read(core.reshape(y, [6]))]).toEqual([2, 4, 6, 8, 10, 12]);
    expect([...engine.view(core.view(y, [2], { offset: 16 }))]).toEqual([10, 12]);
    plan.dispose();
    expect(await code(() => engine.read(early))).toBe('ERR_INVALID_ARGUMENT');
  });

  it('of views keep the tensors that the views look at', async () => {
    const x = engine.tensor('f32', [3, 2], [1, 2, 3, 4, 5, 6]);
    const turned = core.transpose(core.scale(x, 2));
    const plan = engine.plan(turned, core.silu(turned));
    await engine.compute(plan);
    expect([...engine.read(turned)]).toEqual([2, 8, 4, 10, 6, 12]);
    plan.dispose();
  });
});

describe('constants', () => {
  it('a rope table lies in memory once for all calls with its parameters, and is given back with the last plan', async () => {
    const x = engine.tensor('f32', [64, 2, 3], gaussian(384, 3));
    const table = 64 * 4096 * 4;
    const free = engine.freeBytes;
    const one = engine.plan(core.rope_ext(x, [0, 1, 2]));
    const alone = free - engine.freeBytes;
    expect(alone).toBeGreaterThan(table);
    const many = engine.plan(
      core.rope_ext(x, [0, 1, 2]),
      core.rope_ext(x, [5, 6, 7], { freqBase: 10000, nCtx: 4096 }),
      core.rope_ext(core.silu(x), [1, 1, 1], { mode: 'neox', freqScale: undefined }),
    );
    expect(free - engine.freeBytes).toBeLessThan(alone + table / 2);
    const other = engine.plan(core.rope_ext(x, [0, 1, 2], { freqBase: 500 }));
    expect(free - engine.freeBytes, 'other angles').toBeGreaterThan(2 * table);
    one.dispose();
    other.dispose();
    expect(free - engine.freeBytes).toBeGreaterThan(table);
    await engine.compute(many);
    many.dispose();
    expect(engine.freeBytes).toBe(free);
    engine.free(x);
  });

  it('the same angles on every engine', async () => {
    await using other = await createEngine({ build: 'simd' });
    const values = gaussian(24, 4);
    const want: Float32Array[] = [];
    for (const e of [engine, other, engine]) {
      const x = e.tensor('f32', [8, 1, 3], values);
      const y = core.rope_ext(x, [7, 8, 9], { factors: [1, 2, 3, 4], nCtx: 64 });
      const plan = e.plan(y);
      await e.compute(plan);
      want.push(e.read(y));
      plan.dispose();
      e.free(x);
    }
    expect(want[2]).toEqual(want[0]);
    want[1].forEach((v, i) => expect(v).toBeCloseTo(want[0][i], 5));
  });

  it('views of numbers, and numbers in several plans', async () => {
    const x = engine.tensor('f32', [2, 3], [1, 2, 3, 4, 5, 6]);
    const free = engine.freeBytes;
    const sum = core.add(x, [
      [1, 2],
      [3, 4],
      [5, 6],
    ]);
    const plans = [engine.plan(sum), engine.plan(core.silu(sum)), engine.plan(sum)];
    for (const plan of plans) await engine.compute(plan);
    expect([...engine.read(sum)]).toEqual([2, 4, 6, 8, 10, 12]);
    plans[0].dispose();
    await engine.compute(plans[2]);
    expect([...engine.read(sum)]).toEqual([2, 4, 6, 8, 10, 12]);
    for (const plan of plans) plan.dispose();
    expect(engine.freeBytes).toBe(free);
  });

  it('no room for a table: nothing is taken', async () => {
    await using small = await createEngine({ build: 'simd', memoryBytes: 1 << 20 });
    const x = small.tensor('f32', [64, 2, 3]);
    const free = small.freeBytes;
    expect(await code(() => small.plan(core.rope_ext(x, [0, 1, 2])))).toBe('ERR_OUT_OF_MEMORY');
    expect(small.freeBytes).toBe(free);
  });
});

describe('long graphs', () => {
  const LONG = 20_000;
  it.each<[string, (x: Tensor) => Tensor]>([
    ['ops', (x) => core.scale(x, 1)],
    ['views', (x) => core.reshape(x, [4])],
    ['in place', (x) => core.add_inplace(x, 0)],
  ])('a chain of 20,000 %s', async (_, next) => {
    const x = engine.tensor('f32', [4], [1, 2, 3, 4]);
    let y: Tensor = core.scale(x, 1);
    for (let i = 0; i < LONG; i++) y = next(y);
    const plan = engine.plan(y);
    await engine.compute(plan);
    expect([...(engine.read(y) as Float32Array)]).toEqual([1, 2, 3, 4]);
    plan.dispose();
    engine.free(x);
  });
});

/**
 * Runs a process with this many KiB of address space that makes an engine. Returns its build or the
 * error.
 */
async function underLimit(kib: number, options: object): Promise<string> {
  const script = `import(${JSON.stringify(new URL('../../dist/entry/core-node.js', import.meta.url).href)}).then(({ createEngine }) => createEngine(${JSON.stringify({ build: 'simd', ...options })})).then((e) => console.log(e.build), (e) => console.log(e.name, e.code, e.message))`;
  const { stdout } = await promisify(execFile)('sh', ['-c', `ulimit -v ${kib} && exec "$0" -e "$1"`, process.execPath, script]);
  return stdout;
}

it.runIf(process.platform === 'linux')('too little address space is reported as too little memory, with advice', async () => {
  const told = /^QuantletError ERR_OUT_OF_MEMORY .*ulimit -v.*--disable-wasm-trap-handler/;
  expect(await underLimit(4_000_000, { memoryBytes: 15 * 2 ** 28 })).toMatch(told);
  // Node 24 and later run within the limit. Node 20 reserves ten times as much for its first
  // memory.
  expect((await underLimit(4_000_000, {})).trim()).toMatch(new RegExp(`^simd$|${told.source}`));
});
