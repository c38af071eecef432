/**
 * Models whose weights do not all stay in memory: the same bits, and files that change between two
 * steps.
 */
import { appendFileSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadModel, type Model } from 'quantlet';
import { describe, expect, it } from 'vitest';
import { streamedLayers } from '../../src/plan/windows.ts';
import { readGGUF } from '../../src/gguf/read.ts';
import { toBytes } from '../../src/io/source.ts';
import { goldenModel } from '../arch/golden-models.ts';
import { bitDifference, BUILDS, failure, logitsOf, randomIds, shippedModel, temporaryFolder } from '../support.ts';

const folder = temporaryFolder();
const LAYERS = 4;
/**
 * Memory for weights with which all four layers of the shipped model are read in every step, and
 * with which one stays.
 */
const [NONE, SOME] = [900_000, 1_300_000];
const prompt = randomIds(40, 250, 5);
const options = { warmUp: false, contextLength: 256, maxOutputs: 64 } as const;
const greedy = { temperature: 0, maxTokens: 6, ignoreEos: true } as const;
const ids = async (model: Model): Promise<string> => (await model.generate(prompt, greedy).result()).ids.join();

async function logits(source: string | Uint8Array, more: object): Promise<{ rows: Float32Array[]; model: Model }> {
  const model = await loadModel(source, { ...options, ...more });
  try {
    return { rows: await logitsOf(model, prompt, [17, 1, 5]), model };
  } finally {
    await model.dispose();
  }
}

describe('the same bits as with all weights in memory', () => {
  it.each(BUILDS)('%s', async (build) => {
    const want = await logits(shippedModel, { build, threads: 2 });
    for (const [weightsMemory, source] of [
      [NONE, shippedModel],
      [SOME, shippedModel],
      [NONE, readFileSync(shippedModel)],
    ] as const) {
      const got = await logits(source, { build, threads: 2, weightsMemory });
      expect(bitDifference(got.rows, want.rows), `${weightsMemory} bytes`).toBe('');
      expect(got.model.internals.engine.streams).toBe(true);
      expect(got.model.stats.memory.weights).toBeLessThanOrEqual(weightsMemory);
      expect(got.model.internals.engine.fingerprint).toBe(want.model.internals.engine.fingerprint);
    }
  });

  it.each([
    ['gemma3.gguf', 2],
    ['granitehybrid-moe', 1],
    ['lfm2', 1],
  ])('%s, memories: %i', async (name, links) => {
    const file = goldenModel(name);
    const want = await logits(file, { build: 'simd-threads' });
    const got = await logits(file, { build: 'simd-threads', links, weightsMemory: want.model.stats.memory.weights - 1 });
    expect(bitDifference(got.rows, want.rows)).toBe('');
    expect(got.model.internals.engine.streams).toBe(true);
  });
});

describe('tables whose rows are read as tokens need them', () => {
  it.each([
    ['olmoe-q4_0.gguf', ['token_embd.weight'], { build: 'simd-threads' }],
    ['gemma4', ['per_layer_token_embd.weight'], { build: 'simd-threads' }],
    ['gemma4-q4_0', ['per_layer_token_embd.weight'], { links: 2 }],
    ['llama.gguf', ['token_embd.weight'], { lora: [{ source: goldenModel('llama-lora.gguf') }] }],
  ] as const)('%s: %j', async (name, tables, more) => {
    const file = goldenModel(name);
    const want = await logits(file, { build: 'simd', ...more });
    const all = want.model.stats.memory.weights;
    const got = await logits(file, { build: 'simd', ...more, weightsMemory: all - 1 });
    expect(bitDifference(got.rows, want.rows)).toBe('');
    const { engine } = got.model.internals;
    expect(engine.streams).toBe(true);
    expect(engine.fingerprint).toBe(want.model.internals.engine.fingerprint);
    const { tensors } = await readGGUF(toBytes(file));
    const left = tables.reduce((sum, table) => sum + tensors.get(table)!.byteLength, 0);
    expect(all - got.model.stats.memory.weights).toBeGreaterThanOrEqual(left);
  });
});

describe('files that change', () => {
  const untied = goldenModel('llama.gguf');
  it.each([
    ['cut', shippedModel, (path: string) => truncateSync(path, 700_000), 'simd-threads'],
    ['longer', shippedModel, (path: string) => appendFileSync(path, 'x'), 'simd-threads'],
    ['written to', shippedModel, (path: string) => writeFileSync(path, readFileSync(path).fill(0, 600_000)), 'simd-threads'],
    ['written to, read by the host', shippedModel, (path: string) => writeFileSync(path, readFileSync(path).fill(0, 600_000)), 'simd'],
    ['rows, written to', untied, (path: string) => writeFileSync(path, readFileSync(path).fill(0, 20_000)), 'simd-threads'],
    ['rows, cut', untied, (path: string) => truncateSync(path, 20_000), 'simd'],
  ] as const)('%s: a coded error, and again when it is asked again', async (what, file, change, build) => {
    const path = join(folder, `${what}.gguf`);
    writeFileSync(path, typeof file === 'string' ? readFileSync(file) : file);
    const weightsMemory = file === untied ? 125_000 : NONE;
    const model = await loadModel(path, { ...options, build, threads: 2, weightsMemory });
    try {
      await ids(model);
      // the prefetched layers have been read
      await new Promise((resolve) => setTimeout(resolve, 50));
      change(path);
      // Layers read ahead may serve one more step, but no step gets through all of them.
      for (let i = 0; i < 2; i++) expect((await failure(ids(model))).code).toMatch(/^ERR_(SOURCE|GGUF_TRUNCATED)$/);
    } finally {
      await model.dispose();
    }
  });
});

it('an abort while a layer is read ends the step, and the next step works', async () => {
  const model = await loadModel(shippedModel, { ...options, build: 'simd-threads', threads: 2, weightsMemory: NONE });
  try {
    const want = await ids(model);
    const { all } = model.internals.slots;
    for (let i = 0; i < 8; i++) {
      const controller = new AbortController();
      const reason = new Error('enough');
      all[0].truncate(0);
      const running = failure(model.generate(prompt, { ...greedy, signal: controller.signal }).result());
      for (let turns = 0; turns < i; turns++) await new Promise((resolve) => setImmediate(resolve));
      controller.abort(reason);
      expect((await running).error).toBe(reason);
    }
    all[0].truncate(0);
    expect(await ids(model)).toBe(want);
    // Disposed of in the middle of a step.
    all[0].truncate(0);
    const running = failure(ids(model));
    await new Promise((resolve) => setImmediate(resolve));
    await model.dispose();
    expect((await running).code).toBe('ERR_DISPOSED');
  } finally {
    await model.dispose();
  }
});

describe('layers that stay', () => {
  const sizes = Array.from({ length: LAYERS }, () => 10);
  it('as many as fit besides two windows, evenly spread', () => {
    expect([...streamedLayers(sizes, 5, 45, 1)]).toEqual([]);
    expect([...streamedLayers(sizes, 5, 44, 1)]).toEqual([1, 2, 3]);
    expect([
      ...streamedLayers(
        Array.from({ length: 8 }, () => 10),
        5,
        65,
        1,
      ),
    ]).toEqual([1, 3, 5, 7]);
  });
  it('less than two windows is refused, and the message says what is needed', async () => {
    expect(await failure(async () => streamedLayers(sizes, 5, 24, 1))).toMatchObject({
      code: 'ERR_OUT_OF_MEMORY',
      message: expect.stringContaining('weightsMemory is 24') as string,
    });
    expect((await failure(async () => streamedLayers(sizes, 5, 24, 1))).message).toContain('at least 25 ');
  });
});
