/** The flags of quantlet inspect. */
import { expect } from 'vitest';
import { inspectCommand as inspect } from '../../../src/cli/inspect-command.ts';
import { perplexity } from '../../../src/cli/perplexity.ts';
import { run } from '../../../src/cli/run.ts';
import { loadModel, type Model } from '../../../src/entry/node.ts';
import type { Verdict } from '../../../src/plan/can-run.ts';
import { goldenModel } from '../../arch/golden-models.ts';
import { iqModel } from '../../model/iq-model.ts';
import { llamaModel, shippedModel, writeTo } from '../../support.ts';
import { invoke, type Args } from '../commands.ts';
import { modelFiles } from './model-files.ts';
import { BASE, folder, text, golden, without, predictedModel, describeFlags } from './support.ts';

const iqFile = writeTo(folder, 'iq.gguf', iqModel);

describeFlags(inspect, (effect) => {
  modelFiles(inspect, effect);

  effect(['experts', 'file', 'prompt', 'ctx', 'chunks', 'threads'], 'how often experts are used, over which text', async () => {
    const use = async (...args: Args): Promise<{ tokens: number; layers: { tokens: number[] }[] }> =>
      JSON.parse((await invoke(inspect, ['--experts', '--json', '-m', golden('llama-moe.gguf'), ...args])).stdout) as never;
    const whole = await use('-f', text, '-t', 1);
    expect(whole.layers.map(({ tokens }) => tokens.reduce((a, n) => a + n))).toEqual([2 * whole.tokens, 2 * whole.tokens]);
    expect((await use('-p', 'the cat')).tokens).toBeLessThan(whole.tokens);
    expect((await use('-f', text, '-c', 8, '--chunks', 2)).tokens).toBe(16);
  });
  const MEMORY = ['memory', 'cacheTypeK', 'cacheTypeV', 'weightsMemory', 'batch', 'parallel'] as const;
  effect(['iqWeights'], 'how much weights of IQ1 to IQ3 and TQ1_0 take', async () => {
    const of = async (how: string): Promise<Verdict & { runs: true }> =>
      JSON.parse((await invoke(inspect, ['--memory', iqFile, '-c', 64, '--json', '--iq-weights', how])).stdout) as never;
    const [compact, fast] = [await of('compact'), await of('fast')];
    expect([compact.iq_weights, fast.iq_weights]).toEqual(['compact', 'fast']);
    expect(fast.memory.weights).toBeGreaterThan(1.3 * compact.memory.weights);
    expect((await invoke(inspect, ['--memory', iqFile, '-c', 64])).stdout).toMatch(/^weights of IQ1 to IQ3 and TQ1_0 are compact/m);
    expect((await invoke(run, ['-m', iqFile, '-n', 1, '-p', 'a', '--iq-weights', 'fast', '--verbose'])).stderr).toContain(
      'weights of IQ1 to IQ3 and TQ1_0 are fast',
    );
    const nll = async (how: string): Promise<string> =>
      (await invoke(perplexity, [...without(BASE.perplexity, '-m'), '-m', iqFile, '--iq-weights', how])).stdout;
    expect(await nll('fast')).toBe(await nll('compact'));
  });
  effect(MEMORY, 'how much memory a model takes, as loading it says', async () => {
    const memory = async (...args: Args): Promise<Model['stats']['memory']> =>
      (JSON.parse((await invoke(inspect, ['--memory', shippedModel, '-c', 512, '--json', ...args])).stdout) as Model['stats']).memory;
    const model = await loadModel(shippedModel, { contextLength: 512, warmUp: false });
    expect(await memory()).toEqual(model.stats.memory);
    await model.dispose();
    const { cache, compute } = await memory();
    expect((await memory('-ctk', 'f32')).cache).toBe(1.5 * cache);
    expect((await memory('-ctv', 'f32')).cache).toBe(1.5 * cache);
    expect((await memory('-np', 2)).cache).toBe(2 * cache);
    expect((await memory('-b', 256)).compute).toBeLessThan(compute);
    expect((await memory('--weights-memory', '1M')).weights).toBeLessThanOrEqual(2 ** 20);
    expect((await invoke(inspect, ['--memory', shippedModel, '-c', 512])).stdout).toMatch(
      /^memory with 512 tokens of context\n {2}weights +\d.*\n {2}cache .*\n {2}computing .*\n {2}in all .*\n$/,
    );
  });
  effect(['overrideKv'], 'what the verdict and the memory are of', async () => {
    const said = async <T>(...args: Args): Promise<T> => JSON.parse((await invoke(inspect, ['--json', ...args])).stdout) as T;
    const overrideKv = { 'llama.context_length': 96 };
    const model = await loadModel(shippedModel, { contextLength: 0, warmUp: false, overrideKv });
    const flag: Args = ['--override-kv', 'llama.context_length=int:96'];
    expect(await said(shippedModel, '--memory', ...flag)).toMatchObject({ context_length: 96, memory: model.stats.memory });
    await model.dispose();
    // The lists show the unchanged file.
    expect(await said(llamaModel, '--override-kv', 'general.architecture=str:none')).toMatchObject({
      architecture: 'llama',
      verdict: { runs: false, code: 'ERR_UNSUPPORTED_ARCH' },
    });
    expect(
      await said('--experts', '-m', golden('llama-moe.gguf'), '-f', text, '--override-kv', 'llama.expert_used_count=int:1'),
    ).toMatchObject({
      layers: expect.arrayContaining([expect.objectContaining({ used: 1 })]) as unknown,
    });
  });
  effect(['neuronWindow', 'ctxCheckpoints'], 'how much memory neurons and states take', async () => {
    const memory = async (...args: Args): Promise<Model['stats']['memory']> =>
      (JSON.parse((await invoke(inspect, ['--memory', '-c', 512, '--json', ...args])).stdout) as Model['stats']).memory;
    const predicted = predictedModel();
    expect((await memory(predicted, '--neuron-window', 5)).weights).toBeLessThan((await memory(predicted)).weights);
    const recurrent = writeTo(folder, 'mamba.gguf', goldenModel('mamba'));
    expect((await memory(recurrent, '-ctxcp', 1)).cache).toBeLessThan((await memory(recurrent)).cache);
  });
  effect(['json'], 'one object', async () => {
    expect(JSON.parse((await invoke(inspect, [llamaModel, '--json'])).stdout)).toMatchObject({ architecture: 'llama' });
    expect((await invoke(inspect, [llamaModel])).stdout).toMatch(/^(?!\{)/);
    expect((await invoke(inspect, [])).stdout).toBe((await invoke(inspect, [shippedModel])).stdout);
  });
});
