/** Every architecture on every build against native llama.cpp's answers (test/golden/arch). */
import { readFileSync } from 'node:fs';
import { loadModel, type Model } from 'quantlet';
import { describe, expect, test } from 'vitest';
import { BUILDS } from '../builds.ts';

interface Case {
  model: string;
  lora?: { file: string; scale: number };
  n_ctx: number;
  ids: number[];
  offset: number;
  largest: number;
  noise: number;
  noiseF16: number;
  rows?: number[];
  n_vocab: number;
  greedy: number[];
  margins: number[];
  pooling?: 'mean' | 'cls' | 'last' | 'rank';
  count: number;
}

const folder = new URL('../golden/arch/', import.meta.url);
const { cases } = JSON.parse(readFileSync(new URL('golden.json', folder), 'utf8')) as { cases: Case[] };
const f32 = new Float32Array(readFileSync(new URL('golden.f32', folder)).buffer);

/** Of the largest logit, rule 9: f32 sums in another order; 8-bit activations, where one flip spreads. */
const TOLERANCE = 2e-3, TOLERANCE_QUANTISED = 3e-2;
/** Pooled vectors have length one; sums in another order, an f16 cache. */
const TOLERANCE_VECTOR = 3e-3;
/** Ranks are logits of a head; their scale is the head's. */
const TOLERANCE_RANK = 2e-2;

async function logitsOf(model: Model, ids: readonly number[]): Promise<Float32Array[]> {
  const rows: Float32Array[] = [];
  await model.state.scheduler.submit(0, 0, ids, 0, (logits) => rows.push(logits.slice()));
  return rows;
}

describe.each(BUILDS)('%s', (build) => {
  test.each(cases.map((c) => [`${c.model}${c.lora ? ` and ${c.lora.file}` : ''} n_ctx ${c.n_ctx} ${c.pooling ?? 'logits'}`, c] as const))('%s', async (_, c) => {
    const path = new URL(c.model, folder);
    const model = await loadModel(path, { build, threads: 2, contextLength: c.n_ctx, maxOutputs: 64, warmUp: false, lora: c.lora ? [{ source: new URL(c.lora.file, folder), scale: c.lora.scale }] : [], ...(c.pooling && c.pooling !== 'rank' ? { embeddings: true } : {}) });
    try {
      if (c.pooling) {
        const want = f32.subarray(c.offset, c.offset + c.count);
        const { embed, pooledRank } = await vectors();
        const got = c.pooling === 'rank' ? await pooledRank(model, c.ids) : (await embed(model.state, [c.ids], { pooling: c.pooling })).vectors[0];
        expect(got.length).toBe(want.length);
        const off = Math.max(...want.map((w, i) => Math.abs(w - got[i])));
        expect(off, `${c.model}: largest difference`).toBeLessThan(c.pooling === 'rank' ? TOLERANCE_RANK : TOLERANCE_VECTOR);
        return;
      }
      const tolerance = c.model.includes('q4_0') ? TOLERANCE_QUANTISED : TOLERANCE;
      // The engine's cache is f16: native's own difference with such a cache is allowed on top.
      const allowed = tolerance * c.largest + c.noiseF16;
      const rows = await logitsOf(model, c.ids);
      for (const [k, row] of c.rows!.entries()) {
        const want = f32.subarray(c.offset + k * c.n_vocab, c.offset + (k + 1) * c.n_vocab);
        const off = Math.max(...want.map((w, i) => Math.abs(w - rows[row][i])));
        expect(off, `${c.model} position ${row}: largest difference, largest logit ${c.largest}`).toBeLessThanOrEqual(allowed);
      }
      const { ids } = await model.generate(c.ids, { maxTokens: 32, temperature: 0, ignoreEos: true }).result();
      const k = c.greedy.findIndex((id, i) => ids[i] !== id);
      if (k >= 0) expect(c.margins[k], `${c.model} step ${k}: ${ids[k]}, native ${c.greedy[k]}`).toBeLessThan(2 * Math.max(allowed, c.noise));
    } finally {
      await model.dispose();
    }
  });
});

test('an encoder keeps keys and values of one layer, a decoder of all', async () => {
  for (const [name, caches] of [['bert', 1], ['llama', 2]] as const) {
    const model = await loadModel(new URL(`${name}.gguf`, folder), { build: 'simd', warmUp: false });
    expect(model.state.engine.caches, name).toHaveLength(caches);
    await model.dispose();
  }
});

async function vectors() {
  const { embed } = await import('../../dist/embed.js');
  const pooledRank = async (model: Model, ids: readonly number[]): Promise<Float32Array> => {
    let last = new Float32Array(0), first: Float32Array | undefined;
    await model.state.scheduler.submit(0, 0, ids, 0, (row) => (first ??= row.slice(), last = row.slice()));
    return model.state.engine.hparams.causal ? last : first!;
  };
  return { embed, pooledRank };
}
