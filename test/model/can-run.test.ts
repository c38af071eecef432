/** What inspect says of a file, from its header: whether it runs, and what is missing where it does not. */
import { memorySum } from '../../src/engine/memory-use.ts';
import { readFileSync } from 'node:fs';
import { loadModel } from 'quantlet';
import { describe, expect, it } from 'vitest';
import { canRun } from '../../src/engine/can-run.ts';
import { platform } from '../../src/entry/node-platform.ts';
import { withMetadata } from '../../src/gguf/metadata.ts';
import { readGGUF } from '../../src/gguf/read.ts';
import type { GGUF, TensorInfo } from '../../src/gguf/types.ts';
import { toBytes } from '../../src/io/source.ts';
import { kernelFacts } from '../../src/wasm/load.ts';
import { goldenModel } from '../arch/golden-models.ts';
import { llamaModel, root } from '../support.ts';

const header = (path: string): Promise<GGUF> => readGGUF(toBytes(readFileSync(path)));
const golden = (name: string): string => new URL(`test/golden/arch/${name}.gguf`, root).pathname;
const facts = kernelFacts(await platform.module('simd'), false);
const llama = await header(llamaModel);
const without = (gguf: GGUF, name: string): GGUF => ({ ...gguf, tensors: new Map([...gguf.tensors].filter(([key]) => key !== name)) });
/** 1024 times as wide: matrices of 4 GiB. */
const widen = (t: TensorInfo): TensorInfo => ({
  ...t,
  ne: t.ne.map((n) => (n === 32 || n === 16 ? n * 1024 : n)) as unknown as TensorInfo['ne'],
});
const wide = withMetadata(
  { ...llama, tensors: new Map([...llama.tensors].map(([name, t]) => [name, widen(t)])) },
  { 'llama.embedding_length': 32768 },
);

describe('models that run', () => {
  it.each([
    ['llama.gguf', 'logits'],
    ['bert.gguf', 'embeddings'],
    ['qwen3-rank.gguf', 'ranks'],
    ['lfm2', 'logits'],
  ])('%s makes %s', async (name, makes) => {
    const verdict = canRun(await readGGUF(toBytes(goldenModel(name))), facts);
    expect(verdict).toMatchObject({ runs: true, makes });
    const model = await loadModel(goldenModel(name), { build: 'simd', parallel: 1, maxOutputs: 1, warmUp: false });
    expect(verdict).toMatchObject({
      context_length: model.internals.engine.contextLength,
      memory_bytes: memorySum(model.internals.engine.memory),
    });
    await model.dispose();
  });
});

describe('what is missing', () => {
  const of = (name: string): GGUF => withMetadata(llama, { 'general.architecture': name });
  it.each<[what: string, gguf: GGUF, code: string, reason: RegExp]>([
    ['an architecture, and the nearest one', of('qwen3moe9'), 'ERR_UNSUPPORTED_ARCH', /"qwen3moe9".*nearest that it runs is qwen3/],
    ['one of a longer name', of('granitetall'), 'ERR_UNSUPPORTED_ARCH', /nearest that it runs is granite/],
    ['one like no other', of('zzz'), 'ERR_UNSUPPORTED_ARCH', /it runs llama, /],
    ['one without letters', of('7'), 'ERR_UNSUPPORTED_ARCH', /it runs llama, /],
    ['a tensor', without(llama, 'blk.1.ffn_down.weight'), 'ERR_MISSING_TENSOR', /blk\.1\.ffn_down\.weight/],
    ['a tokenizer', withMetadata(llama, { 'tokenizer.ggml.model': 'rwkv' }), 'ERR_UNSUPPORTED_TOKENIZER', /rwkv/],
    ['memory', wide, 'ERR_OUT_OF_MEMORY', /more than the 4096 MiB/],
  ])('%s', (_, gguf, code, reason) => {
    const verdict = canRun(gguf, facts);
    expect(verdict).toMatchObject({ runs: false, code });
    expect(verdict.runs || verdict.reason).toMatch(reason);
  });

  it('the model of an adapter', async () => {
    expect(canRun(await header(golden('llama-lora')), facts)).toMatchObject({ runs: false, code: 'ERR_UNSUPPORTED_ARCH' });
  });
});
