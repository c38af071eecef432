/**
 * Tests of LoRA adapters that need no native answers (those are in test/arch): compared with merged
 * weights, for any batches and number of threads, and adapters that do not fit.
 */
import { readFileSync } from 'node:fs';
import { loadModel, type LoadOptions, type Model } from 'quantlet';
import { describe, expect, it } from 'vitest';
import { readGGUF } from '../../src/gguf/read.ts';
import { writeGGUF, type WriteTensor, type WriteValue } from '../../src/gguf/write.ts';
import { toBytes } from '../../src/io/source.ts';
import { TYPE } from '../../src/type-traits.ts';
import { at, bitDifference, failure, llamaModel, logitsOf, patchedLlama, randomIds, runCli, temporaryFolder, writeTo } from '../support.ts';

const folder = temporaryFolder();
const golden = (name: string): string => llamaModel.replace('llama.gguf', name);
const IDS = randomIds(90, 272, 5);
/** Tolerance relative to the largest logit: the same f32 sums in another order. */
const REORDERED = 1e-5;

async function withModel<T>(source: string | Uint8Array, options: LoadOptions, use: (model: Model) => Promise<T>): Promise<T> {
  const model = await loadModel(source, { warmUp: false, contextLength: 256, maxOutputs: 128, build: 'simd', ...options });
  try {
    return await use(model);
  } finally {
    await model.dispose();
  }
}
const logits = (model: Model): Promise<Float32Array[]> => logitsOf(model, IDS);
const f32 = (values: ArrayLike<number>): Uint8Array => new Uint8Array(Float32Array.from(values).buffer);
const numbers = (n: number, seed: number): number[] => randomIds(n, 2001, seed).map((k) => (k - 1000) / 4000);
const text = (value: string): WriteValue => ({ type: 'str', value });

type Written = WriteTensor & { readonly data: Uint8Array };
const METADATA: Record<string, WriteValue> = {
  'general.type': text('adapter'),
  'general.architecture': text('llama'),
  'adapter.type': text('lora'),
};
/** A random pair of matrices for a weight of the golden llama. */
const pair = (name: string, nIn: number, rank: number, nOut: number): Written[] => [
  { name: `${name}.lora_a`, type: TYPE.f32, ne: [nIn, rank], data: f32(numbers(nIn * rank, 3)) },
  { name: `${name}.lora_b`, type: TYPE.f32, ne: [rank, nOut], data: f32(numbers(rank * nOut, 4)) },
];
const adapter = (tensors: Written[], metadata: Record<string, WriteValue | undefined> = {}): Uint8Array =>
  writeGGUF(new Map(Object.entries({ ...METADATA, ...metadata }).filter((e): e is [string, WriteValue] => e[1] !== undefined)), tensors);
const DOWN = 'blk.1.ffn_down.weight';
const query = pair('blk.0.attn_q.weight', 32, 3, 32);

describe('an adapter', () => {
  it.each([
    [undefined, 0.5],
    [6, -2],
  ] as const)('alpha %s, scale %s: as the weights with s B A added', async (alpha, scale) => {
    const nIn = 40;
    const nOut = 32;
    const rank = 3;
    const s = scale * (alpha === undefined ? 1 : alpha / rank);
    const [a, b] = pair(DOWN, nIn, rank, nOut).map((t) => new Float32Array(t.data.buffer));
    const file = readFileSync(llamaModel);
    const info = (await readGGUF(toBytes(file))).tensors.get(DOWN)!;
    const merged = new Float32Array(file.buffer.slice(file.byteOffset + info.offset, file.byteOffset + info.offset + info.byteLength));
    for (let o = 0; o < nOut; o++)
      for (let i = 0; i < nIn; i++) for (let r = 0; r < rank; r++) merged[o * nIn + i] += s * b[o * rank + r] * a[r * nIn + i];
    const want = await withModel(
      await patchedLlama({ tensors: { [DOWN]: { type: TYPE.f32, ne: [nIn, nOut], data: f32(merged) } } }),
      {},
      logits,
    );
    const plain = await withModel(llamaModel, {}, logits);
    const source = adapter(pair(DOWN, nIn, rank, nOut), alpha === undefined ? {} : { 'adapter.lora.alpha': { type: 'f32', value: alpha } });
    const got = await withModel(llamaModel, { lora: [{ source, scale }] }, logits);
    const largest = Math.max(...want.flatMap((row) => [...row].map(Math.abs)));
    const apart = (x: Float32Array[]): number =>
      Math.max(...x.flatMap((row, i) => [...row].map((v, k) => Math.abs(v - want[i][k])))) / largest;
    expect(apart(got)).toBeLessThan(REORDERED);
    expect(apart(plain), 'the adapter matters').toBeGreaterThan(1000 * REORDERED);
  });

  it('several add up: half an adapter twice is the whole', async () => {
    const source = golden('llama-lora.gguf');
    const [whole, twice] = [
      await withModel(llamaModel, { lora: [{ source }] }, logits),
      await withModel(
        llamaModel,
        {
          lora: [
            { source, scale: 0.5 },
            { source, scale: 0.5 },
          ],
        },
        logits,
      ),
    ];
    const largest = Math.max(...whole.flatMap((row) => [...row].map(Math.abs)));
    whole.forEach((row, i) =>
      row.forEach((x, k) => expect(Math.abs(x - twice[i][k]), `row ${i}, index ${k}`).toBeLessThan(REORDERED * largest)),
    );
  });

  it.each(['llama', 'llama-q4_0'])('%s: the same bits for any batches and number of threads', async (name) => {
    const options: LoadOptions = { lora: [{ source: golden(`${name}-lora.gguf`), scale: 0.75 }], build: 'relaxed-threads' };
    const want = await withModel(golden(`${name}.gguf`), { ...options, threads: 1 }, logits);
    for (const threads of [2, 3]) {
      await withModel(golden(`${name}.gguf`), { ...options, threads }, async (model) => {
        for (const sizes of [[90], [1], [7, 30, 2]])
          expect(bitDifference(await logitsOf(model, IDS, sizes), want), `${threads} threads, batches of ${sizes}`).toBe('');
      });
    }
  });

  it('a state belongs to the model with this adapter at this scale', async () => {
    const source = golden('llama-lora.gguf');
    const next = { maxTokens: 1, temperature: 0 };
    const state = await withModel(llamaModel, { lora: [{ source }] }, async (model) => {
      await model.generate('the cat', next).result();
      return model.saveState();
    });
    const restored = (options: LoadOptions) => withModel(llamaModel, options, (model) => failure(async () => model.loadState(state)));
    expect((await restored({ lora: [{ source }] })).code).toBe('none');
    expect((await restored({ lora: [{ source, scale: 0.5 }] })).code).toBe('ERR_STATE');
    expect((await restored({})).code).toBe('ERR_STATE');
  });

  it('--lora and --lora-scaled give what the option gives', async () => {
    const lora = golden('llama-lora.gguf');
    const options = { maxTokens: 12, temperature: 0, ignoreEos: true };
    const want = await withModel(llamaModel, { lora: [{ source: lora }, { source: lora, scale: -0.25 }] }, (model) =>
      model.generate('the cat', options).result(),
    );
    const { stdout, stderr } = await runCli([
      'run',
      '-m',
      llamaModel,
      '-p',
      'the cat',
      '-n',
      12,
      '--temp',
      0,
      '--ignore-eos',
      '--no-warmup',
      '--json',
      '--build',
      'simd',
      '--lora',
      lora,
      '--lora-scaled',
      `${lora}:-0.25`,
    ]);
    expect((JSON.parse(stdout || `"${stderr}"`) as { ids: number[] }).ids).toEqual(want.ids);
    for (const bad of [lora, `${lora}:x`, ':0.5'])
      expect(await runCli(['run', '-m', llamaModel, '--lora-scaled', bad])).toMatchObject({
        code: 2,
        stderr: expect.stringMatching(/FILE:SCALE.*ERR_USAGE/),
      });
  });
});

describe('refused', () => {
  const [a, b] = query;
  it.each<[string, string | Uint8Array, RegExp]>([
    ['of another architecture', golden('bert-lora.gguf'), /bert.*llama/],
    ['a model in its place', llamaModel, /general.type "".*adapter/],
    ['another kind of adapter', adapter(query, { 'adapter.type': text('ia3') }), /ia3.*lora/],
    [
      'one that begins in the middle',
      adapter(query, { 'adapter.alora.invocation_tokens': { type: 'arr[u32]', value: Uint32Array.of(1, 2) } }),
      /activated/,
    ],
    ['half a pair', adapter([a]), /blk\.0\.attn_q\.weight\.lora_a" \[32, 3\].*lora_b/],
    ['the other half', adapter([b]), /blk\.0\.attn_q\.weight\.lora_b" \[3, 32\].*lora_a/],
    [
      'ranks that differ',
      adapter([a, { name: b.name, type: TYPE.f32, ne: [4, 32], data: f32(numbers(128, 4)) }]),
      /\[32, 3\].*\[4, 32\].*attn_q.*\[32, rank\]/,
    ],
    ['a width that differs', adapter(pair('blk.0.attn_q.weight', 64, 3, 32)), /\[64, 3\].*attn_q.*\[32, 32\]/],
    ['a height that differs', adapter(pair('blk.0.attn_v.weight', 32, 3, 32)), /attn_v.*\[32, 16\]/],
    ['embeddings the wrong way round', adapter(pair('token_embd.weight', 32, 3, 272)), /token_embd.*\[rank, 272\] and \[rank, 32\]/],
    ['a layer that is not there', adapter(pair('blk.7.attn_q.weight', 32, 3, 32)), /blk\.7\.attn_q\.weight.*does not have/],
    ['a norm', adapter(pair('output_norm.weight', 32, 3, 1)), /output_norm\.weight/],
    [
      'another tensor',
      adapter([...query, { name: 'blk.0.attn_q.weight.magnitude', type: TYPE.f32, ne: [32], data: f32(numbers(32, 1)) }]),
      /magnitude/,
    ],
    ['nothing in it', adapter([{ name: 'output_norm.weight', type: TYPE.f32, ne: [32], data: f32(numbers(32, 1)) }]), /no pair/],
  ])('%s', async (_, source, says) => {
    const { code, message } = await failure(() => loadModel(llamaModel, { warmUp: false, lora: [{ source }] }));
    expect([code, message]).toEqual(['ERR_ADAPTER', expect.stringMatching(says)]);
  });

  it('a matrix that is only looked up', async () => {
    const source = adapter(pair('position_embd.weight', 32, 2, 64), { 'general.architecture': text('bert') });
    expect(await failure(() => loadModel(golden('bert.gguf'), { warmUp: false, lora: [{ source }] }))).toMatchObject({
      code: 'ERR_ADAPTER',
      message: expect.stringContaining('position_embd.weight'),
    });
  });

  it('an adapter in place of the model, a cut file, a scale that is not a number, a missing file', async () => {
    const file = readFileSync(golden('llama-lora.gguf'));
    expect(await failure(() => loadModel(golden('llama-lora.gguf')))).toMatchObject({
      code: 'ERR_ADAPTER',
      message: expect.stringContaining('--lora'),
    });
    expect(await failure(() => loadModel(llamaModel, { lora: [{ source: file.subarray(0, file.length - 40) }] }))).toMatchObject({
      code: 'ERR_GGUF_TRUNCATED',
    });
    for (const lora of ['style.gguf', [null], [{}]])
      expect(await failure(() => loadModel(llamaModel, { lora: lora as never }))).toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
    expect(await failure(() => loadModel(llamaModel, { lora: [{ source: file, scale: NaN }] }))).toMatchObject({
      code: 'ERR_INVALID_ARGUMENT',
    });
    const cut = writeTo(folder, 'cut.gguf', file.subarray(0, 100));
    expect(await runCli(['run', '-m', llamaModel, '--lora', cut])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('ERR_GGUF_TRUNCATED'),
    });
    expect(await runCli(['run', '-m', llamaModel, '--lora', at('nowhere.gguf')])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('ERR_SOURCE'),
    });
  });
});
