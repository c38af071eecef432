/**
 * Cases for native llama.cpp's samplers (native.json): options in our spelling, over rows of random
 * logits.
 */
import type { SamplerOptions } from '../../src/sample/options.ts';
import { random } from '../kernel/harness.ts';

export const N_VOCAB = 48;
const SEED = 14;

/** A flat, an ordinary and a steep row. */
export const LOGITS: readonly Float32Array[] = [2, 6, 14].map((scale, i) => {
  const r = random(SEED + i);
  return Float32Array.from({ length: N_VOCAB }, () => (r() - 0.5) * scale);
});

/** Tokens accepted before: some repeated, some too far back for repeatLastN. */
export const HISTORY = [40, 41, 1, 2, 3, 2, 2, 7, 30, 31, 1, 2, 3, 9];

export type Options = Readonly<
  Pick<
    SamplerOptions,
    | 'repeatPenalty'
    | 'frequencyPenalty'
    | 'presencePenalty'
    | 'repeatLastN'
    | 'topNSigma'
    | 'topK'
    | 'typicalP'
    | 'topP'
    | 'minP'
    | 'xtcProbability'
    | 'xtcThreshold'
    | 'minKeep'
    | 'temperature'
    | 'dynatempRange'
    | 'dynatempExponent'
    | 'mirostat'
    | 'mirostatTau'
  >
>;

/** Options that turn every sampler off; a case overrides some. */
export const OFF: Required<Options> = {
  repeatPenalty: 1,
  frequencyPenalty: 0,
  presencePenalty: 0,
  repeatLastN: 12,
  topNSigma: -1,
  topK: 0,
  typicalP: 1,
  topP: 1,
  minP: 0,
  xtcProbability: 0,
  xtcThreshold: 0.1,
  minKeep: 0,
  temperature: 1,
  dynatempRange: 0,
  dynatempExponent: 1,
  mirostat: 0,
  mirostatTau: 5,
};

export const CASES: readonly Options[] = [
  { repeatPenalty: 1.3, frequencyPenalty: 0.4, presencePenalty: 0.2 },
  { topNSigma: 1 },
  { topK: 9 },
  { typicalP: 0.6 },
  { typicalP: 0.1, minKeep: 4 },
  { topP: 0.7 },
  { minP: 0.15 },
  { xtcProbability: 1, xtcThreshold: 0.04 },
  { xtcProbability: 1, xtcThreshold: 0.02, minKeep: 3 },
  { temperature: 0.6 },
  { temperature: 0.8, dynatempRange: 0.5, dynatempExponent: 1.4 },
  { mirostat: 2, mirostatTau: 3 },
  { mirostat: 2, mirostatTau: 1.5, temperature: 0.7 },
  // Pairs that reveal the order: each would keep other tokens in the other order.
  { topK: 12, typicalP: 0.7 },
  { typicalP: 0.7, topP: 0.6 },
  { topP: 0.8, minP: 0.3 },
  { minP: 0.1, xtcProbability: 1, xtcThreshold: 0.05 },
  { topP: 0.7, temperature: 3 },
  { repeatPenalty: 2, topK: 5 },
  // topK follows topNSigma because native's typical sampling gives NaN for the entropy if it sees
  // excluded tokens.
  {
    repeatPenalty: 1.2,
    presencePenalty: 0.3,
    topNSigma: 2,
    topK: 12,
    typicalP: 0.95,
    topP: 0.9,
    minP: 0.02,
    xtcProbability: 1,
    xtcThreshold: 0.2,
    temperature: 0.9,
  },
];
