/** Tests of the flags that set options of loadModel. */
import { describe, expect, vi } from 'vitest';
import type { Command } from '../../../src/cli/command.ts';
import type { FlagKey } from '../../../src/cli/flags.ts';
import { serve } from '../../../src/cli/serve.ts';
import { loadModel } from '../../../src/entry/node.ts';
import { llamaModel } from '../../support.ts';
import { invoke, type Args } from '../commands.ts';
import { BASE, golden, served, work, without, predictedModel, headsModel, seeing, type Effect } from './support.ts';

/** Models for flags that have no effect on the models of BASE. */
const RARE: { readonly [key in FlagKey]?: () => string | Promise<string> } = {
  sparseThreshold: predictedModel,
  neuronWindow: predictedModel,
  attnHeads: headsModel,
  mmproj: () => seeing.model,
  imageMinTokens: () => seeing.model,
  imageMaxTokens: () => seeing.model,
};
const lora = golden('llama-lora.gguf');
const OPTIONS: Partial<Record<FlagKey, readonly [args: Args, options: object]>> = {
  threads: [['-t', 2], { threads: 2 }],
  ctx: [['-c', 48], { contextLength: 48 }],
  batch: [['-b', 33], { batchSize: 33 }],
  ctxCheckpoints: [['-ctxcp', 3], { ctxCheckpoints: 3 }],
  checkpointMinStep: [['-cms', 32], { checkpointMinStep: 32 }],
  cacheTypeK: [['-ctk', 'q8_0'], { cacheTypeK: 'q8_0' }],
  cacheTypeV: [['-ctv', 'q4_0'], { cacheTypeV: 'q4_0' }],
  cacheRotation: [['--no-cache-rotation'], { cacheRotation: false }],
  actBits: [['--act-bits', 4], { actBits: 4 }],
  iqWeights: [['--iq-weights', 'fast'], { iqWeights: 'fast' }],
  sparseThreshold: [['--sparse-threshold', 0.25], { sparseThreshold: 0.25 }],
  weightsMemory: [['--weights-memory', '2.5G'], { weightsMemory: 2.5 * 2 ** 30 }],
  neuronWindow: [['--neuron-window', 5], { neuronWindow: 5 }],
  attnHeads: [['--attn-heads', 0.5], { attnHeads: 0.5 }],
  mmproj: [['-mm', seeing.mmproj], { mmproj: seeing.mmproj }],
  imageMinTokens: [['--mmproj', seeing.mmproj, '--image-min-tokens', 5], { imageMinTokens: 5 }],
  imageMaxTokens: [['--mmproj', seeing.mmproj, '--image-max-tokens', 90], { imageMaxTokens: 90 }],
  build: [['--build', 'simd-threads'], { build: 'simd-threads' }],
  threadsBatch: [['-tb', 2], { threads: 2 }],
  warmup: [['--no-warmup'], { warmUp: false }],
  ropeScaling: [['--rope-scaling', 'yarn'], { overrideKv: { 'ARCH.rope.scaling.type': 'yarn' } }],
  ropeScale: [['--rope-scale', 4], { overrideKv: { 'ARCH.rope.scaling.factor': 4 } }],
  ropeFreqBase: [['--rope-freq-base', 5000], { overrideKv: { 'ARCH.rope.freq_base': 5000 } }],
  ropeFreqScale: [['--rope-freq-scale', 0.25], { overrideKv: { 'ARCH.rope.scaling.factor': 4 } }],
  yarnOrigCtx: [['--yarn-orig-ctx', 64], { overrideKv: { 'ARCH.rope.scaling.original_context_length': 64 } }],
  yarnExtFactor: [['--yarn-ext-factor', 0], { overrideKv: { 'ARCH.rope.scaling.yarn_ext_factor': 0 } }],
  yarnAttnFactor: [['--yarn-attn-factor', 1.5], { overrideKv: { 'ARCH.rope.scaling.yarn_attn_factor': 1.5 } }],
  yarnBetaFast: [['--yarn-beta-fast', 16], { overrideKv: { 'ARCH.rope.scaling.yarn_beta_fast': 16 } }],
  yarnBetaSlow: [['--yarn-beta-slow', 2, '--yarn-ext-factor', -1], { overrideKv: { 'ARCH.rope.scaling.yarn_beta_slow': 2 } }],
  overrideKv: [['--override-kv', 'a.b=int:3,c=str:x, y', '--override-kv', 'd=bool:true'], { overrideKv: { 'a.b': 3, c: 'x, y', d: true } }],
  turbo: [['--turbo', '--no-turbo', '--turbo'], { turbo: true }],
  lora: [['--lora', `${lora},${lora}`], { lora: [{ source: lora }, { source: lora }] }],
  loraScaled: [['--lora-scaled', `${lora}:-0.5`], { lora: [{ source: lora, scale: -0.5 }] }],
  parallel: [['-np', 2], { parallel: 2 }],
  alias: [['-a', 'other'], { name: 'other' }],
  specType: [['--spec-type', 'none,ngram-mod'], { speculation: { type: ['none', 'ngram-mod'] } }],
  draftModel: [['-md', llamaModel], { speculation: { draft: { model: llamaModel } } }],
  draftMax: [['-md', llamaModel, '--spec-draft-n-max', 5], { speculation: { draft: { nMax: 5 } } }],
  draftMin: [['-md', llamaModel, '--spec-draft-n-min', 2], { speculation: { draft: { nMin: 2 } } }],
  draftPMin: [['-md', llamaModel, '--spec-draft-p-min', 0.5], { speculation: { draft: { pMin: 0.5 } } }],
  draftThreads: [['-md', llamaModel, '-td', 1], { speculation: { draft: { threads: 1 } } }],
  draftCacheTypeK: [['-md', llamaModel, '-ctkd', 'q8_0'], { speculation: { draft: { cacheTypeK: 'q8_0' } } }],
  draftCacheTypeV: [['-md', llamaModel, '-ctvd', 'q4_0'], { speculation: { draft: { cacheTypeV: 'q4_0' } } }],
  ngramSimpleN: [['--spec-ngram-simple-size-n', 4], { speculation: { ngramSimple: { sizeN: 4 } } }],
  ngramSimpleM: [['--spec-ngram-simple-size-m', 8], { speculation: { ngramSimple: { sizeM: 8 } } }],
  ngramSimpleMinHits: [['--spec-ngram-simple-min-hits', 2], { speculation: { ngramSimple: { minHits: 2 } } }],
  ngramModMatch: [['--spec-ngram-mod-n-match', 8], { speculation: { ngramMod: { nMatch: 8 } } }],
  ngramModMin: [['--spec-ngram-mod-n-min', 4], { speculation: { ngramMod: { nMin: 4 } } }],
  ngramModMax: [['--spec-ngram-mod-n-max', 50], { speculation: { ngramMod: { nMax: 50 } } }],
};

/** The options of every model that the command loads. The file of the test must spy on loadModel. */
export async function loads(c: Command, args: Args, base = BASE[c.name]): Promise<object[]> {
  const { calls } = vi.mocked(loadModel).mock;
  const before = calls.length;
  await work(c, args, base);
  return calls.slice(before).map(([, options]) => ({ ...options }));
}

/** Tests what loadModel is given, for all flags of the command that set one of its options. */
export const loadOptions = (c: Command, effect: Effect): unknown =>
  describe('what loadModel is given', () => {
    for (const [key, [args, want]] of Object.entries(OPTIONS) as [FlagKey, readonly [Args, object]][]) {
      // embed cannot use the adapter, which changes the output matrix of a generating model.
      if (!c.flags.includes(key) || (c.name === 'embed' && args.some((arg) => String(arg).includes(lora)))) continue;
      effect([key], JSON.stringify(want).replaceAll(/"[^"]*\//g, '"'), async () => {
        const base =
          key === 'warmup'
            ? without(BASE[c.name], '--no-warmup', 1)
            : RARE[key]
              ? [...without(BASE[c.name], '-m'), '-m', await RARE[key]()]
              : BASE[c.name];
        const [[plain], [got]] = [await loads(c, [], base), await loads(c, args, base)];
        const model = key === 'overrideKv' ? '' : 'llama';
        const expected = JSON.parse(JSON.stringify(want).replaceAll('ARCH', model)) as object;
        expect(got).toMatchObject(expected);
        expect(plain).not.toMatchObject(expected);
      });
    }

    effect(['verbose'], 'whether turbo is on', async () => {
      const said = async (args: Args): Promise<string> =>
        c === serve ? served(args, (_, stderr) => Promise.resolve(stderr())) : (await invoke(c, [...BASE[c.name], ...args])).stderr;
      expect(await said(['--verbose'])).toMatch(/^quantlet: turbo is (on|off: .+)$/m);
      expect(await said([])).not.toContain('turbo is');
    });
  });
