/**
 * quantlet rotate: rotated models compute the same, for every supported architecture, and what is
 * refused.
 */
import { readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { rotate } from '../../src/cli/rotate.ts';
import { temporaryName } from '../../src/tools/new-file.ts';
import { readGGUF } from '../../src/gguf/read.ts';
import { toBytes } from '../../src/io/source.ts';
import { TYPE } from '../../src/type-traits.ts';
import { loadModel, type LoadOptions, type Model } from 'quantlet';
import { decode } from '../reference/golden-ops.ts';
import { failure, hasFullDisk, logitsOf, patchedLlama, root, temporaryFolder, writeTo } from '../support.ts';
import { invoke } from './commands.ts';

const golden = (name: string): string => fileURLToPath(new URL(`test/golden/arch/${name}.gguf`, root));
const folder = temporaryFolder();
const out = (name: string): string => join(folder, `${name}.gguf`);

interface Case {
  readonly model: string;
  readonly ids: number[];
  readonly greedy?: number[];
  readonly lora?: unknown;
}
const { cases } = JSON.parse(readFileSync(new URL('test/golden/arch/golden.json', root), 'utf8')) as { cases: Case[] };

async function withModel<T>(source: string | Uint8Array, options: LoadOptions, use: (model: Model) => Promise<T>): Promise<T> {
  const model = await loadModel(source, {
    warmUp: false,
    contextLength: 128,
    maxOutputs: 128,
    threads: 1,
    cacheTypeK: 'f32',
    cacheTypeV: 'f32',
    ...options,
  });
  try {
    return await use(model);
  } finally {
    await model.dispose();
  }
}

/**
 * Logits at every position of a golden prompt, its loss in nats per token, and the model's
 * continuation.
 */
async function answers(
  path: string,
  name: string,
  options: LoadOptions = {},
): Promise<{ logits: Float32Array; nll: number; greedy: readonly number[] }> {
  const { ids } = cases.find((c) => c.model === `${name}.gguf` && !c.lora)!;
  return withModel(path, options, async (model) => {
    const rows = await logitsOf(model, ids);
    const { ids: greedy } = await model.generate(ids, { temperature: 0, ignoreEos: true, maxTokens: 32 }).result();
    const nll = ids.slice(1).reduce((sum, id, i) => sum + Math.log(rows[i].reduce((z, x) => z + Math.exp(x - rows[i][id]), 0)), 0);
    return { logits: Float32Array.from(rows.flatMap((row) => [...row])), nll: nll / (ids.length - 1), greedy };
  });
}

/** The same model with f32 matrices. */
async function widened(path: string): Promise<string> {
  const file = readFileSync(path);
  const { tensors } = await readGGUF(toBytes(file));
  const halves = [...tensors.values()].filter(({ type }) => type === TYPE.f16);
  const f32 = halves.map(({ name, ne, nDims, offset, byteLength }) => {
    const values = Float32Array.from(decode('f16', file.subarray(offset, offset + byteLength)));
    return [name, { type: TYPE.f32, ne: ne.slice(0, nDims), data: new Uint8Array(values.buffer) }] as const;
  });
  return writeTo(folder, 'wide.gguf', await patchedLlama({ tensors: Object.fromEntries(f32) }, path));
}

/** The largest difference, relative to the largest logit. */
function apart(got: Float32Array, want: Float32Array): number {
  const largest = want.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
  return got.reduce((most, x, i) => Math.max(most, Math.abs(x - want[i])), 0) / largest;
}
/**
 * F32 models: sums in another basis. F16 models, 16 to 64 wide: weights are rounded to 11 bits a
 * second time.
 */
const TOLERANCE = { f32: 1e-5, f16: 1e-2 };

describe('the model computes what it did', () => {
  it.each([
    ['llama', '--r1 --r2 --r3 --r4', 'f32', 'R1 of 32, R2 of 8, R3 of 8, R4 of 40'],
    ['qwen2', '--r1 --r2 --r3 --r4', 'f32', 'R1 of 32, R2 of 8, R3 of 8, R4 of 40'],
    ['qwen3', '--r1 --r2 --r3 --r4', 'f32', 'R1 of '],
    ['phi3', '--r1 --r2 --r3 --r4', 'f32', 'R1 of '],
    ['granite', '--r1 --r2 --r3 --r4', 'f32', 'R1 of '],
    ['gemma3', '--r2 --r3 --r4', 'f32', 'R2 of '],
    ['llama-rope-freqs', '', 'f16', 'R1 of 32, R2 of 8'],
  ] as const)('%s %s', async (name, flags, type, says) => {
    const source = type === 'f32' ? await widened(golden(name)) : golden(name);
    const { stdout } = await invoke(rotate, [...flags.split(' ').filter(Boolean), source, out(name)]);
    expect(stdout).toContain(says);
    const [want, got] = [await answers(source, name), await answers(out(name), name)];
    expect(apart(got.logits, want.logits)).toBeLessThan(TOLERANCE[type]);
    if (type === 'f32') expect(Math.abs(got.nll - want.nll)).toBeLessThan(1e-4);
    expect(got.greedy).toEqual(cases.find((c) => c.model === `${name}.gguf`)!.greedy);
  });

  it('each online rotation is heard: without its key the answer is another one', async () => {
    await invoke(rotate, ['--r4', golden('llama'), out('r4')]);
    const [want, got, without] = [
      await answers(golden('llama'), 'llama'),
      await answers(out('r4'), 'llama'),
      await answers(out('r4'), 'llama', { overrideKv: { 'quantlet.rotation.r4': 0 } }),
    ];
    expect(apart(got.logits, want.logits)).toBeLessThan(TOLERANCE.f32);
    expect(apart(without.logits, want.logits)).toBeGreaterThan(0.05);
    // R3 changes only the loss of a 4-bit cache.
    const q4_0 = { cacheTypeK: 'q4_0', cacheTypeV: 'f32' } as const;
    const r3 = { overrideKv: { 'quantlet.rotation.r3': 8 } };
    expect(apart((await answers(golden('llama'), 'llama', r3)).logits, want.logits)).toBeLessThan(TOLERANCE.f32);
    const rough = await answers(golden('llama'), 'llama', q4_0);
    expect(apart((await answers(golden('llama'), 'llama', { ...r3, ...q4_0 })).logits, rough.logits)).toBeGreaterThan(1e-3);
  });
});

it('the same bytes for any number of threads, others for another seed; metadata stays, and says what was done', async () => {
  const made: Buffer[] = [];
  for (const args of [
    ['-t', 1],
    ['-t', 3],
    ['-s', 7],
  ]) {
    await invoke(rotate, [...args, golden('llama'), out('same')]);
    made.push(readFileSync(out('same')));
  }
  expect(made[1].equals(made[0])).toBe(true);
  expect(made[2].equals(made[0])).toBe(false);
  const [before, after] = await Promise.all([readFileSync(golden('llama')), made[2]].map(async (b) => readGGUF(toBytes(b))));
  const added = Object.fromEntries([...after.metadata].filter(([key]) => !before.metadata.has(key)));
  expect(added).toEqual({ 'quantlet.rotation.r1': 32, 'quantlet.rotation.r2': 8, 'quantlet.rotation.seed': 7 });
  for (const [key, value] of before.metadata) expect(after.metadata.get(key), key).toEqual(value);
});

describe('what is refused', () => {
  const refused = async (args: readonly string[]): Promise<readonly [string | undefined, string]> => {
    const { code, message } = await failure(() => invoke(rotate, [...args, out('refused')]));
    expect(readdirSync(folder).filter((name) => name.includes('refused'))).toEqual([]);
    return [code, message];
  };

  it.each([
    [
      'gemma3: R1',
      ['--r1', golden('gemma3')],
      'ERR_INVALID_ARGUMENT',
      /post_\w+_norm.*--r1 is refused: no matrix can take over the weights of a norm after a branch/,
    ],
    ['experts', [golden('llama-moe')], 'ERR_INVALID_ARGUMENT', /ffn_\w+.*mixtures of experts are not rotated/],
    ['experts: R4', ['--r4', golden('llama-moe')], 'ERR_INVALID_ARGUMENT', /_exps.*--r4 is refused/],
    ['a quantised model', [golden('llama-q4_0')], 'ERR_INVALID_ARGUMENT', /is q4_0; expected f32, f16 or bf16: rotate the model before/],
    ['another architecture', [golden('starcoder2')], 'ERR_UNSUPPORTED_ARCH', /"starcoder2".*expected one of llama, qwen2/],
    ['a seed below 0', ['-s', '-1', golden('llama')], 'ERR_USAGE', /--seed is -1; expected a whole number from 0/],
  ] as const)('%s', async (_, args, code, message) => {
    expect(await refused(args)).toEqual([code, expect.stringMatching(message)]);
  });

  it('a rotated model, and adapters of one', async () => {
    await invoke(rotate, ['--r2', golden('llama'), out('once')]);
    expect(await refused([out('once')])).toEqual([
      'ERR_INVALID_ARGUMENT',
      expect.stringMatching(/rotated already .*"quantlet.rotation.r2"/),
    ]);
    const lora = [{ source: golden('llama-lora') }];
    const { code, message } = await failure(loadModel(out('once'), { lora }));
    expect([code, message]).toEqual(['ERR_ADAPTER', expect.stringMatching(/weights are rotated \(r2\).*merge the adapter/)]);
  });

  it.each([
    ['r3', 3],
    ['r3', 16],
    ['r4', 36],
    ['r4', 80],
  ])('a file that names a rotation which there is not: %s of %i', async (name, n) => {
    const key = `quantlet.rotation.${name}`;
    const { code, message } = await failure(loadModel(await patchedLlama({}), { overrideKv: { [key]: n } }));
    expect([code, message]).toEqual(['ERR_GGUF_INVALID', expect.stringContaining(`metadata "${key}" is ${n}; expected`)]);
  });

  it('invalid numbers; nothing is left behind', async () => {
    const data = new Float32Array(32 * 32).fill(1);
    data[77] = NaN;
    const type = { id: 0, name: 'f32', blckSize: 1, typeSize: 4 } as const;
    const bytes = await patchedLlama({ tensors: { 'blk.1.attn_q.weight': { type, ne: [32, 32], data: new Uint8Array(data.buffer) } } });
    const broken = writeTo(folder, 'broken.gguf', bytes);
    expect(await refused([broken])).toEqual([
      'ERR_GGUF_INVALID',
      expect.stringMatching(/"blk.1.attn_q.weight" has NaN or infinity in its data/),
    ]);
  });

  it.runIf(hasFullDisk)('a full disk; nothing is left behind', async () => {
    symlinkSync('/dev/full', temporaryName(out('refused')));
    expect(await refused([golden('llama')])).toEqual(['ERR_IO', expect.stringMatching(/ENOSPC.*the disk is full/)]);
  });
});
