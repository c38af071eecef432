/**
 * Every architecture on every build, compared with native llama.cpp's answers (test/golden/arch).
 */
import { readFileSync } from 'node:fs';
import { loadModel, type Build, type Model } from 'quantlet';
import { describe, expect, test } from 'vitest';
import { BUILDS } from '../builds.ts';
import { readGguf, type MetaValue } from '../reference/gguf.ts';
import { reference } from '../reference/llm.ts';
import { logitsOf } from '../support.ts';
import { folder, goldenModel } from './golden-models.ts';

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

const { cases } = JSON.parse(readFileSync(new URL('golden.json', folder), 'utf8')) as { cases: Case[] };
const f32 = new Float32Array(readFileSync(new URL('golden.f32', folder)).buffer);

/**
 * Relative to the largest logit. F32: sums in another order. Quantised: an 8-bit activation that
 * rounds the other way affects what follows (test/support.ts).
 */
const TOLERANCE = 2e-3;
const TOLERANCE_QUANTISED = 3e-2;
/**
 * For pooled vectors, which have length one: sums in another order, and an f16 cache. If quantised,
 * they may differ as logits may, relative to the largest element.
 */
const TOLERANCE_VECTOR = 3e-3;
/** Ranks are logits of a head with a scale of its own. */
const TOLERANCE_RANK = 2e-2;

/**
 * Selects the models of a build. Of the models that tests make, builds without threads run the F32
 * ones and builds with threads the quantised ones. Both kinds of builds have the same arithmetic,
 * and starting threads takes longer than all the rest.
 */
const runsOn = (build: Build, { model }: Case): boolean =>
  model.endsWith('.gguf') || model.endsWith('-q4_0') === build.endsWith('-threads');

describe.each(BUILDS)('%s', (build) => {
  const ofBuild = cases.filter((c) => runsOn(build, c));
  test.each(ofBuild.map((c) => [`${c.model}${c.lora ? ` and ${c.lora.file}` : ''} n_ctx ${c.n_ctx} ${c.pooling ?? 'logits'}`, c] as const))(
    '%s',
    async (_, c) => {
      const source = c.model.endsWith('.gguf') ? new URL(c.model, folder) : goldenModel(c.model);
      const model = await loadModel(source, {
        build,
        threads: 2,
        contextLength: c.n_ctx,
        maxOutputs: 64,
        warmUp: false,
        lora: c.lora ? [{ source: new URL(c.lora.file, folder), scale: c.lora.scale }] : [],
        ...(c.pooling && c.pooling !== 'rank' ? { embeddings: true } : {}),
      });
      try {
        if (c.pooling) {
          const want = f32.subarray(c.offset, c.offset + c.count);
          const got = c.pooling === 'rank' ? await pooledRank(model, c.ids) : (await model.embed([c.ids], { pooling: c.pooling }))[0];
          expect(got.length).toBe(want.length);
          const off = Math.max(...want.map((w, i) => Math.abs(w - got[i])));
          const ofVector = c.model.includes('q4_0') ? TOLERANCE_QUANTISED * Math.max(...want.map(Math.abs)) : TOLERANCE_VECTOR;
          expect(off, `${c.model}: largest difference`).toBeLessThan(c.pooling === 'rank' ? TOLERANCE_RANK : ofVector);
          return;
        }
        const tolerance = /q4_0|q8_0|mxfp4/.test(c.model) ? TOLERANCE_QUANTISED : TOLERANCE;
        // The engine's cache is f16: native's own difference with such a cache is added to the
        // tolerance.
        const allowed = tolerance * c.largest + c.noiseF16;
        const rows = await logitsOf(model, c.ids);
        for (const [k, row] of c.rows!.entries()) {
          const want = f32.subarray(c.offset + k * c.n_vocab, c.offset + (k + 1) * c.n_vocab);
          const off = Math.max(...want.map((w, i) => Math.abs(w - rows[row][i])));
          expect(off, `${c.model} position ${row}: largest difference, largest logit ${c.largest}`).toBeLessThanOrEqual(allowed);
        }
        const { ids } = await model.generate(c.ids, { maxTokens: 32, temperature: 0, ignoreEos: true }).result();
        const k = c.greedy.findIndex((id, i) => ids[i] !== id);
        if (k >= 0)
          expect(c.margins[k], `${c.model} step ${k}: ${ids[k]}, native ${c.greedy[k]}`).toBeLessThan(2 * Math.max(allowed, c.noise));
      } finally {
        await model.dispose();
      }
    },
  );
});

/**
 * Keys set by llama.cpp's --yarn-* flags. Native reads them for some architectures only, so the
 * scalar model is the reference.
 */
test.each([
  [{ yarn_beta_fast: 8, yarn_beta_slow: 0.5 }],
  [{ yarn_ext_factor: 0.5 }],
  [{ yarn_ext_factor: 0, yarn_attn_factor: 1.5 }],
  [{ yarn_attn_factor: 1.5 }],
  [{ factor: 0.5 }],
])('YaRN with %o', async (changed) => {
  const file = new URL('qwen2-yarn.gguf', folder);
  const keys = Object.entries(changed).map(([key, value]) => [`qwen2.rope.scaling.${key}`, value] as const);
  const gguf = readGguf(readFileSync(file));
  const { ids, noiseF16, largest: trained } = cases.find((c) => c.model === 'qwen2-yarn.gguf')!;
  const before = reference(gguf).logits(ids, 256);
  const metadata = gguf.meta as Map<string, MetaValue>;
  for (const [key, value] of keys) metadata.set(key, value);
  const want = reference(gguf).logits(ids, 256);
  const largest = Math.max(...want.flatMap((row) => [...row].map(Math.abs)));
  const off = (a: Iterable<number>, b: ArrayLike<number>): number => Math.max(...[...a].map((v, i) => Math.abs(v - b[i]) / largest));
  // attn_factor only applies if ext_factor is 0.
  const silent = Object.keys(changed).join() === 'yarn_attn_factor';
  expect(off(want.at(-1)!, before.at(-1)!) > 1e-2).toBe(!silent);
  const overrideKv = Object.fromEntries(keys);
  const model = await loadModel(file, { build: 'simd', contextLength: 256, maxOutputs: 64, warmUp: false, overrideKv });
  const got = await logitsOf(model, ids);
  await model.dispose();
  for (const [i, row] of got.entries()) expect(off(row, want[i]), `position ${i}`).toBeLessThan(TOLERANCE + noiseF16 / trained);
});

test.each([
  ['simd', 'gemma4', 4],
  ['simd-threads', 'gemma4', 4],
  ['simd', 'deepseek2-mla', 2],
] as const)(
  '%s, %s: layers that read the keys of others, keys longer than values, a prompt in pieces and a state that was saved',
  async (build, name, caches) => {
    const { ids } = cases.find((c) => c.model === name)!;
    const options = { build, contextLength: 256, maxOutputs: 64, warmUp: false };
    const greedy = { maxTokens: 4, temperature: 0, ignoreEos: true };
    const [model, other] = [await loadModel(goldenModel(name), options), await loadModel(goldenModel(name), options)];
    try {
      expect(model.internals.engine.caches).toHaveLength(caches);
      expect(await logitsOf(model, ids, [5, 1, 7])).toEqual(await logitsOf(model, ids));
      const want = await model.generate(ids, greedy).result();
      const state = await model.saveState();
      await other.loadState(state);
      expect((await other.generate(ids, greedy).result()).ids).toEqual(want.ids);
    } finally {
      await model.dispose();
      await other.dispose();
    }
  },
);

test('an encoder keeps keys and values of one layer, a decoder of all', async () => {
  for (const [name, caches] of [
    ['bert', 1],
    ['llama', 2],
  ] as const) {
    const model = await loadModel(new URL(`${name}.gguf`, folder), { build: 'simd', warmUp: false });
    expect(model.internals.engine.caches, name).toHaveLength(caches);
    await model.dispose();
  }
});

async function pooledRank(model: Model, ids: readonly number[]): Promise<Float32Array> {
  const rows = await logitsOf(model, ids);
  return model.internals.engine.hparams.causal ? rows.at(-1)! : rows[0];
}
