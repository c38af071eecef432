/**
 * A token's logits have the same bits for any number of threads, any division of the prompt into
 * batches, and with any other sequences.
 */
import { loadModel, type Build, type LoadOptions, type Model } from 'quantlet';
import { TYPE } from '../../src/type-traits.ts';
import { isThreaded } from '../../src/wasm/load.ts';
import { describe, expect, it } from 'vitest';
import { BUILDS, bitDifference, logitsOf, patchedLlama, randomIds, type Patch } from '../support.ts';

const VOCAB = 272;
/** An odd number of tokens: longer than two KV splits (256 cells) and than a step (512 tokens). */
const LONG = 611;

/**
 * The weights as f32, and random q8_0 blocks of moderate scale, to test integer products and
 * quantised activations.
 */
const variants: Record<string, Patch> = {
  f32: { metadata: { 'llama.context_length': 1024 } },
  q8_0: {
    metadata: { 'llama.context_length': 1024 },
    tensors: Object.fromEntries(
      [0, 1].flatMap((il) =>
        (
          [
            ['attn_q', 32],
            ['attn_k', 16],
            ['attn_v', 16],
            ['attn_output', 32],
            ['ffn_gate', 40],
            ['ffn_up', 40],
          ] as const
        ).map(([name, rows]) => [`blk.${il}.${name}.weight`, { type: TYPE.q8_0, ne: [32, rows], data: q8_0(rows, il * 64 + rows) }]),
      ),
    ),
  },
};

function q8_0(blocks: number, seed: number): Uint8Array {
  const bytes = Uint8Array.from(randomIds(blocks * 34, 256, seed));
  for (let b = 0; b < blocks; b++) bytes.set([0x00, 0x14], b * 34); // d = 2^-10
  return bytes;
}

async function withModel<T>(patch: Patch, options: LoadOptions, use: (model: Model) => Promise<T>): Promise<T> {
  const model = await loadModel(await patchedLlama(patch), { warmUp: false, contextLength: 1024, maxOutputs: 512, ...options });
  try {
    return await use(model);
  } finally {
    await model.dispose();
  }
}

for (const [name, patch] of Object.entries(variants)) {
  describe(name, () => {
    const seed = 7;
    const ids = randomIds(LONG, VOCAB, seed);
    it.each(BUILDS)('%s: one batch, token by token, odd batches', (build) =>
      withModel(patch, { build, threads: 2 }, async (model) => {
        const want = await logitsOf(model, ids);
        expect(
          want.every((row) => row.every(Number.isFinite)),
          'logits are finite',
        ).toBe(true);
        for (const sizes of [[1], [5, 7, 17, 3, 2], [4, 1, 300], [256, 1, 255]]) {
          expect(bitDifference(await logitsOf(model, ids, sizes), want), `seed ${seed}, batches ${sizes}`).toBe('');
        }
      }),
    );

    it.each(['simd-threads', 'relaxed-threads'] as const)('%s: 1, 2, 3 and 5 threads', async (build) => {
      const run = (threads: number): Promise<Float32Array[]> =>
        withModel(patch, { build, threads }, (model) => logitsOf(model, ids, [512, 98, 1], LONG - 120));
      const want = await run(1);
      for (const threads of [2, 3, 5]) expect(bitDifference(await run(threads), want), `seed ${seed}, ${threads} threads`).toBe('');
    });

    it.each(['relaxed', 'relaxed-threads'] as const)('%s: small steps (batchSize 32) give the bits of large ones', async (build) => {
      const want = await withModel(patch, { build, threads: 2 }, (model) => logitsOf(model, ids, [LONG], LONG - 50));
      expect(
        bitDifference(
          await withModel(patch, { build, threads: 2, batchSize: 32 }, (model) => logitsOf(model, ids, [LONG], LONG - 50)),
          want,
        ),
        `seed ${seed}`,
      ).toBe('');
    });

    it.each(BUILDS)('%s: three sequences at the same time as alone', (build) =>
      withModel(patch, { build, threads: 2, parallel: 3 }, async (model) => {
        const sequences = [11, 12, 13].map((s, i) => randomIds([300, 40, 531][i], VOCAB, s));
        const alone: Float32Array[][] = [];
        for (const s of sequences) alone.push(await logitsOf(model, s));
        const together = await Promise.all(sequences.map((s, i) => logitsOf(model, s, [[300], [7], [40, 1, 3]][i])));
        together.forEach((rows, i) => expect(bitDifference(rows, alone[i]), `sequence ${i} of seeds 11, 12, 13`).toBe(''));
      }),
    );

    it.each(BUILDS.filter((build) => build.startsWith('dotadd')))('%s gives the bits of relaxed', async (build) => {
      const run = (build: Build): Promise<Float32Array[]> =>
        withModel(patch, { build, threads: 2 }, (model) => logitsOf(model, ids, [512, 98, 1], LONG - 120));
      expect(bitDifference(await run(build), await run('relaxed')), `seed ${seed}`).toBe('');
    });

    it('generations at the same time give the texts they give alone', () =>
      withModel(patch, { threads: 2, parallel: 3 }, async (model) => {
        const options = { maxTokens: 40, ignoreEos: true, seed: 5, temperature: 1.2 };
        const prompts = [21, 22, 23, 24, 25].map((s, i) => randomIds(3 + 50 * i, VOCAB, s));
        const alone: (readonly number[])[] = [];
        for (const p of prompts) alone.push((await model.generate(p, options).result()).ids);
        const together = await Promise.all(prompts.map((p) => model.generate(p, options).result()));
        expect(together.map((r) => r.ids)).toEqual(alone);
      }));

    it.each(['simd', 'relaxed-threads'] as const)('%s: a unified maximum close to the scores, and one far from them', async (build) => {
      const run = (options: LoadOptions, sizes = [512, 98, 1]): Promise<Float32Array[]> =>
        withModel(patch, { build, threads: 2, ...options }, (model) => logitsOf(model, ids, sizes, LONG - 50));
      const want = await run({});
      const near = await run({ unifiedMax: 1 });
      expect(bitDifference(await run({ unifiedMax: 5000 }), want), 'every part is computed the safe way').toBe('');
      expect(bitDifference(near, want), 'another scale').not.toBe('');
      expect(bitDifference(await run({ unifiedMax: 1 }, [300, 1, 310]), near), `seed ${seed}`).toBe('');
      await expect(run({ unifiedMax: NaN })).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
    });
  });
}

it.each(BUILDS)(
  'activations of 4 bits on %s: the same bits for any batch and threads, but not those of 8-bit activations',
  async (build) => {
    const ids = randomIds(70, VOCAB, 9);
    const run = (options: LoadOptions, sizes: number[]): Promise<Float32Array[]> =>
      withModel(variants.q8_0, { build, threads: 1, ...options }, (model) => logitsOf(model, ids, sizes, 60));
    const want = await run({ actBits: 4 }, [70]);
    expect(want.every((row) => row.every(Number.isFinite))).toBe(true);
    expect(bitDifference(await run({ actBits: 4, threads: isThreaded(build) ? 3 : 1 }, [1, 2, 3, 5, 7]), want)).toBe('');
    expect(bitDifference(await run({ actBits: 8 }, [70]), want)).not.toBe('');
  },
);
