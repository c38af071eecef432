/**
 * Weights that are allocated before the rest of a model is planned must get the same addresses as
 * in the plan, if the model surely fits in one memory.
 */
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { claimPages, buildEarly, isOf, rehearse } from '../../src/engine/early-weights.ts';
import { layoutOf, planToFit, type LayoutOptions, type Machine } from '../../src/engine/plan-to-fit.ts';
import { platform } from '../../src/entry/node-platform.ts';
import { SYNC_SIZE } from '../../src/graph/layout.ts';
import { openModelFiles, type ModelFiles } from '../../src/io/model-files.ts';
import { resolveLoadOptions, type LoadOptions } from '../../src/load-options.ts';
import { yieldToEventLoop, type Executor } from '../../src/threads/executor.ts';
import type { Tensor } from '../../src/graph/tensor.ts';
import { TYPE } from '../../src/type-traits.ts';
import { ARENA_BASE, MEMORY_LIMIT } from '../../src/wasm/memory.ts';
import { llamaModel } from '../support.ts';

let files: ModelFiles;
let machine: Machine;
beforeAll(async () => {
  files = await openModelFiles(platform, llamaModel);
  machine = { isa: 'simd', threads: 3, free: Infinity };
});
afterAll(() => files.close());

const optionsOf = (given: LoadOptions = {}): LayoutOptions => ({ ...resolveLoadOptions(given), loras: new Map() });
const early = (given?: LoadOptions, on = machine) => buildEarly(files.gguf, layoutOf(files.gguf, optionsOf(given)), optionsOf(given), on);
const planned = (given?: LoadOptions, built?: Parameters<typeof planToFit>[4]) =>
  planToFit(files.gguf, layoutOf(files.gguf, optionsOf(given)), optionsOf(given), machine, built);

it('a plan of the graph that was built early has its weights where they were placed, the first things in memory, in the order of the file', () => {
  const built = early()!;
  expect(isOf(built, planned({}, built.graph))).toBe(true);
  const inFile = [...built.resident].sort(([a], [b]) => a.offset - b.offset).map(([, { data }]) => data);
  expect(inFile[0]).toBe(ARENA_BASE + SYNC_SIZE);
  expect(inFile).toEqual([...inFile].sort((a, b) => a - b));
  expect(built.packing.matrices.length).toBeGreaterThan(0);
  expect(built.packing.broken.data).toBeGreaterThan(inFile.at(-1)!);
  expect(built.bytes).toBeGreaterThanOrEqual(built.packing.scratchAt + machine.threads * built.packing.scratchSize);
});

it('a plan that was made of another graph, or places them elsewhere, is told', () => {
  const built = early()!;
  expect(isOf(built, planned())).toBe(false);
  const same = planned({}, built.graph);
  expect(isOf({ ...built, at: built.at.map((at) => at + 64) }, same)).toBe(false);
  expect(isOf({ ...built, packing: { ...built.packing, scratchAt: 0 } }, same)).toBe(false);
  expect(isOf(built, planned({ links: 2 } as LoadOptions, built.graph))).toBe(false);
});

it('what might not fit, or not stay in one memory, is planned first', () => {
  expect(early({}, { ...machine, free: 2 ** 28 })).toBeUndefined();
  expect(early({}, { ...machine, free: 2 ** 29 })).toBeDefined();
  expect(early({ weightsMemory: 2 ** 20 })).toBeUndefined();
  expect(early({ links: 2 } as LoadOptions)).toBeUndefined();
  // Keys and values alone nearly fill a memory.
  const cells = { contextLength: 256, cacheTypeK: 'f32', cacheTypeV: 'f32' } as const;
  const [one, two] = [1, 2].map((parallel) => early({ ...cells, parallel })!.cacheBytes);
  const parallel = Math.ceil(MEMORY_LIMIT / 1.25 / (two - one));
  expect(early({ ...cells, parallel })).toBeUndefined();
});

it('claiming memory touches every page from the last one to the first, a few at a time, changes nothing, and ends when it is told to', async () => {
  const PAGE = 4096;
  const at = vi.spyOn(Atomics, 'compareExchange');
  const memory = new WebAssembly.Memory({ initial: 64, maximum: 64, shared: true });
  const bytes = new Uint8Array(memory.buffer);
  bytes.fill(255, 5 * PAGE, 6 * PAGE);
  const before = bytes.slice();
  const wanted = 3 * 256 * PAGE - 100;
  const { done } = claimPages(memory, wanted);
  expect(at).not.toHaveBeenCalled();
  await yieldToEventLoop();
  await yieldToEventLoop();
  expect(at.mock.calls.length).toBeLessThanOrEqual(2 * 256);
  while (at.mock.calls.length < 3 * 256) await yieldToEventLoop();
  await done;
  const pages = at.mock.calls.map(([, word]) => Math.floor((4 * word) / PAGE));
  expect(new Set(pages)).toEqual(new Set(Array.from({ length: 3 * 256 }, (_, i) => i)));
  expect(pages[0]).toBeGreaterThan(pages.at(-1)!);
  expect(Buffer.from(bytes.buffer).equals(before)).toBe(true);
  at.mockClear();
  claimPages(memory, wanted).stop();
  for (let i = 0; i < 5; i++) await yieldToEventLoop();
  expect(at).not.toHaveBeenCalled();
  at.mockRestore();
});

/** Runs rehearse(). Returns the records that it computed, with the number of tokens of each. */
async function rehearsed(
  firstTokens: number,
  read: Promise<unknown>,
  claiming?: Parameters<typeof rehearse>[4],
  stopAfter = Infinity,
  plan = planned(),
) {
  const called: { record: number; nTokens: number }[] = [];
  const abort = new AbortController();
  const executor = {
    write() {},
    rehearse(_: number, record: number, nTokens: number) {
      if (called.push({ record, nTokens }) >= stopAfter) abort.abort(new Error('enough'));
    },
  } as unknown as Executor;
  await rehearse(executor, plan, firstTokens, read, claiming, abort.signal);
  return { called, records: plan.passes[0].plan.records };
}

it('a record of each kind is computed while weights are read: for the tokens of the first step, or as few as have the same kernels, and for one', async () => {
  const reading = new Promise(() => {});
  for (const [first, want] of [
    [7, 7],
    [16, 16],
    [17, 17],
    [40, 20],
    [43, 19],
  ]) {
    const { called, records } = await rehearsed(first, reading);
    expect([...new Set(called.map(({ nTokens }) => nTokens))]).toEqual([want, 1]);
    const codes = (n: number) => new Set(called.filter(({ nTokens }) => nTokens === n).map(({ record }) => records[record].code));
    expect(codes(want)).toEqual(new Set(records.map(({ code }) => code)));
    expect(codes(1)).toEqual(codes(want));
    expect(called.length).toBeLessThan(records.length);
  }
});

it('none when the weights are there, nor before memory was found for them; an abort ends it', async () => {
  expect((await rehearsed(7, Promise.resolve())).called).toEqual([]);
  expect((await rehearsed(7, Promise.reject(new Error('damaged')))).called).toEqual([]);
  let found = (): void => {};
  const done = new Promise<void>((resolve) => (found = resolve));
  const under = rehearsed(7, new Promise(() => {}), { done, stop() {} });
  expect(await Promise.race([under, yieldToEventLoop().then(() => 'waits')])).toBe('waits');
  found();
  expect((await under).called.length).toBeGreaterThan(5);
  await expect(rehearsed(7, new Promise(() => {}), undefined, 3)).rejects.toThrow('enough');
});

it('no step is larger than a batch may be', async () => {
  const { called } = await rehearsed(40, new Promise(() => {}), undefined, undefined, planned({ batchSize: 3 }));
  expect(new Set(called.map(({ nTokens }) => nTokens))).toEqual(new Set([3, 1]));
});

it('what reads indices that a step computes, as products of experts do, is left out: memory has others', async () => {
  const moe = await openModelFiles(platform, fileURLToPath(new URL('../golden/arch/llama-moe.gguf', import.meta.url)));
  try {
    const options = optionsOf();
    const plan = planToFit(moe.gguf, layoutOf(moe.gguf, options), options, machine);
    const { called, records } = await rehearsed(5, new Promise(() => {}), undefined, undefined, plan);
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
