/** quantlet sparsify: sparse models compute the same, predictors, and what is refused. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadModel, type LoadOptions } from 'quantlet';
import { describe, expect, it } from 'vitest';
import { quantize } from '../../src/cli/quantize.ts';
import { rotate } from '../../src/cli/rotate.ts';
import { sparsify } from '../../src/cli/sparsify.ts';
import { readGGUF } from '../../src/gguf/read.ts';
import type { GGUF } from '../../src/gguf/types.ts';
import { toBytes } from '../../src/io/source.ts';
import { goldenModel } from '../arch/golden-models.ts';
import { failure, llamaModel, logitsOf, patchedLlama, randomIds, temporaryFolder, writeTo } from '../support.ts';
import { invoke, type Args } from './commands.ts';

const folder = temporaryFolder();
const IDS = randomIds(17, 272, 3);
const text = writeTo(folder, 'text.txt', 'the cat sat at a hat, the mats she has that a cat chase. '.repeat(30));
const ARGS: Args = ['-f', text, '-c', 32, '--chunks', 6, '-t', 1];

async function logits(path: string, options: LoadOptions = {}): Promise<Float32Array[]> {
  const model = await loadModel(path, {
    build: 'simd',
    contextLength: 64,
    maxOutputs: IDS.length,
    warmUp: false,
    cacheTypeK: 'f32',
    cacheTypeV: 'f32',
    ...options,
  });
  try {
    return await logitsOf(model, IDS);
  } finally {
    await model.dispose();
  }
}
function apart(got: readonly Float32Array[], want: readonly Float32Array[]): number {
  const largest = Math.max(...want.flatMap((row) => [...row].map(Math.abs)));
  return Math.max(...want.flatMap((row, r) => [...row].map((v, i) => Math.abs(v - got[r][i])))) / largest;
}
const dense = (name: string): string => writeTo(folder, `${name}.gguf`, goldenModel(`${name}-relu`));
const read = async (path: string): Promise<GGUF> => readGGUF(toBytes(readFileSync(path)));

describe('the model computes what it did', () => {
  it.each(['llama', 'bamboo', 'falcon', 'opt'])('%s', async (name) => {
    const out = join(folder, `${name}-sparse.gguf`);
    const { stdout } = await invoke(sparsify, ['-m', dense(name), '-o', out, ...ARGS]);
    expect(stdout).toMatch(
      /^blk\.0: \d+\.\d % of the neurons fire, of groups of 16 \d+\.\d % before, \d+\.\d % in the new order\nblk\.1: /,
    );
    expect(stdout).toMatch(/wrote .*: 192 tokens, /);
    const [before, after] = [await read(dense(name)), await read(out)];
    expect(after.metadata.get('powerinfer.sparse_threshold')).toBe(0);
    expect([...after.tensors.keys()]).toEqual([...before.tensors.keys()].map((key) => key.replace('ffn_down', 'ffn_down_t')));
    const [nFf, nEmbd] = before.tensors.get('blk.0.ffn_down.weight')!.ne;
    expect(after.tensors.get('blk.0.ffn_down_t.weight')!.ne.slice(0, 2)).toEqual([nEmbd, nFf]);
    // Sums are in another order.
    expect(apart(await logits(out), await logits(dense(name)))).toBeLessThan(1e-5);
  });

  it('the same bytes again, with any number of threads; one object as JSON; a file to be quantised', async () => {
    const [one, two, q8] = ['one', 'two', 'q8'].map((name) => join(folder, `${name}.gguf`));
    await invoke(sparsify, ['-m', dense('llama'), '-o', one, ...ARGS, '--predictor', 4, '--predictor-steps', 20]);
    const { stdout } = await invoke(sparsify, [
      '-m',
      dense('llama'),
      '-o',
      two,
      ...ARGS,
      '--predictor',
      4,
      '--predictor-steps',
      20,
      '-t',
      2,
      '--json',
    ]);
    expect(readFileSync(one).equals(readFileSync(two))).toBe(true);
    const said = JSON.parse(stdout) as { layers: object[]; threshold: number };
    expect(said).toMatchObject({ output: two, tokens: 192, bytes: readFileSync(two).length });
    expect(said.layers).toHaveLength(2);
    expect((await read(two)).metadata.get('powerinfer.sparse_threshold')).toBe(said.threshold);
    expect((await invoke(quantize, [one, q8, 'Q8_0'])).code).toBe(0);
  });
});

it('predictors: those of a rank that tells all leave the numbers as they are, with neurons skipped', async () => {
  const out = join(folder, 'predicted.gguf');
  const { stdout } = await invoke(sparsify, [
    '-m',
    dense('llama'),
    '-o',
    out,
    ...ARGS,
    '--predictor',
    64,
    '--predictor-steps',
    300,
    '--recall',
    0.9,
    '--json',
  ]);
  const said = JSON.parse(stdout) as { recall: number; precision: number; skipped: number; threshold: number };
  expect(said.recall).toBeGreaterThanOrEqual(0.9);
  expect(said.precision).toBeGreaterThan(0.8);
  expect(said.skipped).toBeGreaterThan(0.3);
  const gguf = await read(out);
  expect(gguf.tensors.get('blk.1.fc1.weight')!.ne.slice(0, 2)).toEqual([32, 64]);
  expect(gguf.tensors.get('blk.1.fc2.weight')!.ne.slice(0, 2)).toEqual([64, 40]);
  const want = await logits(dense('llama'));
  expect(apart(await logits(out), want)).toBeGreaterThan(0);
  // The lowest possible threshold computes every neuron.
  const all = await logits(out, { overrideKv: { 'powerinfer.sparse_threshold': -Infinity } });
  expect(apart(all, want)).toBeLessThan(1e-5);
});

it('hot neurons come first, and the rows of a neuron lie together', async () => {
  const [plain, bundled] = ['plain', 'bundled'].map((name) => join(folder, `${name}.gguf`));
  const predictors: Args = ['--predictor', 4, '--predictor-steps', 20, '--hot', 0.4];
  await invoke(sparsify, ['-m', dense('llama'), '-o', plain, ...ARGS, ...predictors]);
  const { stdout } = await invoke(sparsify, ['-m', dense('llama'), '-o', bundled, ...ARGS, ...predictors, '--bundle']);
  const { metadata, tensors } = await read(bundled);
  const hot = [...(metadata.get('quantlet.sparse.hot_neurons') as Uint32Array)];
  expect(hot.every((n) => n % 16 === 0 && n < 40)).toBe(true);
  expect(Math.max(...hot)).toBeGreaterThan(0);
  hot.forEach((n, il) => expect(stdout).toMatch(new RegExp(`blk\\.${il}: .* fire, ${n > 0 ? `${n} are hot, ` : ''}of groups`)));
  expect(tensors.get('blk.1.ffn_up_down.weight')!.ne.slice(0, 2)).toEqual([64, 40]);
  expect(['ffn_up', 'ffn_down', 'ffn_down_t'].filter((part) => tensors.has(`blk.1.${part}.weight`))).toEqual([]);
  const want = await logits(plain);
  // Hot rows that are not adjacent are not packed.
  const got = await logits(bundled);
  expect(apart(got, want)).toBeLessThan(1e-5);
  expect(apart(await logits(bundled, { neuronWindow: 3 }), got)).toBe(0);
});

it('a model that does not say that it has ReLU can be said to', async () => {
  const out = join(folder, 'said.gguf');
  await invoke(sparsify, ['-m', llamaModel, '-o', out, ...ARGS, '--override-kv', 'powerinfer.sparse_threshold=float:0']);
  const want = await logits(llamaModel, { overrideKv: { 'powerinfer.sparse_threshold': 0 } });
  expect(apart(await logits(out), want)).toBeLessThan(1e-5);
});

describe('what is refused', () => {
  const none = join(folder, 'none.gguf');
  const refused = async (model: string, ...more: Args): Promise<string> => {
    const { code, message } = await failure(() => invoke(sparsify, ['-m', model, '-o', none, ...ARGS, ...more]));
    expect(existsSync(none)).toBe(false);
    return `${code} ${message}`;
  };
  it('models of which all neurons count, and those that are sparse, quantised or rotated already', async () => {
    expect(await refused(llamaModel)).toMatch(/^ERR_INVALID_ARGUMENT nothing in this llama model says .* ReLU/);
    expect(await refused(llamaModel.replace('llama.gguf', 'qwen2.gguf'))).toMatch(
      /^ERR_UNSUPPORTED_ARCH .*"qwen2".* llama, bamboo, falcon, opt$/,
    );
    const sparse = writeTo(folder, 'sparse.gguf', goldenModel('opt-predicted'));
    expect(await refused(sparse)).toMatch(/^ERR_INVALID_ARGUMENT the model is sparse already/);
    const q8 = join(folder, 'falcon-q8.gguf');
    await invoke(quantize, [dense('falcon'), q8, 'Q8_0']);
    expect(await refused(q8)).toMatch(/^ERR_INVALID_ARGUMENT tensor "blk\.0\.ffn_down\.weight" is q8_0; expected f32, f16 or bf16/);
    const turned = join(folder, 'r4.gguf');
    await invoke(rotate, ['--r4', dense('llama'), turned]);
    expect(await refused(turned)).toMatch(/^ERR_INVALID_ARGUMENT the model is rotated by R4/);
    const moe = llamaModel.replace('llama.gguf', 'llama-moe.gguf');
    expect(await refused(moe, '--override-kv', 'powerinfer.sparse_threshold=float:0')).toMatch(/mixtures of experts are not sparsified/);
  });
  it('a text that is too short, and a model whose numbers are not finite', async () => {
    expect(await refused(dense('llama'), '-c', 64, '-p', 'the cat')).toMatch(/^ERR_INVALID_ARGUMENT the text has/);
    const name = 'blk.0.ffn_norm.weight';
    const metadata = { 'powerinfer.sparse_threshold': { type: 'f32', value: 0 } } as const;
    const { ne, type } = (await read(llamaModel)).tensors.get(name)!;
    const data = new Uint8Array(new Float32Array(ne[0]).fill(NaN).buffer);
    const broken = await patchedLlama({ metadata, tensors: { [name]: { type, ne: ne.slice(0, 1), data } } });
    expect(await refused(writeTo(folder, 'nan.gguf', broken))).toMatch(
      /^ERR_LOGITS the input of "blk\.0\.ffn_(down|norm)\.weight" is not finite/,
    );
  });
  it('flags that say nothing, or make no sense', async () => {
    const model = dense('llama');
    const usage = async (...args: Args): Promise<string> => (await failure(() => invoke(sparsify, ['-m', model, ...args]))).message;
    expect(await usage('-f', text)).toMatch(/file to write with -o/);
    expect(await usage('-o', none)).toMatch(/a text is missing/);
    expect(await usage('-o', none, '--hot', 0.5)).toMatch(/--hot .* a text/);
    expect(await usage('-o', none, '-f', text, '--hot', 2)).toMatch(/--hot is 2/);
    expect((await failure(() => invoke(sparsify, ['-m', dense('falcon'), '-o', none, ...ARGS, '--bundle']))).message).toMatch(
      /have no gate/,
    );
    expect(await usage('-o', model, '-f', text)).toMatch(/is also the input/);
    expect(await usage('-o', none, '-f', text, '--recall', 0.9)).toMatch(/--predictor RANK/);
  });
  it('a run that is stopped leaves nothing behind', async () => {
    const before = readdirSync(folder).sort();
    const args = ['-m', dense('llama'), '-o', none, ...ARGS, '--predictor', 8].map(String);
    const reason = new Error('stopped');
    const stop = new AbortController();
    setTimeout(() => stop.abort(reason), 60);
    await expect(sparsify.run(args, stop.signal)).rejects.toBe(reason);
    expect(readdirSync(folder).sort()).toEqual([...new Set([...before, 'llama.gguf'])].sort());
  });
});
