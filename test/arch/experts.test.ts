/**
 * Mixtures, apart from native's answers (engine.test.ts): the same bits for any batches and number
 * of threads, the experts that are used, and refusals.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { loadModel, type LoadOptions, type Model } from 'quantlet';
import { describe, expect, it } from 'vitest';
import { readGGUF } from '../../src/gguf/read.ts';
import { writeGGUF, type WriteValue } from '../../src/gguf/write.ts';
import { toBytes } from '../../src/io/source.ts';
import { TYPE, type TypeTraits } from '../../src/type-traits.ts';
import { BUILDS } from '../builds.ts';
import { goldenModel, MADE } from './golden-models.ts';
import { readGguf } from '../reference/gguf.ts';
import { reference } from '../reference/llm.ts';
import { failure, logitsOf, patchedLlama, randomIds, runCli, temporaryFolder, TOLERANCE, writeTo } from '../support.ts';

const golden = (name: string): string => fileURLToPath(new URL(`../golden/arch/${name}.gguf`, import.meta.url));
/** A golden model by its name: a committed file, or one that tests make. */
const sourceOf = (name: string): string | Uint8Array => (name in MADE ? goldenModel(name) : golden(name));
const IDS = randomIds(40, 272, 7);

async function withModel<T>(source: string | Uint8Array, options: LoadOptions, use: (model: Model) => Promise<T>): Promise<T> {
  const model = await loadModel(typeof source === 'string' && !source.endsWith('.gguf') ? sourceOf(source) : source, {
    warmUp: false,
    contextLength: 256,
    maxOutputs: 64,
    ...options,
  });
  try {
    return await use(model);
  } finally {
    await model.dispose();
  }
}

describe.each(BUILDS)('%s', (build) => {
  // One build is enough for latent attention, which is a graph but not a kernel.
  const latent = build === 'simd-threads' ? ['deepseek2-mla-q4_0'] : [];
  it.each(['llama-moe', 'gpt-oss-mxfp4', ...latent])(
    '%s: the same bits token by token as in one batch, with 1 and 3 threads',
    async (name) => {
      const logits = (options: LoadOptions) => withModel(name, { build, ...options }, (model) => logitsOf(model, IDS));
      const want = await logits({ threads: 1 });
      expect(await logits({ threads: 1, batchSize: 1 })).toEqual(want);
      expect(await logits({ threads: 3, batchSize: 7 })).toEqual(want);
    },
  );
});

describe('variants that no golden model has', () => {
  const logits = (source: string | Uint8Array): Promise<Float32Array[]> =>
    withModel(source, { build: 'simd', cacheTypeK: 'f32', cacheTypeV: 'f32' }, (model) => logitsOf(model, IDS));

  it('gate and up of an expert in one tensor, gate first: the same bits as in two', async () => {
    const file = readFileSync(golden('qwen3moe'));
    const { tensors } = await readGGUF(toBytes(file));
    const patch: Record<string, { type: TypeTraits; ne: number[]; data: Uint8Array } | undefined> = {};
    for (const il of [0, 1]) {
      const [gate, up] = ['gate', 'up'].map((part) => {
        const name = `blk.${il}.ffn_${part}_exps.weight`;
        patch[name] = undefined;
        const { offset, byteLength } = tensors.get(name)!;
        return file.subarray(offset, offset + byteLength);
      });
      const bytes = 32 * 16 * 4;
      const both = Array.from({ length: 8 }, (_, e) => [gate, up].map((t) => t.subarray(e * bytes, (e + 1) * bytes))).flat();
      patch[`blk.${il}.ffn_gate_up_exps.weight`] = { type: TYPE.f32, ne: [32, 32, 8], data: new Uint8Array(Buffer.concat(both)) };
    }
    expect(await logits(await patchedLlama({ tensors: patch }, golden('qwen3moe')))).toEqual(await logits(golden('qwen3moe')));
  });

  it('a bias that changes the selection but not the weights, with groups', async () => {
    const bias = Float32Array.of(0.3, -0.2, 0.1, 0.4, -0.3, 0, 0.2, -0.1);
    const tensors = { 'blk.1.exp_probs_b.bias': { type: TYPE.f32, ne: [8], data: new Uint8Array(bias.buffer) } };
    const bytes = await patchedLlama({ tensors }, golden('smallthinker'));
    const [got, plain] = [await logits(bytes), await logits(golden('smallthinker'))];
    const want = reference(readGguf(bytes)).logits(IDS, 256);
    const largest = Math.max(...want.flatMap((row) => [...row].map(Math.abs)));
    const apart = (a: readonly Float32Array[]): number =>
      Math.max(...want.flatMap((row, i) => [...row].map((w, k) => Math.abs(w - a[i][k])))) / largest;
    expect(apart(got)).toBeLessThan(TOLERANCE.f32);
    expect(apart(plain)).toBeGreaterThan(0.1);
  });
});

describe('quantlet inspect --experts', () => {
  const text = 'the cat sat at a hat, the mats';
  it('counts the selections of the scalar model', async () => {
    const { code, stdout } = await runCli(['inspect', golden('qwen3moe'), '--experts', '-p', text, '--json']);
    const use = JSON.parse(stdout) as { tokens: number; layers: { layer: number; used: number; tokens: number[] }[] };
    const ids = await withModel('qwen3moe', { build: 'simd' }, (model) => Promise.resolve(model.tokenize(text)));
    const want = reference(readGguf(readFileSync(golden('qwen3moe')))).expertUse(ids, 256);
    expect([code, use]).toEqual([0, { tokens: ids.length, layers: want.map((tokens, layer) => ({ layer, used: 2, tokens })) }]);
  });
  it('prints a table, and says what it cannot do', async () => {
    const file = writeTo(temporaryFolder(), 'text.txt', text);
    const { stdout } = await runCli(['inspect', '--experts', '-m', golden('llama-moe'), '-f', file]);
    expect(stdout).toMatch(/^\d+ tokens; of 100 .*\nblk\.0: 2 of 5 experts a token, \d never used\n +0: .*\nblk\.1: /);
    const dense = await runCli(['inspect', '--experts', '-m', golden('llama'), '-p', text]);
    expect([dense.code, /has no experts/.test(dense.stderr)]).toEqual([2, true]);
    const silent = await runCli(['inspect', '--experts', '-m', golden('llama-moe')]);
    expect([silent.code, /give it with -f/.test(silent.stderr)]).toEqual([2, true]);
  });
});

describe('refusals before a kernel runs', () => {
  it.each<[what: string, overrideKv: NonNullable<LoadOptions['overrideKv']>, code: string, message: RegExp]>([
    ['no expert used', { expert_used_count: 0 }, 'ERR_GGUF_INVALID', /expert_used_count is 0; expected 1 to 8/],
    ['more used than there are', { expert_used_count: 9 }, 'ERR_GGUF_INVALID', /expert_used_count is 9; expected 1 to 8/],
    ['no experts', { expert_count: 0 }, 'ERR_GGUF_INVALID', /expert_count is 0 or missing/],
    [
      'fewer experts than the tensors have',
      { expert_count: 7 },
      'ERR_TENSOR_SHAPE',
      /ffn_gate_inp\.weight" is \[32, 8, 1, 1\].*\[32, 7, 1, 1\]/,
    ],
    ['more of them', { expert_count: 1 << 30 }, 'ERR_TENSOR_SHAPE', /ffn_gate_inp\.weight/],
    ['another width', { expert_feed_forward_length: 15 }, 'ERR_TENSOR_SHAPE', /exps\.weight/],
    ['groups of one', { expert_group_count: 8, expert_group_used_count: 2 }, 'ERR_GGUF_INVALID', /expert_group_count is 8/],
    ['groups that leave some over', { expert_group_count: 3, expert_group_used_count: 2 }, 'ERR_GGUF_INVALID', /expert_group_count is 3/],
    [
      'no group used',
      { expert_group_count: 4, expert_group_used_count: 0 },
      'ERR_GGUF_INVALID',
      /expert_group_used_count is 0; expected 1 to 4/,
    ],
  ])('%s', async (_, overrideKv, code, message) => {
    const keys = Object.fromEntries(Object.entries(overrideKv).map(([key, value]) => [`qwen3moe.${key}`, value]));
    expect(await failure(() => withModel('qwen3moe', { build: 'simd', overrideKv: keys }, () => Promise.resolve()))).toMatchObject({
      code,
      message: expect.stringMatching(message) as string,
    });
  });

  it.each<[what: string, overrideKv: NonNullable<LoadOptions['overrideKv']>, code: string, message: RegExp]>([
    [
      'one of the two sizes',
      { 'attention.value_length_mla': 0 },
      'ERR_GGUF_INVALID',
      /key_length_mla is there and value_length_mla is not/,
    ],
    ['heads that turn whole', { 'rope.dimension_count': 48 }, 'ERR_GGUF_INVALID', /dimension_count is 48; expected 1 to 47/],
    ['several heads of latent vectors', { 'attention.head_count_kv': 4 }, 'ERR_GGUF_INVALID', /head_count_kv is 4; expected 1/],
    ['another rank', { 'attention.kv_lora_rank': 32 }, 'ERR_GGUF_INVALID', /key_length is 80 and value_length 64; expected 48 and 32/],
    ['another size of values', { 'attention.value_length_mla': 16 }, 'ERR_TENSOR_SHAPE', /attn_v_b\.weight" is \[64, 32, 4, 1\]/],
    ['dense layers that have experts', { leading_dense_block_count: 2 }, 'ERR_MISSING_TENSOR', /blk\.1\.ffn_up\.weight/],
    ['queries that grow', { 'attention.temperature_scale': 0.1 }, 'ERR_UNSUPPORTED_ARCH', /temperature_scale/],
  ])('latent attention with %s', async (_, overrideKv, code, message) => {
    const keys = Object.fromEntries(Object.entries(overrideKv).map(([key, value]) => [`deepseek2.${key}`, value]));
    expect(await failure(() => withModel('deepseek2-mla', { build: 'simd', overrideKv: keys }, () => Promise.resolve()))).toMatchObject({
      code,
      message: expect.stringMatching(message) as string,
    });
  });

  it('an unknown gating function', async () => {
    const overrideKv = { 'smallthinker.expert_gating_func': 4 };
    expect(await failure(() => withModel('smallthinker', { build: 'simd', overrideKv }, () => Promise.resolve()))).toMatchObject({
      code: 'ERR_GGUF_INVALID',
      message: expect.stringMatching(/expert_gating_func is 4; expected 1 \(softmax\)/) as string,
    });
  });

  it('an adapter of experts; one of the router is applied', async () => {
    const adapter = (name: string, nOut: number, n: number): Uint8Array => {
      const text = (value: string): WriteValue => ({ type: 'str', value });
      const half = (part: string, ne: number[]) => ({
        name: `${name}.lora_${part}`,
        type: TYPE.f32,
        ne: n > 1 ? [...ne, n] : ne,
        data: new Uint8Array(Float32Array.from({ length: ne[0] * ne[1] * n }, (_, i) => Math.sin(i)).buffer),
      });
      const metadata = { 'general.type': text('adapter'), 'general.architecture': text('qwen3moe'), 'adapter.type': text('lora') };
      return writeGGUF(new Map(Object.entries(metadata)), [half('a', [32, 2]), half('b', [2, nOut])]);
    };
    const logits = (source?: Uint8Array) =>
      withModel('qwen3moe', { build: 'simd', lora: source ? [{ source }] : [] }, (model) => logitsOf(model, IDS));
    expect(await failure(() => logits(adapter('blk.0.ffn_up_exps.weight', 16, 8)))).toMatchObject({
      code: 'ERR_ADAPTER',
      message: expect.stringMatching(/adapts the experts "blk\.0\.ffn_up_exps\.weight".*merge it/) as string,
    });
    expect(await logits(adapter('blk.0.ffn_gate_inp.weight', 8, 1))).not.toEqual(await logits());
  });
});
