/**
 * A model whose layers lie in several memories (memory links) gives the same bits as in one, and
 * its states can be loaded with any number of links.
 */
import { readFileSync } from 'node:fs';
import { loadModel, type LoadOptions, type Model } from 'quantlet';
import { describe, expect, it } from 'vitest';
import { at, bitDifference, BUILDS, logitsOf, randomIds, shippedModel } from '../support.ts';

/** Layers of the shipped model. */
const LAYERS = 4;
const golden = (name: string): string => at(`test/golden/arch/${name}.gguf`);

/**
 * Logits of all positions of 40 tokens, in batches of several sizes. Models that give one vector
 * return only the last row.
 */
async function logits(source: string | Uint8Array, options: LoadOptions): Promise<{ rows: Float32Array[]; passes: number }> {
  const model = await loadModel(source, { warmUp: false, contextLength: 256, maxOutputs: 64, ...options });
  try {
    const { hparams, passes } = model.internals.engine;
    const ids = randomIds(40, hparams.nVocab, 5);
    return { rows: await logitsOf(model, ids, hparams.causal ? [17, 1, 5] : [40]), passes: passes.length };
  } finally {
    await model.dispose();
  }
}

describe('the same bits in any number of links', () => {
  it.each(BUILDS)('%s: 1, 2, 3 and as many as there are layers', async (build) => {
    const want = await logits(shippedModel, { build, threads: 2 });
    expect(want.passes).toBe(1);
    // A link per layer, and the first one again for the output: the file has one table for both.
    for (const links of [2, 3, 1000]) {
      const got = await logits(shippedModel, { build, threads: 3, links });
      expect(bitDifference(got.rows, want.rows), `${links} links`).toBe('');
      expect(got.passes).toBe(Math.min(links, LAYERS) + 1);
    }
  });

  it.each(['llama-q4_0', 'gemma3', 'granite', 'phi3-longrope', 'starcoder2', 'bert', 'jina-bert-v2', 'qwen3-rank'])('%s', async (name) => {
    const want = await logits(golden(name), { build: 'simd' });
    const got = await logits(golden(name), { build: 'simd', links: 1000 });
    expect(bitDifference(got.rows, want.rows)).toBe('');
    expect(got.passes).toBeGreaterThan(1);
  });

  it('an adapter', async () => {
    const lora = [{ source: golden('llama-lora'), scale: 0.7 }];
    const want = await logits(golden('llama'), { build: 'simd-threads', lora });
    const got = await logits(golden('llama'), { build: 'simd-threads', lora, links: 2 });
    expect(bitDifference(got.rows, want.rows)).toBe('');
  });

  it('weights that the host reads, with threads and without', async () => {
    const bytes = readFileSync(shippedModel);
    const want = await logits(bytes, { build: 'simd-threads' });
    for (const build of ['simd', 'simd-threads'] as const) {
      const got = await logits(bytes, { build, links: 3 });
      expect(bitDifference(got.rows, want.rows), build).toBe('');
    }
  });
});

describe('saved sequences', () => {
  const prompt = randomIds(30, 900, 11);
  const greedy = { temperature: 0, maxTokens: 12, ignoreEos: true } as const;
  const next = async (model: Model): Promise<string> => (await model.generate(prompt, greedy).result()).ids.join();

  it('can be loaded by the same model with any number of links', async () => {
    const states: Uint8Array[] = [];
    const models = await Promise.all([1, 2, 4].map((links) => loadModel(shippedModel, { build: 'simd', links, warmUp: false })));
    try {
      const [want] = await Promise.all(models.map(next));
      for (const model of models) states.push(await model.saveState());
      expect(states.slice(1)).toEqual([states[0], states[0]]);
      await models[2].loadState(states[0]);
      expect(await next(models[2])).toBe(want);
    } finally {
      await Promise.all(models.map((model) => model.dispose()));
    }
  });
});
