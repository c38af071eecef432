/** Defaults of the sampler: llama.cpp's, and the values that a file sets instead. */
import { describe, expect, test } from 'vitest';
import { fileSampling } from '../../src/sample/file-defaults.ts';
import { resolveSamplerOptions, SAMPLER_DEFAULTS, type SamplerName } from '../../src/sample/options.ts';
import { createSampler } from '../../src/sample/sampler.ts';
import type { GGUFValue } from '../../src/gguf/types.ts';
import { failure } from '../support.ts';

const sampling = (keys: Record<string, GGUFValue>): ReturnType<typeof fileSampling> =>
  fileSampling({ metadata: new Map(Object.entries(keys).map(([name, value]) => [`general.sampling.${name}`, value])) });

test("each default is llama.cpp's (common_params_sampling of v0.5.0)", () => {
  expect(SAMPLER_DEFAULTS).toEqual({
    temperature: 0.8,
    topK: 40,
    topP: 0.95,
    minP: 0.05,
    repeatPenalty: 1,
    frequencyPenalty: 0,
    presencePenalty: 0,
    repeatLastN: 64,
    dryMultiplier: 0,
    dryBase: 1.75,
    dryAllowedLength: 2,
    dryPenaltyLastN: 64,
    drySequenceBreakers: ['\n', ':', '"', '*'],
    topNSigma: -1,
    typicalP: 1,
    xtcProbability: 0,
    xtcThreshold: 0.1,
    dynatempRange: 0,
    dynatempExponent: 1,
    mirostat: 0,
    mirostatTau: 5,
    mirostatEta: 0.1,
    minKeep: 0,
    logitBias: {},
    samplers: ['penalties', 'dry', 'top_n_sigma', 'top_k', 'typ_p', 'top_p', 'min_p', 'xtc', 'temperature'],
    seed: -1,
  });
});

test('DRY ignores tokens further back than 64', () => {
  const penalised = (between: number): boolean => {
    const sampler = createSampler({ temperature: 0, dryMultiplier: 9, drySequenceBreakers: [] }, 200);
    for (const id of [1, 2, 3, 4]) sampler.accept(id);
    for (let i = 0; i < between; i++) sampler.accept(100 + i);
    for (const id of [1, 2, 3]) sampler.accept(id);
    const logits = new Float32Array(200);
    [logits[4], logits[5]] = [2, 1];
    return sampler.sample(logits) === 5;
  };
  // "2 3" are the last 2 of 64 tokens. Later only "3" is in range, which is shorter than
  // dryAllowedLength.
  expect([40, 58, 59, 70].map(penalised)).toEqual([true, true, false, false]);
});

describe('general.sampling.*', () => {
  test('every key is the default of its option, whatever the type of its number', () => {
    const { defaults, warnings } = sampling({
      temp: 0.25,
      top_k: 7n,
      top_p: '0.5',
      min_p: 0.125,
      xtc_probability: 0.5,
      xtc_threshold: 0.25,
      penalty_last_n: 32,
      penalty_repeat: 1.5,
      mirostat: 2,
      mirostat_tau: 4,
      mirostat_eta: 0.5,
      sequence: 'TOP-K;temp;penalties;minp',
    });
    expect(defaults).toEqual({
      temperature: 0.25,
      topK: 7,
      topP: 0.5,
      minP: 0.125,
      xtcProbability: 0.5,
      xtcThreshold: 0.25,
      repeatLastN: 32,
      repeatPenalty: 1.5,
      mirostat: 2,
      mirostatTau: 4,
      mirostatEta: 0.5,
      samplers: ['top_k', 'temperature', 'penalties', 'min_p'],
    });
    expect(warnings).toEqual([]);
  });

  test("options take precedence, and llama.cpp's defaults fill the rest", () => {
    const { defaults } = sampling({ temp: 0.25, top_k: 7 });
    expect(resolveSamplerOptions({ topK: 3, topP: undefined }, defaults)).toEqual({ ...SAMPLER_DEFAULTS, temperature: 0.25, topK: 3 });
  });

  test('values that llama.cpp ignores are ignored: booleans, lists, texts without a number', () => {
    expect(sampling({ temp: true, top_k: [1], top_p: 'high', sequence: 5 }).defaults).toEqual({});
  });

  test('numbers out of bounds mean the same as in llama.cpp', () => {
    expect(sampling({ top_k: -5, top_p: 2, min_p: -1, penalty_last_n: -1, xtc_probability: 3, temp: -1 }).defaults).toEqual({
      topK: -1,
      topP: 1,
      minP: 0,
      repeatLastN: 0,
      xtcProbability: 1,
      temperature: -1,
    });
  });

  test('unknown samplers are left out, with a warning', () => {
    expect(sampling({ sequence: 'top_k;nonsense;adaptive_p;temperature' })).toEqual({
      defaults: { samplers: ['top_k', 'temperature'] },
      warnings: ['general.sampling.sequence has "nonsense", which is not a sampler; left out'],
    });
  });

  test.each<[Record<string, GGUFValue>, RegExp]>([
    [{ mirostat: 3 }, /"general.sampling.mirostat" is 3; expected a whole number from 0 to 2.*overrideKv/],
    [{ penalty_repeat: 0 }, /"general.sampling.penalty_repeat" is 0; expected a number from/],
    [{ temp: NaN }, /"general.sampling.temp" is NaN/],
    [{ sequence: 'top_k;infill' }, /"general.sampling.sequence" has the sampler "infill"/],
  ])('%j is refused', async (keys, says) => {
    const { code, message } = await failure(async () => sampling(keys));
    expect([code, message]).toEqual(['ERR_GGUF_INVALID', expect.stringMatching(says)]);
  });
});

describe('samplers in any order', () => {
  const logits = Float32Array.from([3, 2.9, 1, 0]);
  const repeated = (samplers: SamplerName[], temperature: number): number => {
    const sampler = createSampler({ samplers, temperature, topK: 1, repeatPenalty: 2, seed: 1 }, 4);
    sampler.accept(0);
    return sampler.sample(logits);
  };
  test('a penalty after a cut only applies to the candidates left', () => {
    expect(repeated(['penalties', 'top_k', 'temperature'], 1)).toBe(1);
    expect(repeated(['top_k', 'penalties', 'temperature'], 1)).toBe(0);
    expect(repeated(['top_k', 'penalties', 'temperature'], 0)).toBe(0);
    expect(repeated(['temperature', 'penalties'], 0)).toBe(0);
    expect(repeated(['penalties', 'temperature'], 0)).toBe(1);
  });
  test('penalties after a cut change the candidates left', () => {
    const sampler = createSampler({ samplers: ['top_k', 'penalties', 'temperature'], temperature: 0, topK: 2, repeatPenalty: 2 }, 4);
    sampler.accept(0);
    expect(sampler.sample(logits)).toBe(1);
    const dry = createSampler(
      { samplers: ['top_k', 'dry', 'temperature'], temperature: 0, topK: 2, dryMultiplier: 9, drySequenceBreakers: [] },
      4,
    );
    for (const id of [2, 3, 0, 2, 3]) dry.accept(id);
    expect(dry.sample(logits)).toBe(1);
  });
});

test.each([
  ['greedy', { temperature: 0 }],
  ['drawn', { temperature: 1, topK: 0, topP: 1, minP: 0 }],
  ['mirostat 1', { mirostat: 1 }],
  ['mirostat 2', { mirostat: 2 }],
  ['without samplers', { samplers: [] }],
  ['with a bias towards it', { temperature: 0, logitBias: { 1: 100 } }],
])('suppressed tokens are never sampled: %s', (_, options) => {
  const sampler = createSampler({ ...options, seed: 3 }, 4, { suppressed: [1, 3] });
  const seen = new Set<number>();
  for (let i = 0; i < 300; i++) {
    const id = sampler.sample(Float32Array.from([1, 9, 0.5, 9]));
    seen.add(id);
    sampler.accept(id);
  }
  expect([...seen].filter((id) => id === 1 || id === 3)).toEqual([]);
});
