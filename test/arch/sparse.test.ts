/**
 * The architectures of PowerInfer (llama with ReLU, bamboo, falcon with ReLU, opt), dense, by neurons' rows and with predictors, against scalar f64: native
 * llama.cpp has two of them and computes none of them so.
 */
import { loadModel, type LoadOptions } from 'quantlet';
import { describe, expect, it } from 'vitest';
import { BUILDS } from '../builds.ts';
import { readGguf, type MetaValue } from '../reference/gguf.ts';
import { reference } from '../reference/llm.ts';
import { failure, logitsOf, randomIds, TOLERANCE } from '../support.ts';
import { goldenModel, SPARSE } from './golden-models.ts';

const IDS = randomIds(19, 272, 5);

async function logits(model: Uint8Array, options: LoadOptions): Promise<Float32Array[]> {
  const loaded = await loadModel(model, {
    contextLength: 64,
    maxOutputs: IDS.length,
    warmUp: false,
    cacheTypeK: 'f32',
    cacheTypeV: 'f32',
    ...options,
  });
  try {
    return await logitsOf(loaded, IDS, [7, 1, 16]);
  } finally {
    await loaded.dispose();
  }
}

/** The largest difference, of the largest logit. */
function apart(got: readonly ArrayLike<number>[], want: readonly Float64Array[]): number {
  const largest = Math.max(...want.flatMap((row) => [...row].map(Math.abs)));
  return Math.max(...want.flatMap((row, r) => [...row].map((v, i) => Math.abs(v - got[r][i])))) / largest;
}

const models = Object.keys(SPARSE);
const want = new Map(models.map((name) => [name, reference(readGguf(goldenModel(name))).logits(IDS, 64)]));

describe('the reference', () => {
  it.each(['llama', 'bamboo', 'falcon', 'opt'])('%s: rows are the dense model, predictors leave neurons out', (name) => {
    expect(apart(want.get(`${name}-rows`)!, want.get(`${name}-relu`)!)).toBeLessThan(1e-12);
    expect(apart(want.get(`${name}-predicted`)!, want.get(`${name}-relu`)!)).toBeGreaterThan(1e-2);
  });
  it.each([
    ['llama-relu', 'powerinfer.sparse_threshold'],
    ['falcon-relu', 'powerinfer.sparse_threshold'],
    ['bamboo-predicted', 'powerinfer.sparse_threshold'],
  ])('%s notices %s', (name, key) => {
    const gguf = readGguf(goldenModel(name));
    (gguf.meta as Map<string, MetaValue>).delete(key);
    expect(apart(reference(gguf).logits(IDS, 64), want.get(name)!)).toBeGreaterThan(1e-2);
  });
});

describe.each(BUILDS.filter((build) => !build.endsWith('-threads')))('%s', (build) => {
  // Dense, they have nothing that other architectures have not.
  it.each(models.filter((name) => build === 'simd' || !name.endsWith('-relu')))('%s', async (name) => {
    expect(apart(await logits(goldenModel(name), { build }), want.get(name)!)).toBeLessThan(TOLERANCE.f32);
  });
});

it('the same bits with threads', async () => {
  for (const name of models.filter((m) => m.endsWith('-predicted'))) {
    const alone = await logits(goldenModel(name), { build: 'simd' });
    expect(await logits(goldenModel(name), { build: 'simd-threads', threads: 2 }), name).toEqual(alone);
  }
});

it("another threshold than the file's, where it has predictors", async () => {
  const with_ = (name: string, sparseThreshold: number): Promise<Float32Array[]> =>
    logits(goldenModel(name), { build: 'simd', sparseThreshold });
  for (const name of ['llama', 'opt']) {
    expect(apart(await with_(`${name}-predicted`, -Infinity), want.get(`${name}-rows`)!)).toBeLessThan(TOLERANCE.f32);
    expect(apart(await with_(`${name}-predicted`, 0.5), want.get(`${name}-predicted`)!)).toBeLessThan(TOLERANCE.f32);
    expect(apart(await with_(`${name}-predicted`, Infinity), want.get(`${name}-predicted`)!)).toBeGreaterThan(1e-2);
  }
  expect(await failure(() => with_('llama-rows', 0))).toMatchObject({
    code: 'ERR_INVALID_ARGUMENT',
    message: expect.stringMatching(/no predictors/),
  });
});

it("opt's learnt positions end where its table does", async () => {
  const bytes = goldenModel('opt-relu');
  const model = await loadModel(bytes, { build: 'simd', warmUp: false });
  expect(model.contextLength).toBe(64);
  await model.dispose();
  const { code, message } = await failure(() => loadModel(bytes, { build: 'simd', contextLength: 65 }));
  expect([code, message]).toEqual(['ERR_INVALID_ARGUMENT', expect.stringMatching(/65 tokens.*64 at most/)]);
});
