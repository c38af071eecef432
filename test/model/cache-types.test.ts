/**
 * Each type of KV cache: its effect on a model's numbers, the same bits however a text is cut into
 * batches, and unknown types.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { loadModel, type Build, type KvType, type LoadOptions, type Model } from 'quantlet';
import { describe, expect, it } from 'vitest';
import { BUILDS } from '../builds.ts';
import {
  bitDifference,
  failure,
  greedyFault,
  greedyIds,
  llamaModel,
  logitsOf,
  patchedLlama,
  randomIds,
  root,
  runCli,
  shippedModel,
  type Greedy,
} from '../support.ts';

const TYPES = ['f16', 'f32', 'q8_0', 'q4_0', 'q4_1', 'q5_0', 'q5_1', 'iq4_nl', 'bf16'] as const satisfies readonly KvType[];

/**
 * Allowed change in nats per token of a text's log probability, relative to the f32 cache. It only
 * tells a coarse cache from a broken one.
 *
 * F16: rounding averages out over a text. Native's own ways to compute one (a single batch, token
 * by token) differ by 0.0003 for any type. A bound of 0.002 leaves room for other texts and models.
 *
 * Q8_0 rounds keys and values to 8 bits, as activations are, relative to their block's largest. The
 * bound is twice that of f16.
 *
 * Q4_0 has 15 steps per block, and keys have outliers: 0.03 measured with this model. The other
 * types have bounds by their number of bits.
 */
const NLL_TOLERANCE: Readonly<Record<KvType, number>> = {
  f32: 0,
  f16: 0.002,
  bf16: 0.004,
  q8_0: 0.004,
  q5_1: 0.05,
  q5_0: 0.05,
  q4_1: 0.1,
  iq4_nl: 0.1,
  q4_0: 0.1,
};

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

  it("a story has nearly the same probability, and the cache has its type's size", async () => {
    const { ids, want, bytes } = await withModel(shippedModel, { cacheTypeK: 'f32', cacheTypeV: 'f32' }, async (model) => {
      const { promptIds, ids: told } = await model.generate('Once upon a time', { seed: 3, maxTokens: 400, ignoreEos: true }).result();
      const all = [...promptIds, ...told];
      return { ids: all, want: await nll(model, all), bytes: model.stats.memoryBytes };
    });
    const memory: number[] = [bytes];
    for (const type of ['f16', 'bf16', 'q8_0', 'q5_1', 'q5_0', 'q4_1', 'q4_0', 'iq4_nl'] as const) {
      await withModel(shippedModel, { cacheTypeK: type, cacheTypeV: type }, async (model) => {
        const got = await nll(model, ids);
        expect(Math.abs(got - want), `${type}: ${got} nats a token, f32 ${want}`).toBeLessThanOrEqual(NLL_TOLERANCE[type]);
        memory.push(model.stats.memoryBytes);
      });
    }
    expect(memory, 'f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl').toEqual([...memory].sort((a, b) => b - a));
  });

  it.each([
    ['f32', 'f32'],
    ['f16', 'f16'],
    ['q8_0', 'q8_0'],
    ['f32', 'q8_0'],
    ['bf16', 'q5_1'],
  ] as const)("greedy ids are native's with %s keys and %s values", (cacheTypeK, cacheTypeV) =>
    withModel(shippedModel, { cacheTypeK, cacheTypeV }, async (model) =>
      expect(greedyFault(await greedyIds(model, golden), golden)).toBe(''),
    ),
  );
});

/** Heads of 8 dimensions: q8_0 and q4_0 pad them to a block of 32. */
describe.each(TYPES)('%s', (type) => {
  const seed = 17;
  const ids = randomIds(611, 272, seed);
  const caches = { cacheTypeK: type, cacheTypeV: type };
  const long = (): Promise<Uint8Array> => patchedLlama({ metadata: { 'llama.context_length': 1024 } });

  it.each<Build>(type === 'q5_0' || type === 'iq4_nl' ? BUILDS : ['simd', 'relaxed-threads'])(
    '%s: one batch, odd batches, 1 to 3 threads: the same bits',
    async (build) => {
      const want = await withModel(await long(), { ...caches, build, threads: 1 }, (model) => logitsOf(model, ids));
      expect(
        want.every((row) => row.every(Number.isFinite)),
        'logits are finite',
      ).toBe(true);
      const threaded = build.endsWith('-threads');
      for (const [threads, sizes] of [
        [threaded ? 2 : 1, [1]],
        [threaded ? 3 : 1, [5, 7, 17, 256]],
      ] as const) {
        const got = await withModel(await long(), { ...caches, build, threads }, (model) => logitsOf(model, ids, sizes));
        expect(bitDifference(got, want), `seed ${seed}, batches ${sizes}, ${threads} threads`).toBe('');
      }
    },
  );
});

it.each([
  ['q4_0', 'f16'],
  ['f32', 'q4_0'],
  ['iq4_nl', 'bf16'],
  ['q8_0', 'q5_1'],
] as const)('%s keys, %s values: three sequences at the same time as alone', async (cacheTypeK, cacheTypeV) => {
  await withModel(llamaModel, { cacheTypeK, cacheTypeV, threads: 2, parallel: 3, contextLength: 256 }, async (model) => {
    const sequences = [11, 12, 13].map((s, i) => randomIds([200, 40, 131][i], 272, s));
    const alone: Float32Array[][] = [];
    for (const s of sequences) alone.push(await logitsOf(model, s));
    const together = await Promise.all(sequences.map((s, i) => logitsOf(model, s, [[100], [7], [40, 1, 3]][i])));
    together.forEach((rows, i) => expect(bitDifference(rows, alone[i]), `sequence ${i} of seeds 11, 12, 13`).toBe(''));
  });
});

describe('heads of 128, which are rotated in caches of block types', () => {
  const file = fileURLToPath(new URL('test/golden/arch/llama-head128.gguf', root));
  const q4_0 = { cacheTypeK: 'q4_0', cacheTypeV: 'q4_0', contextLength: 512 } as const;
  const ids = randomIds(300, 272, 5);

  it('one batch, odd batches, 1 to 3 threads: the same bits', async () => {
    const want = await withModel(file, { ...q4_0, threads: 1 }, (model) => logitsOf(model, ids));
    for (const threads of [2, 3])
      await withModel(file, { ...q4_0, threads }, async (model) => {
        for (const sizes of [[1], [5, 17, 256]])
          expect(bitDifference(await logitsOf(model, ids, sizes), want), `batches ${sizes}, ${threads} threads`).toBe('');
      });
  });

  it('a state can only be loaded into a cache with the same rotation', async () => {
    const greedy = { temperature: 0, ignoreEos: true, maxTokens: 12 } as const;
    const [state, want] = await withModel(file, q4_0, async (model) => {
      await model.generate(ids, greedy).result();
      return [await model.saveState(), (await model.generate(ids, greedy).result()).ids] as const;
    });
    await withModel(file, { ...q4_0, threads: 1 }, async (model) => {
      await model.loadState(state);
      const { ids: got, timings } = await model.generate(ids, greedy).result();
      expect([got, timings.promptTokens]).toEqual([want, 1]);
    });
    await withModel(file, { ...q4_0, cacheRotation: false }, async (model) => {
      const { code, message } = await failure(model.loadState(state));
      expect([code, message]).toEqual([
        'ERR_STATE',
        'the state has another form of cache: its cacheRotationK is 128; expected 0; load the model with cacheRotation true',
      ]);
    });
    await withModel(file, { contextLength: 512 }, async (model) =>
      expect((await failure(model.loadState(state))).message).toMatch(/load the model with cacheTypeK "q4_0"/),
    );
  });
});

describe('unknown types', () => {
  it.each([
    ['cacheTypeK', 'q5_K'],
    ['cacheTypeV', 'F16'],
    ['cacheTypeK', 8],
    ['cacheTypeV', null],
  ])('%s: %j', async (name, type) => {
    const { code, message } = await failure(loadModel(llamaModel, { [name]: type }));
    const said = `loadModel: ${name} is ${JSON.stringify(type)}; expected ${TYPES.map((one) => JSON.stringify(one)).join(' or ')}`;
    expect([code, message]).toEqual(['ERR_INVALID_ARGUMENT', said]);
  });

  it('-ctk and -ctv on the command line', async () => {
    const args = ['-p', 'x', '-n', 4, '--temp', 0, '--no-warmup'];
    const good = await runCli(['run', '-m', llamaModel, ...args, '-ctk', 'q5_1', '--cache-type-v', 'iq4_nl']);
    expect(good.code, good.stderr).toBe(0);
    const bad = await runCli(['run', '-m', llamaModel, ...args, '-ctv', 'q3_K']);
    expect([bad.code, bad.stdout], bad.stderr).toEqual([2, '']);
    expect(bad.stderr).toMatch(/^quantlet: --cache-type-v is "q3_K"[^\n]*\(ERR_INVALID_ARGUMENT\)\n$/);
  });
});
