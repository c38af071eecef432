/** Order of loading: the plan is whole before a weight is read, and what fails ends everything that runs beside it. */
import { readFileSync } from 'node:fs';
import { loadModel, type LoadOptions } from 'quantlet';
import { beforeAll, expect, it } from 'vitest';
import { readGGUF } from '../../src/gguf/read.ts';
import { toBytes } from '../../src/io/source.ts';
import { failure, llamaModel } from '../support.ts';

const bytes = readFileSync(llamaModel);
/** Offset of the first weight. */
let weightsFrom = Infinity;
beforeAll(async () => {
  const { tensors } = await readGGUF(toBytes(bytes));
  weightsFrom = Math.min(...[...tensors.values()].map(({ offset }) => offset));
});

/** A source that counts reads of weights, and those that have not ended. */
function countingSource(delayMs = 0) {
  const reads = { begun: 0, running: 0 };
  const source = {
    byteLength: bytes.length,
    async slice(start: number, end: number): Promise<Uint8Array> {
      const ofWeights = start >= weightsFrom;
      if (ofWeights) {
        reads.begun++;
        reads.running++;
        await new Promise((resolve) => setTimeout(resolve, delayMs));
        reads.running--;
      }
      return bytes.subarray(start, end);
    },
  };
  return { source, reads };
}

it.each<[string, LoadOptions, string]>([
  ['a context that does not fit', { contextLength: 2 ** 30 }, 'ERR_OUT_OF_MEMORY'],
  ['speculation for vectors', { embeddings: true, speculation: { type: 'ngram-simple' } }, 'ERR_INVALID_ARGUMENT'],
  ['a window of neurons for a dense model', { neuronWindow: 4 }, 'ERR_SOURCE'],
  ['metadata that contradicts the tensors', { overrideKv: { 'llama.feed_forward_length': 3 } }, 'ERR_TENSOR_SHAPE'],
])('%s is refused before a weight is read', async (_, options, code) => {
  const { source, reads } = countingSource();
  expect((await failure(loadModel(source, { threads: 2, warmUp: false, ...options }))).code).toBe(code);
  expect(reads.begun).toBe(0);
});

it.each(['simd', 'simd-threads'] as const)(
  '%s: if the tokenizer fails while weights are read, reading has ended when loadModel rejects',
  async (build) => {
    const { source, reads } = countingSource(5);
    const options = { build, threads: 2, warmUp: false, overrideKv: { 'tokenizer.ggml.model': 'unheard-of' } };
    const { error } = await failure(loadModel(source, options));
    expect(String(error)).toMatch(/unheard-of/);
    const { begun } = reads;
    expect(begun).toBeGreaterThan(0);
    expect(reads.running).toBe(0);
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(reads.begun).toBe(begun);
  },
);

it('an abort while weights are read leaves no read running', async () => {
  const { source, reads } = countingSource(5);
  const controller = new AbortController();
  const reason = { mine: 1 };
  const onProgress = (): void => controller.abort(reason);
  const loading = failure(loadModel(source, { threads: 2, warmUp: false, signal: controller.signal, onProgress }));
  expect((await loading).error).toBe(reason);
  expect(reads.running).toBe(0);
});
