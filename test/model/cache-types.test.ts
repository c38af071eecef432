/** The KV cache as f16, f32, q8_0 and q4_0: how far each moves a model, the same bits however a text is cut, and types that are none. */
import { readFileSync } from 'node:fs';
import { loadModel, type Build, type KvType, type LoadOptions, type Model } from 'quantlet';
import { describe, expect, it } from 'vitest';
import { bitDifference, failure, greedyFault, greedyIds, llamaModel, logitsOf, patchedLlama, randomIds, root, runCli, shippedModel, type Greedy } from '../support.ts';

const TYPES: readonly KvType[] = ['f16', 'f32', 'q8_0', 'q4_0'];

/**
 * Nats a token that a text may become less (or more) probable against the f32 cache. f16: what native differs from itself (ground rule 9).
 * q8_0 rounds keys and values to 8 bits of their block's largest, as activations are: twice that. q4_0 has 15 steps for a block, and keys have
 * outliers: 0.03 measured with this model; the bound tells a rough cache from a broken one.
 */
const NLL_TOLERANCE: Readonly<Record<KvType, number>> = { f32: 0, f16: 0.002, q8_0: 0.004, q4_0: 0.1 };

async function withModel<T>(source: string | Uint8Array, options: LoadOptions, use: (model: Model) => Promise<T>): Promise<T> {
  const model = await loadModel(source, { warmUp: false, contextLength: 700, maxOutputs: 512, ...options });
  try {
    return await use(model);
  } finally {
    await model.dispose();
  }
}

async function nll(model: Model, ids: readonly number[]): Promise<number> {
  const rows = await logitsOf(model, ids);
  let sum = 0;
  for (let i = 0; i + 1 < ids.length; i++) {
    const most = rows[i].reduce((a, b) => Math.max(a, b));
    sum += most + Math.log(rows[i].reduce((s, x) => s + Math.exp(x - most), 0)) - rows[i][ids[i + 1]];
  }
  return sum / (ids.length - 1);
}

describe('the model that ships', () => {
  const golden = JSON.parse(readFileSync(new URL('test/golden/tiny-stories-q4_0.json', root), 'utf8')) as Greedy;

  it('a story is about as probable, and the cache as large as its type says', async () => {
    const { ids, want, bytes } = await withModel(shippedModel, { cacheTypeK: 'f32', cacheTypeV: 'f32' }, async (model) => {
      const { promptIds, ids: told } = await model.generate('Once upon a time', { seed: 3, maxTokens: 400, ignoreEos: true }).result();
      const all = [...promptIds, ...told];
      return { ids: all, want: await nll(model, all), bytes: model.stats.memoryBytes };
    });
    const memory: number[] = [bytes];
    for (const type of ['f16', 'q8_0', 'q4_0'] as const) {
      await withModel(shippedModel, { cacheTypeK: type, cacheTypeV: type }, async (model) => {
        const got = await nll(model, ids);
        expect(Math.abs(got - want), `${type}: ${got} nats a token, f32 ${want}`).toBeLessThanOrEqual(NLL_TOLERANCE[type]);
        memory.push(model.stats.memoryBytes);
      });
    }
    expect(memory, 'f32, f16, q8_0, q4_0').toEqual([...memory].sort((a, b) => b - a));
  });

  it.each([['f32', 'f32'], ['f16', 'f16'], ['q8_0', 'q8_0'], ['f32', 'q8_0']] as const)('greedy ids are native\'s with %s keys and %s values', (cacheTypeK, cacheTypeV) =>
    withModel(shippedModel, { cacheTypeK, cacheTypeV }, async (model) => expect(greedyFault(await greedyIds(model, golden), golden)).toBe('')));
});

/** Heads of 8 dimensions: q8_0 and q4_0 pad them to a block of 32. */
describe.each(TYPES)('%s', (type) => {
  const seed = 17, ids = randomIds(611, 272, seed), caches = { cacheTypeK: type, cacheTypeV: type };
  const long = (): Promise<Uint8Array> => patchedLlama({ metadata: { 'llama.context_length': 1024 } });

  it.each<Build>(['simd', 'relaxed-threads'])('%s: one batch, odd batches, 1 to 3 threads: the same bits', async (build) => {
    const want = await withModel(await long(), { ...caches, build, threads: 1 }, (model) => logitsOf(model, ids));
    expect(want.every((row) => row.every(Number.isFinite)), 'logits are finite').toBe(true);
    for (const threads of build === 'simd' ? [1] : [2, 3]) {
      await withModel(await long(), { ...caches, build, threads }, async (model) => {
        for (const sizes of [[1], [5, 7, 17, 256]]) expect(bitDifference(await logitsOf(model, ids, sizes), want), `seed ${seed}, batches ${sizes}, ${threads} threads`).toBe('');
      });
    }
  });
});

it.each(['q4_0 keys', 'q4_0 values'])('%s beside another type: three sequences at the same time as alone', async (which) => {
  const types = which === 'q4_0 keys' ? ({ cacheTypeK: 'q4_0', cacheTypeV: 'f16' } as const) : ({ cacheTypeK: 'f32', cacheTypeV: 'q4_0' } as const);
  await withModel(llamaModel, { ...types, threads: 2, parallel: 3, contextLength: 256 }, async (model) => {
    const sequences = [11, 12, 13].map((s, i) => randomIds([200, 40, 131][i], 272, s));
    const alone: Float32Array[][] = [];
    for (const s of sequences) alone.push(await logitsOf(model, s));
    const together = await Promise.all(sequences.map((s, i) => logitsOf(model, s, [[100], [7], [40, 1, 3]][i])));
    together.forEach((rows, i) => expect(bitDifference(rows, alone[i]), `sequence ${i} of seeds 11, 12, 13`).toBe(''));
  });
});

describe('types that are none', () => {
  it.each([['cacheTypeK', 'q5_1'], ['cacheTypeV', 'F16'], ['cacheTypeK', 8], ['cacheTypeV', null]])('%s: %j', async (name, type) => {
    const { code, message } = await failure(loadModel(llamaModel, { [name]: type }));
    expect([code, message.startsWith(name)], message).toEqual(['ERR_INVALID_ARGUMENT', true]);
    expect(message).toMatch(/f16, f32, q8_0, q4_0/);
  });

  it('-ctk and -ctv on the command line', async () => {
    const args = ['-p', 'x', '-n', 4, '--temp', 0, '--no-warmup'];
    const good = await runCli(['run', '-m', llamaModel, ...args, '-ctk', 'q8_0', '--cache-type-v', 'f32']);
    expect(good.code, good.stderr).toBe(0);
    const bad = await runCli(['run', '-m', llamaModel, ...args, '-ctv', 'q3_K']);
    expect([bad.code, bad.stdout], bad.stderr).toEqual([2, '']);
    expect(bad.stderr).toMatch(/^quantlet: cacheTypeV is "q3_K"[^\n]*\(ERR_INVALID_ARGUMENT\)\n$/);
  });
});
