/**
 * The verdict of inspect on a file, from its header alone: if it can run, and what is missing if
 * not.
 */
import { readFileSync } from 'node:fs';
import { loadModel, type LoadOptions } from 'quantlet';
import { describe, expect, it } from 'vitest';
import { canRun, type Verdict } from '../../src/plan/can-run.ts';
import { memorySum } from '../../src/plan/memory-use.ts';
import { withMetadata } from '../../src/gguf/metadata.ts';
import { readGGUF } from '../../src/gguf/read.ts';
import type { GGUF, TensorInfo } from '../../src/gguf/types.ts';
import { toBytes } from '../../src/io/source.ts';
import { goldenModel } from '../arch/golden-models.ts';
import { at, llamaModel } from '../support.ts';

const header = (path: string): Promise<GGUF> => readGGUF(toBytes(readFileSync(path)));
const golden = (name: string): string => at(`test/golden/arch/${name}.gguf`);
const machine = { isa: 'simd' as const, threads: 1, free: Infinity };
const llama = await header(llamaModel);
const without = (gguf: GGUF, name: string): GGUF => ({ ...gguf, tensors: new Map([...gguf.tensors].filter(([key]) => key !== name)) });
/** A tensor with 1024 times as many rows and columns: matrices of 4 GiB. */
const widen = (t: TensorInfo): TensorInfo => ({
  ...t,
  ne: t.ne.map((n) => (n === 32 || n === 16 ? n * 1024 : n)) as unknown as TensorInfo['ne'],
});
const wide = withMetadata(
  { ...llama, tensors: new Map([...llama.tensors].map(([name, t]) => [name, widen(t)])) },
  { 'llama.embedding_length': 32768 },
);

/** The tensors of eight layers of 16 MB. */
const layersOf = (t: TensorInfo): TensorInfo[] =>
  /^blk\.1\./.test(t.name)
    ? []
    : /^blk\./.test(t.name)
      ? Array.from({ length: 8 }, (_, il) => ({ ...t, name: t.name.replace('0', String(il)) }))
      : [t];
const deepen = (t: TensorInfo): TensorInfo => ({ ...t, ne: t.ne.map((n) => (n === 40 ? n * 1024 : n)) as unknown as TensorInfo['ne'] });
const deep = withMetadata(
  { ...llama, tensors: new Map([...llama.tensors.values()].flatMap(layersOf).map((t) => [t.name, deepen(t)])) },
  { 'llama.block_count': 8, 'llama.feed_forward_length': 40 * 1024 },
);

describe('models that run', () => {
  it.each([
    ['llama.gguf', 'logits'],
    ['bert.gguf', 'embeddings'],
    ['qwen3-rank.gguf', 'ranks'],
    ['lfm2', 'logits'],
  ])('%s makes %s', async (name, makes) => {
    const verdict = canRun(await readGGUF(toBytes(goldenModel(name))), machine);
    expect(verdict).toMatchObject({ runs: true, makes });
    const model = await loadModel(goldenModel(name), { build: 'simd', warmUp: false });
    const { contextLength, stats } = model;
    expect(verdict).toMatchObject({ context_length: contextLength, memory_bytes: stats.memoryBytes, memory: stats.memory, memories: 1 });
    await model.dispose();
  });
});

describe('less memory than it takes', () => {
  const long = withMetadata(llama, { 'llama.context_length': 2048 });
  const told = (free: number, options?: LoadOptions): Verdict => canRun(long, { ...machine, free }, { batchSize: 32, ...options });
  const whole = told(Infinity) as Verdict & { runs: true };
  const { weights, cache } = whole.memory;
  const table = llama.tensors.get('token_embd.weight')!.byteLength;

  it('first a table of which a step needs a few rows stays in the file, then the context shrinks', () => {
    const fewer = told(whole.memory_bytes - 1);
    expect(fewer).toMatchObject({ context_length: whole.context_length, memory: { weights: weights - table, cache } });
    expect(told(whole.memory_bytes - cache / 2)).toMatchObject({ runs: true, context_length: whole.context_length / 2 });
  });

  it('a requested context is refused, and the message says what would fit', () => {
    const free = whole.memory_bytes - cache / 2;
    const refused = told(free, { contextLength: whole.context_length });
    expect(refused).toMatchObject({ runs: false, code: 'ERR_OUT_OF_MEMORY' });
    const { reason } = refused as Verdict & { runs: false };
    const [, context] = /contextLength of at most (\d+) \(-c\)/.exec(reason)!;
    expect(told(free, { contextLength: Number(context) }).runs).toBe(true);
    expect(told(free, { contextLength: Number(context) + 256 }).runs).toBe(false);
  });

  it('if reading layers again in every step would do, it says how much memory weights need', () => {
    const options = { contextLength: 256, batchSize: 32 };
    const parts = (canRun(deep, machine, options) as Verdict & { runs: true }).memory;
    const refused = canRun(deep, { ...machine, free: memorySum(parts) / 2 }, options);
    const [, most] = /--weights-memory (\d+)M/.exec((refused as Verdict & { runs: false }).reason)!;
    const weightsMemory = Number(most) * 2 ** 20;
    expect(canRun(deep, machine, { ...options, weightsMemory })).toMatchObject({ runs: true });
    expect(weightsMemory).toBeLessThan(parts.weights / 2);
  });
});

describe('missing parts', () => {
  const of = (name: string): GGUF => withMetadata(llama, { 'general.architecture': name });
  it.each<[what: string, gguf: GGUF, code: string, reason: RegExp]>([
    ['an architecture, and the nearest one', of('qwen3moe9'), 'ERR_UNSUPPORTED_ARCH', /"qwen3moe9".*nearest that it runs is qwen3/],
    ['one of a longer name', of('granitetall'), 'ERR_UNSUPPORTED_ARCH', /nearest that it runs is granite/],
    ['one like no other', of('zzz'), 'ERR_UNSUPPORTED_ARCH', /it runs llama, /],
    ['one without letters', of('7'), 'ERR_UNSUPPORTED_ARCH', /it runs llama, /],
    ['a tensor', without(llama, 'blk.1.ffn_down.weight'), 'ERR_MISSING_TENSOR', /blk\.1\.ffn_down\.weight/],
    ['a tokenizer', withMetadata(llama, { 'tokenizer.ggml.model': 'rwkv' }), 'ERR_UNSUPPORTED_TOKENIZER', /rwkv/],
    ['memory', wide, 'ERR_OUT_OF_MEMORY', /needs \d+ MiB .* in one WebAssembly memory, which has at most 4096 MiB/],
  ])('%s', (_, gguf, code, reason) => {
    const verdict = canRun(gguf, machine);
    expect(verdict).toMatchObject({ runs: false, code });
    expect(verdict.runs || verdict.reason).toMatch(reason);
  });

  it('the model of an adapter', async () => {
    expect(canRun(await header(golden('llama-lora')), machine)).toMatchObject({ runs: false, code: 'ERR_ADAPTER' });
  });
});
