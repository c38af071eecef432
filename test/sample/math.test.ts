import { describe, expect, test } from 'vitest';
import { exp, log, pow } from '../../src/sample/math.ts';
import { createRandom } from '../../src/sample/random.ts';

/**
 * Two roundings of ours, one of Math.exp or Math.log (each half a unit of 2^-52), and the last bit
 * of the argument reduction.
 */
const TWO_ULP = 2 ** -51;
const seed = 20240701;

describe('exp and log', () => {
  test('agree with Math over their range', () => {
    const random = createRandom(seed);
    for (let i = 0; i < 20000; i++) {
      const x = (random.next() - 0.5) * 1400;
      const e = exp(x);
      expect(Math.abs(e / Math.exp(x) - 1), `seed ${seed}, exp(${x}) = ${e}`).toBeLessThan(TWO_ULP);
      const y = Math.exp((random.next() - 0.5) * 2 ** (i % 11));
      expect(Math.abs(log(y) - Math.log(y)), `seed ${seed}, log(${y}) = ${log(y)}`).toBeLessThanOrEqual(
        TWO_ULP * Math.max(Math.abs(Math.log(y)), 0.25),
      );
    }
  });

  test('ends of the range', () => {
    expect([exp(0), exp(-Infinity), exp(Infinity), exp(-746), exp(710), exp(NaN)]).toEqual([1, 0, Infinity, 0, Infinity, NaN]);
    expect(exp(-745)).toBe(Number.MIN_VALUE);
    expect([log(1), log(0), log(Infinity), log(-1), log(NaN)]).toEqual([0, -Infinity, Infinity, NaN, NaN]);
    expect(log(Number.MIN_VALUE)).toBeCloseTo(Math.log(Number.MIN_VALUE), 10);
    expect([pow(3, 0), pow(0, 2), pow(1, 1e9)]).toEqual([1, 0, 1]);
    expect(pow(1.75, 3)).toBeCloseTo(5.359375, 12);
  });

  test('bits are fixed: the same on every engine', () => {
    // Computed by IEEE arithmetic alone. A change here changes the text of every seed.
    const sum = (f: (x: number) => number): number => Array.from({ length: 1000 }, (_, i) => f((i + 1) / 7)).reduce((a, b) => a + b, 0);
    expect(sum((x) => exp(-x))).toBe(EXP_SUM);
    expect(sum(log)).toBe(LOG_SUM);
  });
});

const EXP_SUM = 6.511900714632574;
const LOG_SUM = 3966.2180294328505;

describe('createRandom', () => {
  test('xoshiro128**: first draws of three seeds', () => {
    expect([0, 1, 4294967295].map((s) => createRandom(s).next())).toEqual(FIRST_DRAWS);
  });

  test('matches the algorithm written in BigInt', () => {
    const mask = 0xffffffffn;
    const rotl = (x: bigint, k: bigint): bigint => ((x << k) | (x >> (32n - k))) & mask;
    let state = 42n;
    const s = Array.from({ length: 4 }, () => {
      state = (state + 0x9e3779b9n) & mask;
      let z = state;
      z = ((z ^ (z >> 16n)) * 0x85ebca6bn) & mask;
      z = ((z ^ (z >> 13n)) * 0xc2b2ae35n) & mask;
      return z ^ (z >> 16n);
    });
    const next32 = (): bigint => {
      const result = (rotl((s[1] * 5n) & mask, 7n) * 9n) & mask;
      const t = (s[1] << 9n) & mask;
      s[2] ^= s[0];
      s[3] ^= s[1];
      s[1] ^= s[2];
      s[0] ^= s[3];
      s[2] ^= t;
      s[3] = rotl(s[3], 11n);
      return result;
    };
    const random = createRandom(42);
    for (let i = 0; i < 200; i++) {
      const want = Number(((next32() >> 5n) << 26n) + (next32() >> 6n)) / 2 ** 53;
      expect(random.next(), `draw ${i}`).toBe(want);
    }
  });

  test('flat, repeatable, and random without a seed', () => {
    const random = createRandom(7);
    const bins = new Int32Array(16);
    const first = Array.from({ length: 16000 }, () => random.next());
    for (const v of first) bins[Math.floor(v * 16)]++;
    const chi2 = bins.reduce((sum, n) => sum + (n - 1000) ** 2 / 1000, 0);
    expect(chi2, 'chi-squared with 15 degrees of freedom, 0.999 quantile 37.7').toBeLessThan(37.7);
    random.reset();
    expect(Array.from({ length: 100 }, () => random.next())).toEqual(first.slice(0, 100));
    expect(createRandom(-1).seed).not.toBe(createRandom().seed);
    for (const bad of [0.5, NaN, -2, 2 ** 32])
      expect(() => createRandom(bad)).toThrow(expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT' }));
  });
});

const FIRST_DRAWS = [0.8868539502021594, 0.5686059948349658, 0.19461841469507213];
