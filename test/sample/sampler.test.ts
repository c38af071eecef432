import { describe, expect, test } from 'vitest';
import { createHistory } from '../../src/sample/history.ts';
import { createRandom } from '../../src/sample/random.ts';
import { createSampler, SAMPLER_DEFAULTS } from '../../src/sample/sampler.ts';
import type { SamplerOptions } from '../../src/sample/sampler.ts';

const off: SamplerOptions = { temperature: 1, topK: 0, topP: 1, minP: 0, seed: 1 };
const logitsOf = (...p: number[]): Float32Array => Float32Array.from(p, Math.log);

/** Fraction of n draws that gives each id. */
function shares(options: SamplerOptions, logits: Float32Array, n: number, accepted: number[] = []): number[] {
  const sampler = createSampler({ ...off, ...options }, logits.length);
  for (const id of accepted) sampler.accept(id);
  const counts = new Array<number>(logits.length).fill(0);
  for (let i = 0; i < n; i++) counts[sampler.sample(logits)]++;
  return counts.map((count) => count / n);
}

/** Five standard deviations of a fraction p in n draws. */
const spread = (p: number, n: number): number => 5 * Math.sqrt((p * (1 - p)) / n) + 1e-12;

function expectShares(got: number[], want: number[], n: number): void {
  want.forEach((p, id) => expect(Math.abs(got[id] - p), `id ${id}: got ${got[id]}, want ${p}`).toBeLessThanOrEqual(spread(p, n)));
}

describe('createSampler', () => {
  test('greedy: the largest, the lowest id of equals, no randomness', () => {
    for (const temperature of [0, -1]) {
      const sampler = createSampler({ temperature }, 5);
      for (let i = 0; i < 5; i++) expect(sampler.sample(new Float32Array([1, 3, 2, 3, 0]))).toBe(1);
      expect(sampler.sample(new Float32Array([-2, -Infinity, -1, -1, -3]))).toBe(2);
    }
  });

  test('draws follow the distribution', () => {
    const n = 20000;
    expectShares(shares({}, logitsOf(0.5, 0.3, 0.15, 0.05), n), [0.5, 0.3, 0.15, 0.05], n);
    const sharp = [0.5, 0.3, 0.15, 0.05].map((p) => p ** 2);
    const sum = sharp.reduce((a, b) => a + b);
    expectShares(
      shares({ temperature: 0.5 }, logitsOf(0.5, 0.3, 0.15, 0.05), n),
      sharp.map((p) => p / sum),
      n,
    );
  });

  test('top_k, top_p, min_p by hand', () => {
    const n = 4000;
    const logits = logitsOf(0.1, 0.4, 0.2, 0.3);
    expectShares(shares({ topK: 2 }, logits, n), [0, 4 / 7, 0, 3 / 7], n);
    expectShares(shares({ topP: 0.65 }, logits, n), [0, 4 / 7, 0, 3 / 7], n);
    expectShares(shares({ topP: 0.75 }, logits, n), [0, 4 / 9, 2 / 9, 3 / 9], n);
    expectShares(shares({ topP: 0 }, logits, n), [0, 1, 0, 0], n);
    expectShares(shares({ minP: 0.49 }, logits, n), [0, 4 / 9, 2 / 9, 3 / 9], n);
    expectShares(shares({ minP: 0.51 }, logits, n), [0, 4 / 7, 0, 3 / 7], n);
    expectShares(shares({ minP: 1 }, logits, n), [0, 1, 0, 0], n);
    // min_p after top_k works on sorted candidates
    expectShares(shares({ topK: 3, minP: 0.51 }, logits, n), [0, 4 / 7, 0, 3 / 7], n);
  });

  test('same seed, same choices; reset starts again; seeds differ', () => {
    const random = createRandom(5);
    const steps = Array.from({ length: 64 }, () => Float32Array.from({ length: 300 }, () => random.next() * 4));
    const run = (options: SamplerOptions): number[] => {
      const sampler = createSampler(options, 300);
      return steps.map((logits) => {
        const id = sampler.sample(logits);
        sampler.accept(id);
        return id;
      });
    };
    const first = run({ seed: 9, repeatPenalty: 1.3 });
    expect(run({ seed: 9, repeatPenalty: 1.3 })).toEqual(first);
    expect(run({ seed: 10, repeatPenalty: 1.3 })).not.toEqual(first);
    const sampler = createSampler({ seed: 9, repeatPenalty: 1.3 }, 300);
    for (let round = 0; round < 2; round++) {
      expect(
        steps.map((logits) => {
          const id = sampler.sample(logits);
          sampler.accept(id);
          return id;
        }),
      ).toEqual(first);
      sampler.reset();
    }
    const unseeded = createSampler({}, 300);
    expect(run({ seed: unseeded.seed })).toHaveLength(64);
    expect(createSampler({ seed: -1 }, 300).seed).not.toBe(unseeded.seed);
  });

  test('a tiny temperature is greedy, not NaN; a huge one is flat', () => {
    expectShares(shares({ temperature: 1e-40 }, logitsOf(0.2, 0.5, 0.3), 50), [0, 1, 0], 50);
    expectShares(shares({ temperature: 1e6 }, logitsOf(0.2, 0.5, 0.3), 6000), [1 / 3, 1 / 3, 1 / 3], 6000);
  });

  test('repeat, frequency and presence penalties by hand', () => {
    const pick = (options: SamplerOptions, logits: number[], accepted: number[]): number => {
      const sampler = createSampler({ temperature: 0, ...options }, logits.length);
      for (const id of accepted) sampler.accept(id);
      return sampler.sample(new Float32Array(logits));
    };
    // 4 / 2.1 < 2; -1 * 1.2 > -1.3 but < -1.1
    expect(pick({ repeatPenalty: 2.1 }, [4, 2, 0], [0])).toBe(1);
    expect(pick({ repeatPenalty: 1.9 }, [4, 2, 0], [0])).toBe(0);
    expect(pick({ repeatPenalty: 1.2 }, [-1, -1.3], [0])).toBe(0);
    expect(pick({ repeatPenalty: 1.2 }, [-1, -1.1], [0])).toBe(1);
    // frequency depends on counts, presence does not
    expect(pick({ frequencyPenalty: 0.5 }, [3, 2, 0], [0, 0])).toBe(0);
    expect(pick({ frequencyPenalty: 0.5 }, [3, 2, 0], [0, 0, 0])).toBe(1);
    expect(pick({ presencePenalty: 0.9 }, [3, 2, 0], [0, 0, 0])).toBe(0);
    expect(pick({ presencePenalty: 1.1 }, [3, 2, 0], [0])).toBe(1);
    // only the last n tokens
    expect(pick({ repeatPenalty: 9, repeatLastN: 2 }, [4, 2, 1], [0, 2, 2])).toBe(0);
    expect(pick({ repeatPenalty: 9, repeatLastN: 3 }, [4, 2, 1], [0, 2, 2])).toBe(1);
    expect(pick({ repeatPenalty: 9, repeatLastN: 0 }, [4, 2, 1], [0])).toBe(0);
    expect(pick({ repeatPenalty: 9, repeatLastN: -1 }, [4, 2, 1], [0, ...new Array<number>(1000).fill(2)])).toBe(1);
  });

  test('history agrees with an array', () => {
    for (const n of [1, 3, 64, 300, 512, -1]) {
      const random = createRandom(n + 1);
      const history = createHistory(n, 20);
      const all: number[] = [];
      for (let step = 0; step < 700; step++) {
        const id = Math.floor(random.next() * 20);
        history.push(id);
        all.push(id);
        if (step % 50 !== 49) continue;
        const last = n === -1 ? all : all.slice(-n);
        expect(history.length).toBe(last.length);
        expect(last.map((_, i) => history.back(last.length - 1 - i))).toEqual(last);
        for (let id = 0; id < 20; id++) expect(history.count(id), `n ${n}, id ${id}`).toBe(last.filter((v) => v === id).length);
        const visited = last
          .map((_, i) => i)
          .filter((i) => history.isNewest(i))
          .map((i) => history.back(i));
        expect(visited.sort((a, b) => a - b)).toEqual([...new Set(last)].sort((a, b) => a - b));
      }
    }
  });

  test('bad logits and options are coded errors', () => {
    const sampler = createSampler({}, 3);
    expect(() => sampler.sample(new Float32Array([1, NaN, 2]))).toThrow(expect.objectContaining({ code: 'ERR_LOGITS' }));
    expect(() => sampler.sample(new Float32Array(3).fill(-Infinity))).toThrow(expect.objectContaining({ code: 'ERR_LOGITS' }));
    expect(sampler.sample(new Float32Array([0, 9, 0]))).toBe(1);
    const bad: Record<string, unknown>[] = [
      { temperature: NaN },
      { temperature: '0.8' },
      { topK: -2 },
      { topK: 1.5 },
      { topK: NaN },
      { topP: -0.1 },
      { topP: 1.1 },
      { topP: NaN },
      { minP: -1 },
      { minP: 2 },
      { repeatPenalty: 0 },
      { repeatPenalty: -1 },
      { repeatPenalty: NaN },
      { repeatLastN: -2 },
      { repeatLastN: 0.5 },
      { frequencyPenalty: NaN },
      { presencePenalty: Infinity },
      { seed: 0.1 },
      { seed: -2 },
      { seed: 2 ** 32 },
    ];
    for (const options of bad) {
      const name = Object.keys(options)[0];
      expect(() => createSampler(options, 3), JSON.stringify(options)).toThrow(
        expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT', message: expect.stringContaining(name) }),
      );
    }
    expect(createSampler({ temperature: undefined }, 3).sample(new Float32Array([0, 99, 0]))).toBe(1);
    expect(SAMPLER_DEFAULTS).toMatchObject({ temperature: 0.8, topK: 40, topP: 0.95, minP: 0.05, repeatPenalty: 1, repeatLastN: 64 });
  });

  test('every option reaches the chain', () => {
    const n = 3000;
    const logits = logitsOf(0.4, 0.3, 0.2, 0.1);
    expectShares(shares({ typicalP: 0.31 }, logits, n), [0, 3 / 5, 2 / 5, 0], n);
    expectShares(shares({ topNSigma: 0.9 }, logits, n), [4 / 7, 3 / 7, 0, 0], n);
    expectShares(shares({ xtcProbability: 1, xtcThreshold: 0.15 }, logits, n), [0, 0, 2 / 3, 1 / 3], n);
    expectShares(shares({ xtcProbability: 1, xtcThreshold: 0.15, temperature: 0 }, logits, n), [0, 0, 1, 0], n);
    expectShares(shares({ xtcProbability: 1, xtcThreshold: 0.51 }, logits, n), [0.4, 0.3, 0.2, 0.1], n);
    expectShares(shares({ dynatempRange: 1 }, logitsOf(1, 1, 1, 1), n), [0.25, 0.25, 0.25, 0.25], n);
    expectShares(shares({ logitBias: { 0: -Infinity, 3: Math.log(5) } }, logits, n), [0, 0.3, 0.2, 0.5], n);
    expectShares(shares({ logitBias: new Map([[1, 100]]) }, logits, n), [0, 1, 0, 0], n);
    expectShares(shares({ dryMultiplier: 50, drySequenceBreakers: [] }, logits, n, [0, 1, 2, 0, 1]), [0.5, 0.375, 0, 0.125], n);
    expectShares(shares({ mirostat: 2, mirostatTau: 100 }, logits, n), [0.4, 0.3, 0.2, 0.1], n);
    expectShares(shares({ mirostat: 1, mirostatTau: 100 }, logits, n), [0.4, 0.3, 0.2, 0.1], n);
    expectShares(shares({ mirostat: 2, temperature: 0 }, logits, 20), [1, 0, 0, 0], 20);
    // top_p alone would leave one; top_k and penalties come before it
    expectShares(shares({ topP: 0.01, minKeep: 2 }, logits, n), [4 / 7, 3 / 7, 0, 0], n);
    expectShares(shares({ topK: 1, presencePenalty: 9 }, logits, n, [0]), [0, 1, 0, 0], n);
    const banAll = createSampler({ logitBias: { 0: -Infinity, 1: -Infinity } }, 2);
    expect(() => banAll.sample(new Float32Array(2))).toThrow(expect.objectContaining({ code: 'ERR_LOGITS' }));
    const bad: SamplerOptions[] = [
      { logitBias: { 4: 1 } },
      { logitBias: { [-1]: 1 } },
      { logitBias: { 0: NaN } },
      { logitBias: { 0: Infinity } },
      { drySequenceBreakers: [''] },
      { dryMultiplier: 1 },
      { mirostat: 3 },
      { xtcProbability: 1.5 },
      { typicalP: -1 },
      { dryBase: 0.5 },
      { minKeep: 0.5 },
    ];
    for (const options of bad)
      expect(() => createSampler(options, 4), JSON.stringify(options)).toThrow(expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT' }));
  });

  test('a constraint: the sampled token is tried first, and a mask only follows a refusal', () => {
    const calls = { allows: 0, mask: 0, accepted: [] as number[], resets: 0 };
    const odd = {
      allows: (id: number) => {
        calls.allows++;
        return id % 2 === 1;
      },
      mask: (logits: Float32Array) => {
        calls.mask++;
        for (let id = 0; id < logits.length; id += 2) logits[id] = -Infinity;
      },
      accept: (id: number) => {
        calls.accepted.push(id);
      },
      reset: () => {
        calls.resets++;
      },
    };
    const n = 6000;
    const sampler = createSampler(off, 4, { grammar: odd });
    const counts = [0, 0, 0, 0];
    for (let i = 0; i < n; i++) counts[sampler.sample(logitsOf(0.4, 0.3, 0.2, 0.1))]++;
    expectShares(
      counts.map((c) => c / n),
      [0, 0.75, 0, 0.25],
      n,
    );
    expect(calls.allows).toBe(n);
    expect(Math.abs(calls.mask / n - 0.6)).toBeLessThan(spread(0.6, n));
    sampler.accept(1);
    sampler.accept(2, false);
    sampler.reset();
    expect(calls).toMatchObject({ accepted: [1], resets: 1 });
    // cuts that would remove all of the grammar's tokens are made after the mask
    const greedy = createSampler({ temperature: 0 }, 4, { grammar: odd });
    expect(greedy.sample(logitsOf(0.6, 0.1, 0.2, 0.1))).toBe(1);
  });
});
