/** The flags of quantlet sparsify. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { sparsify } from '../../../src/cli/sparsify.ts';
import { readGGUF } from '../../../src/gguf/read.ts';
import { toBytes } from '../../../src/io/source.ts';
import { failure, llamaModel } from '../../support.ts';
import { invoke, type Args } from '../commands.ts';
import { folder, text, RELU, json, describeFlags, headsModel } from './support.ts';

describeFlags(sparsify, (effect) => {
  effect(['heads'], 'rows of heads, of any model and without a text', async () => {
    expect((await readGGUF(toBytes(readFileSync(await headsModel())))).tensors.has('blk.0.attn_output_t.squares')).toBe(true);
  });
  const out = join(folder, 'sparse-too.gguf');
  const args: Args = ['-m', llamaModel, '-c', 24, '-t', 1, '-o', out];
  const said = async (...more: Args): Promise<string> => (await invoke(sparsify, [...args, ...more])).stdout;
  effect(['model', 'overrideKv', 'file', 'prompt', 'sparseFile', 'ctx', 'chunks'], 'windows of the text, and a file', async () => {
    const text100 = 'the cat '.repeat(60);
    expect((await failure(() => said('-p', text100))).message).toMatch(/nothing in this llama model/);
    expect(await said('-p', text100, '--override-kv', RELU, '--chunks', 2)).toMatch(/wrote .*sparse-too\.gguf: 48 tokens/);
    expect(await said('-f', text, '--override-kv', RELU, '--chunks', 1, '-c', 32)).toMatch(/wrote .*sparse-too\.gguf: 32 tokens/);
    expect((await readGGUF(toBytes(readFileSync(out)))).tensors.has('blk.0.ffn_down_t.weight')).toBe(true);
  });
  effect(['hot', 'bundle'], 'neurons that are always computed, and rows that lie together', async () => {
    await json(sparsify, '--hot', 0.01, '--bundle');
    const { metadata, tensors } = await readGGUF(toBytes(readFileSync(join(folder, 'sparse.gguf'))));
    expect([metadata.has('quantlet.sparse.hot_neurons'), tensors.has('blk.0.ffn_up_down.weight')]).toEqual([true, true]);
  });
  effect(['predictor', 'predictorSteps', 'recall', 'threads', 'json'], 'predictors of a rank, as good as is asked', async () => {
    const found = async (recall: number): Promise<{ recall: number; threshold: number }> =>
      json(sparsify, '--predictor', 4, '--predictor-steps', 10, '--recall', recall, '-t', 2);
    const [most, few] = [await found(1), await found(0.3)];
    expect(most.recall).toBe(1);
    expect(few.recall).toBeLessThan(1);
    expect(few.threshold).toBeGreaterThan(most.threshold);
  });
});
