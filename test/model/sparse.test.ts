/**
 * Models of which only the neurons that fire are computed (src/arch/sparse.ts), in PowerInfer's layout: made from the golden llama, against scalar f64, and
 * with all neurons computed bit by bit.
 */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { loadModel, type LoadOptions } from 'quantlet';
import { readGGUF } from '../../src/gguf/read.ts';
import { toBytes } from '../../src/io/source.ts';
import { TYPE } from '../../src/type-traits.ts';
import { isThreaded } from '../../src/wasm/load.ts';
import { gaussian } from '../kernel/harness.ts';
import { readGguf } from '../reference/gguf.ts';
import { reference } from '../reference/llm.ts';
import { BUILDS, RUNS, TOLERANCE, bitDifference, llamaModel, logitsOf, patchedLlama, randomIds, type Patch } from '../support.ts';

const file = readFileSync(llamaModel);
const gguf = await readGGUF(toBytes(file));
const layers = gguf.metadata.get('llama.block_count') as number;
const [nEmbd, nFf] = gguf.tensors.get('blk.0.ffn_up.weight')!.ne;
const nVocab = gguf.tensors.get('token_embd.weight')!.ne[1];
const IDS = randomIds(23, nVocab, 7);
const bytes = (x: Float32Array): Uint8Array => new Uint8Array(x.buffer);

/** The golden llama with rows of neurons for its last products; `down`: with the ordinary ones beside them; `rank`: with predictors. */
function sparseLlama({ down = false, rank = 0, threshold = 0 } = {}): Promise<Uint8Array<ArrayBuffer>> {
  const tensors: NonNullable<Patch['tensors']> & Record<string, unknown> = {};
  for (let il = 0; il < layers; il++) {
    const { offset, byteLength, type } = gguf.tensors.get(`blk.${il}.ffn_down.weight`)!;
    expect(type).toBe(TYPE.f32);
    const from = new Float32Array(file.buffer.slice(file.byteOffset + offset, file.byteOffset + offset + byteLength));
    const turned = Float32Array.from(from, (_, i) => from[(i % nEmbd) * nFf + Math.floor(i / nEmbd)]);
    tensors[`blk.${il}.ffn_down_t.weight`] = { type: TYPE.f32, ne: [nEmbd, nFf], data: bytes(turned) };
    if (!down) tensors[`blk.${il}.ffn_down.weight`] = undefined;
    if (rank === 0) continue;
    tensors[`blk.${il}.fc1.weight`] = { type: TYPE.f32, ne: [nEmbd, rank], data: bytes(gaussian(nEmbd * rank, 3 + il)) };
    tensors[`blk.${il}.fc2.weight`] = { type: TYPE.f32, ne: [rank, nFf], data: bytes(gaussian(rank * nFf, 13 + il)) };
  }
  return patchedLlama({ tensors, metadata: { 'powerinfer.sparse_threshold': { type: 'f32', value: threshold } } });
}

const logits = async (model: Uint8Array<ArrayBuffer>, options: LoadOptions, sizes?: readonly number[]): Promise<Float32Array[]> => {
  const loaded = await loadModel(model, { contextLength: 64, maxOutputs: IDS.length, ...options });
  try {
    return await logitsOf(loaded, IDS, sizes);
  } finally {
    await loaded.dispose();
  }
};

const exact = await sparseLlama();
/** A predictor that lets every neuron pass: all rows are computed. */
const all = await sparseLlama({ rank: 4, threshold: -Infinity });
const both = await sparseLlama({ down: true });
const predicted = await sparseLlama({ rank: 4, threshold: 1 });

describe.each(RUNS)('%s, %i threads', (build, threads) => {
  it('exact: the bits of all neurons in one batch, token by token, and where the dense weights are taken', async () => {
    const want = await logits(all, { build, threads });
    expect(bitDifference(await logits(exact, { build, threads }, [1, 5, 1]), want)).toBe('');
    expect(bitDifference(await logits(both, { build, threads }, [7]), want)).toBe('');
  });
});

it.each(BUILDS)('%s: exact and predicted, the numbers of the scalar reference', async (build) => {
  for (const model of [exact, predicted]) {
    const want = reference(readGguf(model)).logits(IDS, 64);
    const got = await logits(model, { build, threads: isThreaded(build) ? 2 : 1 }, [16]);
    const largest = Math.max(...want.flatMap((row) => [...row].map(Math.abs)));
    got.forEach((row, r) => row.forEach((v, i) => expect(Math.abs(v - want[r][i]) / largest).toBeLessThan(TOLERANCE.f32)));
  }
});

it('a predictor changes what is computed, and a file without its second half is refused', async () => {
  expect(bitDifference(await logits(predicted, { threads: 1 }), await logits(exact, { threads: 1 }))).not.toBe('');
  const half = await patchedLlama({
    tensors: { 'blk.0.ffn_down_t.weight': { type: TYPE.f32, ne: [nEmbd, nFf] }, 'blk.0.fc1.weight': { type: TYPE.f32, ne: [nEmbd, 4] } },
  });
  await expect(loadModel(half)).rejects.toMatchObject({
    code: 'ERR_MISSING_TENSOR',
    message: expect.stringMatching(/blk\.0\.fc2\.weight/),
  });
});
