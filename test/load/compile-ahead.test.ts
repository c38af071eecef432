/** Kernels of the first step are compiled while weights are read. */
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { compileAhead } from '../../src/load/compile-ahead.ts';
import { layoutOf, planToFit, type LayoutOptions, type Machine } from '../../src/plan/plan-to-fit.ts';
import { platform } from '../../src/entry/node-platform.ts';
import { openModelFiles, type ModelFiles } from '../../src/io/model-files.ts';
import { resolveLoadOptions, type LoadOptions } from '../../src/load-options.ts';
import type { Executor } from '../../src/threads/executor.ts';
import type { Tensor } from '../../src/graph/tensor.ts';
import { TYPE } from '../../src/type-traits.ts';
import { llamaModel } from '../support.ts';

let files: ModelFiles;
const machine: Machine = { isa: 'simd', threads: 3, free: Infinity };
beforeAll(async () => void (files = await openModelFiles(platform, llamaModel)));
afterAll(() => files.close());

const optionsOf = (given: LoadOptions = {}): LayoutOptions => ({ ...resolveLoadOptions(given), loras: new Map() });
const planned = (given?: LoadOptions) => planToFit(files.gguf, layoutOf(files.gguf, optionsOf(given)), optionsOf(given), machine);

/** Runs compileAhead(). Returns the records that it computed, with the number of tokens of each. */
async function compiled(firstTokens: number, { readAfter = Infinity, abortAfter = Infinity, plan = planned() } = {}) {
  const called: { record: number; nTokens: number }[] = [];
  const abort = new AbortController();
  const executor = {
    write() {},
    compileAhead(_: number, record: number, nTokens: number) {
      if (called.push({ record, nTokens }) >= abortAfter) abort.abort(new Error('enough'));
    },
  } as unknown as Executor;
  await compileAhead(executor, plan, firstTokens, () => called.length >= readAfter, abort.signal);
  return { called, records: plan.passes[0].plan.records };
}

it('a record of each kind is computed while weights are read: for the tokens of the first step, or as few as have the same kernels, and for one', async () => {
  for (const [first, want] of [
    [7, 7],
    [16, 16],
    [17, 17],
    [40, 20],
    [43, 19],
  ]) {
    const { called, records } = await compiled(first);
    expect([...new Set(called.map(({ nTokens }) => nTokens))]).toEqual([want, 1]);
    const codes = (n: number) => new Set(called.filter(({ nTokens }) => nTokens === n).map(({ record }) => records[record].code));
    expect(codes(want)).toEqual(new Set(records.map(({ code }) => code)));
    expect(codes(1)).toEqual(codes(want));
    expect(called.length).toBeLessThan(records.length);
  }
});

it('it ends when the weights have been read, or at an abort', async () => {
  expect((await compiled(7, { readAfter: 0 })).called).toEqual([]);
  expect((await compiled(7, { readAfter: 4 })).called).toHaveLength(4);
  await expect(compiled(7, { abortAfter: 3 })).rejects.toThrow('enough');
});

it('no step is larger than a batch may be', async () => {
  const { called } = await compiled(40, { plan: planned({ batchSize: 3 }) });
  expect(new Set(called.map(({ nTokens }) => nTokens))).toEqual(new Set([3, 1]));
});

it('what reads indices that a step computes, as products of experts do, is left out: memory has others', async () => {
  const moe = await openModelFiles(platform, fileURLToPath(new URL('../golden/arch/llama-moe.gguf', import.meta.url)));
  try {
    const options = optionsOf();
    const plan = planToFit(moe.gguf, layoutOf(moe.gguf, options), options, machine);
    const { called, records } = await compiled(5, { plan });
    const given = Object.values(plan.inputs).flat() as Tensor[];
    const computed = ({ dst, src }: (typeof records)[number]): boolean =>
      [dst, ...src].some((t) => t?.type === TYPE.i32 && !given.includes(t));
    expect(records.filter(computed).length).toBeGreaterThan(3);
    expect(called.filter(({ record }) => computed(records[record]))).toEqual([]);
    expect(called.length).toBeGreaterThan(10);
  } finally {
    await moe.close();
  }
});
