/**
 * PowerInfer's architectures (llama with ReLU, bamboo, falcon with ReLU, opt): dense, with a row
 * per neuron, and with predictors, compared with scalar f64. Native llama.cpp has two of them and
 * computes them densely only.
 */
import { loadModel, type LoadOptions } from 'quantlet';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { sparsify } from '../../src/cli/sparsify.ts';
import { TYPE } from '../../src/type-traits.ts';
import { BUILDS } from '../builds.ts';
import { invoke } from '../cli/commands.ts';
import { readGguf, type MetaValue } from '../reference/gguf.ts';
import { reference } from '../reference/llm.ts';
import { bitDifference, failure, logitsOf, patchedLlama, randomIds, RUNS, temporaryFolder, TOLERANCE, writeTo } from '../support.ts';
import { goldenModel, SPARSE } from './golden-models.ts';

const IDS = randomIds(19, 272, 5);

/** @param from index of the first token whose logits are returned */
async function logits(
  model: Uint8Array | string,
  options: LoadOptions,
  sizes: readonly number[] = [7, 1, 16],
  from = 0,
): Promise<Float32Array[]> {
  const loaded = await loadModel(model, {
    contextLength: 64,
    maxOutputs: IDS.length,
    warmUp: false,
    cacheTypeK: 'f32',
    cacheTypeV: 'f32',
    ...options,
  });
  try {
    return await logitsOf(loaded, IDS, sizes, from);
  } finally {
    await loaded.dispose();
  }
}

/** Largest difference, relative to the largest logit. */
function apart(got: readonly ArrayLike<number>[], want: readonly Float64Array[]): number {
  const largest = Math.max(...want.flatMap((row) => [...row].map(Math.abs)));
  return Math.max(...want.flatMap((row, r) => [...row].map((v, i) => Math.abs(v - got[r][i])))) / largest;
}

const models = Object.keys(SPARSE);
const want = new Map(models.map((name) => [name, reference(readGguf(goldenModel(name))).logits(IDS, 64)]));

describe('the reference', () => {
  it.each(['llama', 'bamboo', 'falcon', 'opt'])('%s: rows give the dense model, predictors leave out neurons', (name) => {
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
  // Dense models use no op that other architectures do not, so one build is enough.
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

it("a threshold other than the file's, with predictors", async () => {
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

it("opt's learnt positions end with its table", async () => {
  const bytes = goldenModel('opt-relu');
  const model = await loadModel(bytes, { build: 'simd', warmUp: false });
  expect(model.contextLength).toBe(64);
  await model.dispose();
  const { code, message } = await failure(() => loadModel(bytes, { build: 'simd', contextLength: 65 }));
  expect([code, message]).toEqual(['ERR_INVALID_ARGUMENT', expect.stringMatching(/65 tokens.*at most 64/)]);
});

describe('generated tokens that skip heads', () => {
  const folder = temporaryFolder();
  const [share, from] = [0.5, 6];
  const files: Record<string, Promise<string>> = {};
  /**
   * Makes the sparse file of a model, once. Among the models are one product for q, k and v or
   * three, biases, and a norm before the last product.
   */
  const made = (name: string): Promise<string> =>
    (files[name] ??= (async () => {
      const file = join(folder, `${name}.gguf`);
      await invoke(sparsify, ['-m', writeTo(folder, `${name}-dense.gguf`, goldenModel(name)), '-o', file, '--heads']);
      return file;
    })());
  const ofTokens = (name: string): Float64Array[] =>
    reference(readGguf(goldenModel(name)), { attnHeads: { share, from } })
      .logits(IDS, 64)
      .slice(from);

  it.each(['llama-relu', 'opt-relu', 'falcon-relu', 'bitnet.gguf'])('%s', async (name) => {
    const want = ofTokens(name);
    expect(
      apart(
        want,
        reference(readGguf(goldenModel(name)))
          .logits(IDS, 64)
          .slice(from),
      ),
    ).toBeGreaterThan(1e-2);
    expect(apart(await logits(await made(name), { build: 'simd', attnHeads: share }, [16], from), want)).toBeLessThan(TOLERANCE.f32);
  });

  it.each(RUNS)('%s, %i threads: the same bits in any batch, close to the reference', async (build, threads) => {
    const model = await made('llama-relu');
    const whole = await logits(model, { build, threads, attnHeads: share }, [19], from);
    expect(apart(whole, ofTokens('llama-relu'))).toBeLessThan(TOLERANCE.f32);
    expect(bitDifference(await logits(model, { build, threads, attnHeads: share, links: 2 }, [from, 1, 1, 5, 1], from), whole)).toBe('');
  });

  it('with all heads, the result of the dense weights', async () => {
    const model = await made('llama-relu');
    expect(apart(await logits(model, { build: 'simd', attnHeads: 1 }), want.get('llama-relu')!)).toBeLessThan(TOLERANCE.f32);
  });

  it('a head with NaN is never left out', async () => {
    const name = 'blk.1.attn_v.weight';
    const path = await made('llama-relu');
    const { ne } = readGguf(readFileSync(path)).tensors.get(name)!;
    const data = new Float32Array(ne[0] * ne[1]).fill(1e-9);
    data[0] = NaN;
    const broken = await patchedLlama({ tensors: { [name]: { type: TYPE.f32, ne, data: new Uint8Array(data.buffer) } } }, path);
    for (const row of await logits(broken, { build: 'simd', attnHeads: share }, [1])) expect(row.some(Number.isNaN)).toBe(true);
  });

  it('refusals', async () => {
    const options = { build: 'simd', attnHeads: share } as const;
    expect(await failure(() => logits(goldenModel('llama-relu'), options))).toMatchObject({
      code: 'ERR_INVALID_ARGUMENT',
      message: expect.stringMatching(/no layer of this llama model has rows of heads/),
    });
    expect(await failure(() => made('qwen35').then((model) => logits(model, options)))).toMatchObject({
      code: 'ERR_INVALID_ARGUMENT',
      message: expect.stringMatching(/qwen35 model has recurrent layers/),
    });
    const path = await made('llama-relu');
    for (const [patch, code] of [
      [{ 'blk.0.attn_output_t.squares': undefined }, 'ERR_MISSING_TENSOR'],
      [{ 'blk.0.attn_output_t.squares': { type: TYPE.f32, ne: [3], data: new Uint8Array(12) } }, 'ERR_TENSOR_SHAPE'],
      [{ 'blk.1.attn_output_t.weight': { type: TYPE.f32, ne: [32, 24], data: new Uint8Array(32 * 24 * 4) } }, 'ERR_TENSOR_SHAPE'],
    ] as const)
      expect(await failure(() => patchedLlama({ tensors: patch }, path).then((model) => logits(model, options)))).toMatchObject({ code });
    const again = await failure(() => invoke(sparsify, ['-m', path, '-o', join(folder, 'no.gguf'), '--heads']));
    expect(again).toMatchObject({ code: 'ERR_INVALID_ARGUMENT', message: expect.stringMatching(/rows of heads already/) });
  });
});

describe('neurons of experts', () => {
  const folder = temporaryFolder();
  const dense = writeTo(folder, 'dense.gguf', goldenModel('smallthinker.gguf'));
  const sparse = join(folder, 'sparse.gguf');
  const rowsOf = async (): Promise<string> => {
    if (!existsSync(sparse)) await invoke(sparsify, ['-m', dense, '-o', sparse]);
    return sparse;
  };
  const [up, gate, down] = ['up', 'gate', 'down'].map((part) => `blk.1.ffn_${part}_exps`);

  it.each(RUNS)('%s, %i threads', async (build, threads) => {
    const whole = await logits(await rowsOf(), { build, threads }, [19]);
    expect(apart(whole, reference(readGguf(goldenModel('smallthinker.gguf'))).logits(IDS, 64))).toBeLessThan(TOLERANCE.f32);
    expect(bitDifference(await logits(sparse, { build, threads, links: 2 }, [5, 1]), whole)).toBe('');
  });

  it('nothing is read of neurons that do not fire', async () => {
    const tensors = readGguf(readFileSync(await rowsOf())).tensors;
    const [n, rows] = tensors.get(`${up}.weight`)!.ne;
    // The fourth neuron of each expert gets a closed gate, and NaN in its other weights.
    const other = (name: string, v: number): [string, { type: typeof TYPE.f32; ne: readonly number[]; data: Uint8Array }] => {
      const t = tensors.get(`${name}.weight`)!;
      const values = Float32Array.from({ length: t.ne[0] * t.ne[1] * t.ne[2] }, (_, i) =>
        Math.floor(i / n) % rows === 3 ? v : t.row(Math.floor(i / n))[i % n],
      );
      return [`${name}.weight`, { type: TYPE.f32, ne: t.ne, data: new Uint8Array(values.buffer) }];
    };
    const with_ = (v: number): Promise<Uint8Array> =>
      patchedLlama({ tensors: Object.fromEntries([other(gate, 0), other(up, v), other(`${down}_t`, v)]) }, sparse);
    expect(bitDifference(await logits(await with_(NaN), { build: 'simd' }), await logits(await with_(0), { build: 'simd' }))).toBe('');
  });

  it('refusals', async () => {
    const path = await rowsOf();
    for (const [patch, code] of [
      [{ [`${down}_t.weight`]: { type: TYPE.f32, ne: [32, 7, 4] } }, 'ERR_TENSOR_SHAPE'],
      [{ [`${up}.bias`]: { type: TYPE.f32, ne: [4] } }, 'ERR_UNSUPPORTED_ARCH'],
      [{ [`${up}.weight`]: undefined }, 'ERR_MISSING_TENSOR'],
    ] as const)
      expect(await failure(() => patchedLlama({ tensors: patch }, path).then((model) => logits(model, {})))).toMatchObject({ code });
    const refused = (...args: string[]): Promise<unknown> => failure(() => invoke(sparsify, [...args, '-o', join(folder, 'no.gguf')]));
    expect(await refused('-m', path)).toMatchObject({ message: expect.stringMatching(/is sparse already/) });
    expect(await refused('-m', dense, '-p', 'a text')).toMatchObject({
      message: expect.stringMatching(/neurons .* experts.*leave out the text/),
    });
  });
});
