/** Tests of the flags that set options of the sampler. */
import { afterAll, beforeAll, describe, expect } from 'vitest';
import type { Command } from '../../../src/cli/command.ts';
import type { FlagKey } from '../../../src/cli/flags.ts';
import { serve } from '../../../src/cli/serve.ts';
import { loadModel, type GenerateOptions, type Model } from '../../../src/entry/node.ts';
import { llamaModel } from '../../support.ts';
import type { Args } from '../commands.ts';
import { template, served, report, type Effect } from './support.ts';

const prompt = 'the cat the cat the cat the';
const SEED = 7;
const base = { temperature: 1, topK: 0, topP: 1, minP: 0, seed: SEED, maxTokens: 24 } as const;
const flags: Args = ['-p', prompt, '-n', 24, '--temp', 1, '--top-k', 0, '--top-p', 1, '--min-p', 0, '-s', SEED];
/** A bias that repeats one letter, for DRY to break: id 260 is "e". */
const again = (dryMultiplier: number) =>
  [['-l', '260+1000', '--dry-multiplier', dryMultiplier], { logitBias: { 260: 1000 }, dryMultiplier }] as const;
/**
 * A flag's arguments, the option that it sets, and other flags or options that it needs to have
 * an effect.
 */
const OPTIONS: Partial<Record<FlagKey, readonly [args: Args, option: GenerateOptions, withArgs?: Args, withOptions?: GenerateOptions]>> = {
  temp: [['--temp', 0.2], { temperature: 0.2 }],
  topK: [['--top-k', 3], { topK: 3 }],
  topP: [['--top-p', 0.2], { topP: 0.2 }],
  minP: [['--min-p', 0.6], { minP: 0.6 }],
  typical: [['--typical', 0.2], { typicalP: 0.2 }],
  topNSigma: [['--top-n-sigma', 1], { topNSigma: 1 }],
  xtcProbability: [['--xtc-probability', 1], { xtcProbability: 1 }, ['--xtc-threshold', 0.01], { xtcThreshold: 0.01 }],
  xtcThreshold: [['--xtc-threshold', 0.01], { xtcThreshold: 0.01 }, ['--xtc-probability', 1], { xtcProbability: 1 }],
  repeatPenalty: [['--repeat-penalty', 4], { repeatPenalty: 4 }],
  repeatLastN: [['--repeat-last-n', 2], { repeatLastN: 2 }, ['--repeat-penalty', 4], { repeatPenalty: 4 }],
  presencePenalty: [['--presence-penalty', 6], { presencePenalty: 6 }],
  frequencyPenalty: [['--frequency-penalty', 6], { frequencyPenalty: 6 }],
  dryMultiplier: [['--dry-multiplier', 2000], { dryMultiplier: 2000 }, ...again(0)],
  dryBase: [['--dry-base', 8], { dryBase: 8 }, ...again(100)],
  dryAllowedLength: [['--dry-allowed-length', 8], { dryAllowedLength: 8 }, ...again(2000)],
  dryPenaltyLastN: [['--dry-penalty-last-n', 2], { dryPenaltyLastN: 2 }, ...again(2000)],
  drySequenceBreaker: [
    ['--dry-sequence-breaker', 'e', '--dry-sequence-breaker', '\\n'],
    { drySequenceBreakers: ['e', '\n'] },
    ...again(2000),
  ],
  logitBias: [['-l', '9+30', '-l', '10-inf'], { logitBias: { 9: 30, 10: -Infinity } }],
  mirostat: [['--mirostat', 2], { mirostat: 2 }],
  mirostatLr: [['--mirostat-lr', 0.9], { mirostatEta: 0.9 }, ['--mirostat', 2], { mirostat: 2 }],
  mirostatEnt: [['--mirostat-ent', 1], { mirostatTau: 1 }, ['--mirostat', 2], { mirostat: 2 }],
  dynatempRange: [['--dynatemp-range', 0.9], { dynatempRange: 0.9 }],
  dynatempExp: [['--dynatemp-exp', 4], { dynatempExponent: 4 }, ['--dynatemp-range', 0.9], { dynatempRange: 0.9 }],
  seed: [['-s', 8], { seed: 8 }],
};

/** Tests that flags of the sampler give the ids that its options give, in run, chat or serve. */
export const samplerFlags = (c: Command, effect: Effect): unknown =>
  describe('sampling', () => {
    let model: Model;
    beforeAll(async () => {
      model = await loadModel(llamaModel, { build: 'simd', warmUp: false, chatTemplate: template('') });
      expect(model.detokenize([260]).trim()).toBe('e');
    });
    afterAll(() => model.dispose());
    const idsOf = async (options: GenerateOptions): Promise<readonly number[]> =>
      (c.name !== 'chat'
        ? await model.generate(prompt, options).result()
        : await model.chat([{ role: 'user', content: prompt }], options).result()
      ).ids;

    const servedIds = (args: Args): Promise<readonly number[]> =>
      served(args, async (url) => {
        const headers = { 'content-type': 'application/json' };
        const answer = await fetch(`${url}/completion`, { method: 'POST', headers, body: JSON.stringify({ prompt, return_tokens: true }) });
        return ((await answer.json()) as { tokens: number[] }).tokens;
      });

    for (const [key, [args, option, withArgs = [], withOptions = {}]] of Object.entries(OPTIONS) as [
      FlagKey,
      readonly [Args, GenerateOptions, Args?, GenerateOptions?],
    ][]) {
      if (c === serve) {
        effect([key], `ids as with ${JSON.stringify(option)}, where a request does not say otherwise`, async () => {
          const want = await idsOf({ ...base, ...withOptions, ...option });
          expect(await servedIds([...flags.slice(2), ...withArgs, ...args])).toEqual(want);
        });
      } else {
        effect([key], `ids as with ${JSON.stringify(option)}`, async () => {
          const plain = await idsOf({ ...base, ...withOptions });
          const want = await idsOf({ ...base, ...withOptions, ...option });
          expect(want).not.toEqual(plain);
          expect((await report(c, ...flags, ...withArgs)).ids).toEqual(plain);
          expect((await report(c, ...flags, ...withArgs, ...args)).ids).toEqual(want);
        });
      }
    }
  });
