/**
 * The parts of drafting, without a model: n-grams, the decision if drafts pay, the cost of steps.
 */
import { describe, expect, it } from 'vitest';
import { createStepCosts, type StepCosts } from '../../src/run/step-costs.ts';
import type { Drafter } from '../../src/generate/draft/drafter.ts';
import { createLatch } from '../../src/generate/draft/latch.ts';
import { createNgramPool } from '../../src/generate/draft/ngram-mod.ts';
import { createNgramSimple } from '../../src/generate/draft/ngram-simple.ts';
import { randomIds } from '../support.ts';

/** Tokens that the drafter appends to `out`; earlier elements must stay. */
function drafted(drafter: Drafter, tokens: readonly number[], most = 1000): number[] {
  const out = [-7];
  void drafter.draft(tokens, most, out);
  expect(out.shift()).toBe(-7);
  return out;
}

describe('ngram-simple', () => {
  const simple = (sizeN: number, sizeM: number, minHits = 1): Drafter => createNgramSimple({ sizeN, sizeM, minHits });

  it('drafts what followed the last n tokens at their most recent earlier occurrence', () => {
    const tokens = [1, 2, 3, 4, 5, 1, 2, 3, 6, 7, 9, 1, 2, 3];
    expect(drafted(simple(3, 4), tokens)).toEqual([6, 7, 9, 1]);
    expect(drafted(simple(3, 2), tokens)).toEqual([6, 7]);
    expect(drafted(simple(3, 8), tokens, 1)).toEqual([6]);
    expect(drafted(simple(4, 8), tokens)).toEqual([]);
    expect(drafted(simple(3, 2, 2), tokens)).toEqual([6, 7]);
    expect(drafted(simple(3, 2, 3), tokens)).toEqual([]);
  });

  it('continues with its own tokens if the text repeats itself', () => {
    expect(drafted(simple(2, 7), [5, 1, 2, 3, 1, 2])).toEqual([3, 1, 2, 3, 1, 2, 3]);
    expect(drafted(simple(1, 3), [4, 4])).toEqual([4, 4, 4]);
  });

  it('finds nothing in a short text, and never the last n tokens themselves', () => {
    for (const tokens of [[], [1], [1, 2], [1, 2, 3]]) {
      for (const n of [1, 2, 3]) expect(drafted(simple(n, 4), tokens), `${n}-grams of ${String(tokens)}`).toEqual([]);
    }
  });

  it('agrees with a slow search', () => {
    for (let seed = 1; seed <= 200; seed++) {
      const tokens = randomIds(seed % 40, 3, seed);
      const [n, m, hits] = randomIds(3, 4, seed + 1000).map((x) => x + 1);
      const ends = tokens
        .map((_, i) => i)
        .filter((i) => i >= n - 1 && i < tokens.length - 1 && tokens.slice(i - n + 1, i + 1).join() === tokens.slice(-n).join());
      const all = [...tokens];
      const found = ends.length >= hits && tokens.length > n ? ends.at(-1)! : undefined;
      if (found !== undefined) for (let i = 1; i <= m; i++) all.push(all[found + i]);
      expect(drafted(simple(n, m, hits), tokens), `seed ${seed}`).toEqual(all.slice(tokens.length));
    }
  });
});

describe('ngram-mod', () => {
  it('follows the text token by token, also if it repeats itself', () => {
    const circle = randomIds(50, 10000, 1);
    const pool = createNgramPool(4);
    const drafter = pool.drafter({ nMin: 0, nMax: 120 });
    expect(drafted(drafter, [...circle, ...circle.slice(0, 4)])).toEqual([...circle.slice(4), ...circle, ...circle].slice(0, 120));
    expect(drafted(drafter, [...circle, ...circle])).toEqual([...circle, ...circle, ...circle].slice(0, 120));
    expect(drafted(drafter, [...circle, ...circle], 5), 'nothing new to learn').toEqual(circle.slice(0, 5));
  });

  it('sequences learn from each other, and the newest continuation wins', () => {
    const pool = createNgramPool(3);
    const options = { nMin: 0, nMax: 4 };
    drafted(pool.drafter(options), [1, 2, 3, 4, 5, 6, 7, 8]);
    expect(drafted(pool.drafter(options), [9, 1, 2, 3])).toEqual([4, 5, 6, 7]);
    drafted(pool.drafter(options), [1, 2, 3, 40, 50]);
    expect(drafted(pool.drafter(options), [9, 1, 2, 3])).toEqual([40, 50]);
    expect(drafted(createNgramPool(3).drafter(options), [9, 1, 2, 3]), 'another model').toEqual([]);
  });

  it('no draft if nMin tokens are not possible, whatever the requested length', () => {
    const pool = createNgramPool(2);
    const tokens = [1, 2, 3, 4, 5, 1, 2];
    expect(drafted(pool.drafter({ nMin: 5, nMax: 9 }), tokens, 2)).toEqual([3, 4]);
    expect(drafted(createNgramPool(2).drafter({ nMin: 6, nMax: 9 }), [1, 2, 3, 4, 1, 2]), 'it goes in a circle').toHaveLength(9);
    expect(drafted(createNgramPool(2).drafter({ nMin: 4, nMax: 9 }), [9, 1, 2, 3, 4, 5, 9, 1].slice(1)), 'nothing behind 9').toEqual([]);
    expect(drafted(createNgramPool(8).drafter({ nMin: 0, nMax: 9 }), tokens), 'shorter than an n-gram').toEqual([]);
  });

  it('is emptied before it grows too large', () => {
    const pool = createNgramPool(2);
    const options = { nMin: 0, nMax: 1 };
    const first = randomIds(1000, 100000, 1);
    drafted(pool.drafter(options), first);
    expect(drafted(pool.drafter(options), first.slice(0, 2))).toEqual([first[2]]);
    drafted(pool.drafter(options), randomIds(1_500_000, 100000, 2));
    expect(drafted(pool.drafter(options), first.slice(0, 2))).toEqual([]);
  });
});

describe('step costs', () => {
  it('grow less than the number of tokens by default, and follow measurements', () => {
    const costs = createStepCosts();
    expect(costs.of(8) / costs.of(1)).toBeCloseTo(5.28, 2);
    for (let i = 0; i < 20; i++) costs.learn(4, 10);
    expect(costs.of(4)).toBeCloseTo(10, 6);
    expect(costs.of(1), 'as its neighbour says').toBeCloseTo(10 / 4 ** 0.8, 6);
    for (let i = 0; i < 20; i++) costs.learn(1, 5);
    expect(costs.of(1)).toBeCloseTo(5, 6);
    for (let i = 0; i < 40; i++) costs.learn(4, 20);
    expect(costs.of(4)).toBeCloseTo(20, 1);
    expect(costs.of(5)).toBeGreaterThan(20);
  });

  it('a single slow step has little weight, and old ones are forgotten', () => {
    const costs = createStepCosts();
    for (let i = 0; i < 8; i++) costs.learn(1, 4);
    costs.learn(1, 4000);
    expect(costs.of(1)).toBeLessThan(6);
    costs.learn(48, 4000);
    expect(costs.of(48)).toBeCloseTo(4000, 6);
    for (let i = 0; i < 520; i++) costs.learn(1, 4);
    expect(costs.of(48)).toBeLessThan(4 * 48);
  });

  it('a clock that stands still teaches nothing', () => {
    const costs = createStepCosts();
    for (let i = 0; i < 10; i++) costs.learn(3, 0);
    expect(costs.of(16) / costs.of(1)).toBeCloseTo(16 ** 0.8, 6);
    costs.learn(100000, 7);
    expect(costs.of(100000)).toBeCloseTo(7, 6);
  });
});

describe('the latch', () => {
  /** A machine with step times `time(n)` for n tokens, and `draftMs` per drafted token. */
  function machine(time: (n: number) => number, draftMs = 0) {
    const costs: StepCosts = { learn: () => {}, of: time };
    const latch = createLatch(costs, () => 0);
    let ms = 0;
    let tokens = 0;
    const lengths: number[] = [];
    return {
      /**
       * Generates n tokens. `right(k)`: how many of k drafted tokens are right. `hint`: a draft
       * that is not used still shows if it would have been right.
       */
      generate(n: number, right: (k: number) => number, { hint = false, most = 48 } = {}) {
        for (const until = tokens + n; tokens < until;) {
          const k = latch.plan(most);
          lengths.push(k);
          ms += time(1 + k) + k * draftMs;
          const accepted = k > 0 ? right(k) : 0;
          if (k > 0) latch.verified(k, accepted, k * draftMs);
          else latch.plain(hint ? right(1) === 1 : undefined);
          tokens += 1 + accepted;
        }
      },
      /** Speed relative to plain decoding. */
      speed: () => (tokens * time(1)) / ms,
      lengths,
    };
  }
  /**
   * A typical measured machine: a step of 8 tokens costs 5.2 times as much as one of 1, one of 48
   * 21 times.
   */
  const measured = (n: number): number => n ** 0.79;
  const memoryBound = (n: number): number => 1 + 0.02 * n;
  const noGain = (n: number): number => n;
  const wrong = (): number => 0;
  const all = (k: number): number => k;

  it.each([
    ['as measured', measured],
    ['bound by memory', memoryBound],
    ['where several tokens gain nothing', noGain],
  ])('a text that no draft gets right loses a hundredth and a few tokens, %s', (_, time) => {
    for (const hint of [false, true]) {
      const m = machine(time);
      m.generate(2000, wrong, { hint });
      expect(m.lengths.filter((k) => k > 0).length).toBeGreaterThan(0);
      expect(m.speed(), `hint ${hint}`).toBeGreaterThan(1 / (1.01 + 5 / 2000));
    }
  });

  it('a draft model as slow as the model is no longer used', () => {
    const m = machine(measured, 1);
    m.generate(2000, all);
    expect(m.speed()).toBeGreaterThan(0.98);
  });

  it('copied text is soon verified in long steps', () => {
    for (const hint of [false, true]) {
      const m = machine(measured);
      m.generate(512, all, { hint });
      expect(
        m.lengths.slice(0, 12).some((k) => k >= 40),
        String(m.lengths.slice(0, 12)),
      ).toBe(true);
      expect(m.speed()).toBeGreaterThan(1.8);
    }
  });

  it('now and then a step without a draft measures the plain cost', () => {
    const m = machine(measured);
    m.generate(20000, all);
    expect(m.lengths.slice(20).filter((k) => k === 0).length).toBeGreaterThan(2);
  });

  it('drafts of which only a few tokens are right become short', () => {
    const m = machine(memoryBound);
    m.generate(1000, (k) => Math.min(k, 3));
    const late = m.lengths.slice(50);
    expect(late.reduce((a, b) => a + b) / late.length).toBeLessThan(24);
    expect(m.speed()).toBeGreaterThan(2.5);
  });

  it('drafting resumes when it pays again: at once with hints, else after a pause', () => {
    for (const hint of [true, false]) {
      const m = machine(measured);
      m.generate(600, wrong, { hint });
      const before = m.lengths.length;
      m.generate(1500, all, { hint });
      const first = m.lengths.slice(before).findIndex((k) => k >= 16);
      expect(first, `hint ${hint}`).toBeGreaterThan(0);
      expect(first, `hint ${hint}`).toBeLessThan(hint ? 60 : 700);
    }
  });

  it('time gained by copying is not wasted on text that is not copied', () => {
    const m = machine(measured);
    m.generate(3000, all);
    const before = m.lengths.length;
    m.generate(1000, wrong);
    const wasted = m.lengths.slice(before).reduce((sum, k) => sum + measured(1 + k) - 1, 0);
    expect(wasted).toBeLessThan(80);
  });

  it('a first draft is always tried, never longer than what is available', () => {
    for (const time of [measured, noGain]) {
      const latch = createLatch({ learn: () => {}, of: time }, () => 0);
      expect(latch.plan(0)).toBe(0);
      expect(latch.plan(2)).toBe(2);
      expect(latch.plan(1)).toBe(1);
    }
  });

  it('with other sequences, a draft must be worth the time that all of them wait', () => {
    // Up to 8 tokens cost as much as one. Alone, a draft is free; in a step with many other tokens
    // it is not.
    const time = (n: number): number => Math.max(8, n);
    const [alone, beside] = [0, 30].map((others) => createLatch({ learn: () => {}, of: time }, () => others));
    for (const latch of [alone, beside]) {
      expect(latch.plan(48)).toBe(3);
      for (let i = 0; i < 4; i++) latch.verified(3, 3, 0);
    }
    expect(alone.plan(48)).toBeGreaterThanOrEqual(7);
    expect(beside.plan(48)).toBe(0);
  });
});
