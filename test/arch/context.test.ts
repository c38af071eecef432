/**
 * Every type of KV cache, and YaRN's flags, compared with native llama.cpp.
 * test/golden/arch/README.md says how its numbers were made.
 */
import { readFileSync } from 'node:fs';
import { loadModel, type Build, type KvType, type LoadOptions } from 'quantlet';
import { describe, expect, it } from 'vitest';
import { logitsOf, root } from '../support.ts';

const folder = new URL('test/golden/arch/', root);
interface Case {
  readonly model: string;
  readonly k?: KvType;
  readonly v?: KvType;
  /** Default: true, as native rotates quantised caches. */
  readonly rotation?: boolean;
  readonly yarn?: readonly number[];
}
const { ids, rows, cases } = JSON.parse(readFileSync(new URL('context.json', folder), 'utf8')) as {
  ids: number[];
  rows: number[];
  cases: Case[];
};
const golden = new Float32Array(readFileSync(new URL('context.f32', folder)).buffer);
const nVocab = golden.length / rows.length / cases.length;
const native = (i: number): readonly Float32Array[] =>
  rows.map((_, k) => golden.subarray((i * rows.length + k) * nVocab, (i * rows.length + k + 1) * nVocab));

/** Largest difference of two lists of rows, relative to the first one's largest logit. */
function apart(a: readonly Float32Array[], b: readonly Float32Array[]): number {
  const largest = Math.max(...a.flatMap((row) => Array.from(row, Math.abs)));
  return Math.max(...a.flatMap((row, k) => Array.from(row, (x, i) => Math.abs(x - b[k][i])))) / largest;
}

async function ours(model: string, options: LoadOptions): Promise<Float32Array[]> {
  const loaded = await loadModel(new URL(model, folder), { contextLength: 256, maxOutputs: 128, warmUp: false, threads: 1, ...options });
  try {
    const all = await logitsOf(loaded, ids);
    return rows.map((row) => all[row]);
  } finally {
    await loaded.dispose();
  }
}

/**
 * Tolerance by the type of the keys. F32, f16, q8_0 and q4_0 round as native does, queries
 * included. What remains is the order of sums, and 8-bit queries that round the other way. For the
 * other types native rounds queries to 8 bits (bf16: to bf16), while quantlet multiplies them
 * unrounded with the widened keys. This model's sharp attention turns that into up to 5e-2 of a
 * logit, while the type itself makes 9e-2 to 3e-1.
 */
const TOLERANCE: Readonly<Record<KvType, number>> = {
  f32: 1e-4,
  f16: 1e-4,
  q8_0: 1e-2,
  q4_0: 1e-2,
  bf16: 1e-2,
  q5_1: 6e-2,
  q5_0: 6e-2,
  q4_1: 6e-2,
  iq4_nl: 6e-2,
};
/**
 * For f16 weights, native rounds activations to f16 first. One that rounds the other way affects
 * all of the 96 tokens.
 */
const TOLERANCE_F16_WEIGHTS = 5e-3;

describe.each<Build>(['simd', 'relaxed-threads'])('%s', (build) => {
  const caches = cases.flatMap((c, i) => (c.yarn ? [] : [{ ...c, rotation: c.rotation ?? true, i }]));
  it.each(caches)('$model, a cache of $k and $v, rotation $rotation', async ({ model, k, v, rotation, i }) => {
    const want = native(i);
    const first = cases.findIndex((c) => c.model === model);
    const got = await ours(model, { build, cacheTypeK: k!, cacheTypeV: v!, cacheRotation: rotation });
    expect(apart(got, want)).toBeLessThan(TOLERANCE[k!]);
    // The cache type has an effect: the first case's type gives another answer.
    if (i > first)
      expect(apart(native(first), want)).toBeGreaterThan(k === 'f16' ? TOLERANCE.f16 : k === 'bf16' && v === 'bf16' ? 4e-3 : TOLERANCE[k!]);
  });
});

describe("YaRN's flags", () => {
  const NAMES = ['ext_factor', 'attn_factor', 'beta_fast', 'beta_slow'];
  const flags = cases.flatMap((c, i) => (c.yarn ? [{ model: c.model, yarn: c.yarn, i }] : []));
  it.each(flags)('ext, attn, fast, slow: $yarn', async ({ model, yarn, i }) => {
    const overrideKv = Object.fromEntries(
      yarn.flatMap((value, k) => (value < 0 ? [] : [[`qwen2.rope.scaling.yarn_${NAMES[k]}`, value] as const])),
    );
    const got = await ours(model, { build: 'simd', overrideKv, cacheTypeK: 'f32', cacheTypeV: 'f32' });
    expect(apart(native(i), got)).toBeLessThan(TOLERANCE_F16_WEIGHTS);
    // attn_factor only applies if ext_factor is 0; with the file's ext_factor it changes nothing.
    const silent = yarn.every((value, k) => value < 0 || k === 1);
    if (!silent) expect(apart(native(flags[0].i), native(i))).toBeGreaterThan(0.1);
  });
});
