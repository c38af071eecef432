import { describe, expect, test } from 'vitest';
import { createCandidates, loadCandidates, softmax } from '../../src/sample/candidates.ts';
import type { Candidates, SamplerStep } from '../../src/sample/candidates.ts';
import { createDry } from '../../src/sample/dry.ts';
import { createMirostat } from '../../src/sample/mirostat.ts';
import { createRandom } from '../../src/sample/random.ts';
import { dynamicTemperatureStep, temperatureStep } from '../../src/sample/temperature.ts';
import { minPStep, topKStep, topNSigmaStep, topPStep, typicalStep, xtcStep } from '../../src/sample/truncate.ts';
import * as reference from './reference.ts';
import type { Token } from './reference.ts';

const seed = 4711;
/** Candidates have float logits, the reference double ones. */
const FLOAT_LOGITS = 2e-6;
const always = createRandom(1);

function load(logits: ArrayLike<number>): Candidates {
  const c = createCandidates(logits.length);
  loadCandidates(c, Float32Array.from(logits));
  return c;
}

/** The candidates left: ids and probabilities, ascending by id. */
function left(c: Candidates): [id: number, p: number][] {
  softmax(c);
  return Array.from(c.ids.subarray(0, c.size), (id, i): [number, number] => [id, c.p[i]]).sort((a, b) => a[0] - b[0]);
}

function wanted(tokens: Token[]): [id: number, p: number][] {
  const p = reference.probabilities(tokens);
  return tokens.map((t, i): [number, number] => [t.id, p[i]]).sort((a, b) => a[0] - b[0]);
}

function expectSame(c: Candidates, tokens: Token[], label: string): void {
  const got = left(c);
  const want = wanted(tokens);
  expect(
    got.map(([id]) => id),
    label,
  ).toEqual(want.map(([id]) => id));
  got.forEach(([id, p], i) =>
    expect(Math.abs(p - want[i][1]), `${label}: id ${id} got ${p}, want ${want[i][1]}`).toBeLessThan(FLOAT_LOGITS),
  );
}

describe('each step against its slow reference', () => {
  const cases: [name: string, step: SamplerStep, want: (tokens: Token[]) => Token[]][] = [
    ['top_k 7', topKStep(7), (t) => reference.topK(t, 7)],
    ['top_p 0.8', topPStep(0.8, 0), (t) => reference.topP(t, 0.8)],
    ['top_p 0', topPStep(0, 0), (t) => reference.topP(t, 0)],
    ['top_p 0.999', topPStep(0.999, 0), (t) => reference.topP(t, 0.999)],
    ['top_p 0.1, min_keep 5', topPStep(0.1, 5), (t) => reference.topP(t, 0.1, 5)],
    ['min_p 0.1', minPStep(0.1, 0), (t) => reference.minP(t, 0.1)],
    ['min_p 0.9, min_keep 4', minPStep(0.9, 4), (t) => reference.minP(t, 0.9, 4)],
    ['top_n_sigma 1.5', topNSigmaStep(1.5), (t) => reference.topNSigma(t, 1.5)],
    ['typical 0.5', typicalStep(0.5, 0, 2000), (t) => reference.typical(t, 0.5)],
    ['typical 0.1, min_keep 3', typicalStep(0.1, 3, 2000), (t) => reference.typical(t, 0.1, 3)],
    ['xtc 0.1', xtcStep(1, 0.1, 0, always), (t) => reference.xtc(t, 0.1)],
    ['temperature 0.7', temperatureStep(0.7), (t) => t.map(({ id, logit }) => ({ id, logit: logit / 0.7 }))],
    [
      'dynamic temperature 0.8 +- 0.5, exponent 1.3',
      dynamicTemperatureStep(0.8, 0.5, 1.3),
      (t) => reference.dynamicTemperature(t, 0.8, 0.5, 1.3),
    ],
    ['dynamic temperature 0.3 +- 0.5', dynamicTemperatureStep(0.3, 0.5, 1), (t) => reference.dynamicTemperature(t, 0.3, 0.5, 1)],
  ];
  for (const [name, step, want] of cases) {
    test(name, () => {
      const random = createRandom(seed);
      for (let round = 0; round < 60; round++) {
        const n = 2 + Math.floor(random.next() * (round % 10 === 0 ? 1900 : 60));
        const scale = 1 + random.next() * 12;
        const logits = Float32Array.from({ length: n }, () => (random.next() - 0.5) * scale);
        const tokens = Array.from(logits, (logit, id) => ({ id, logit }));
        const fresh = load(logits);
        step(fresh);
        expectSame(fresh, want(tokens), `seed ${seed}, round ${round}, n ${n}`);
        // the same after a cut that leaves the candidates sorted
        const sorted = load(logits);
        topKStep(n >> 1 || 1)(sorted);
        step(sorted);
        expectSame(sorted, want(reference.topK(tokens, n >> 1 || 1)), `seed ${seed}, round ${round}, n ${n}, after top_k`);
      }
    });
  }
});

describe('small vectors by hand', () => {
  const keep = (step: SamplerStep, p: number[]): number[] => {
    const c = load(p.map(Math.log));
    step(c);
    return left(c).map(([id]) => id);
  };
  test('cuts', () => {
    expect(keep(topKStep(3), [0.1, 0.2, 0.3, 0.4])).toEqual([1, 2, 3]);
    expect(keep(topPStep(0.69, 0), [0.1, 0.2, 0.3, 0.4])).toEqual([2, 3]);
    expect(keep(topPStep(0.71, 0), [0.1, 0.2, 0.3, 0.4])).toEqual([1, 2, 3]);
    expect(keep(minPStep(0.74, 0), [0.1, 0.2, 0.3, 0.4])).toEqual([2, 3]);
    expect(keep(minPStep(0.26, 0), [0.1, 0.2, 0.3, 0.4])).toEqual([1, 2, 3]);
    // entropy 1.2799; the surprises 2.30, 1.61, 1.20, 0.92 differ from it by 1.02, 0.33, 0.08, 0.36
    expect(keep(typicalStep(0.29, 0, 4), [0.1, 0.2, 0.3, 0.4])).toEqual([2]);
    expect(keep(typicalStep(0.31, 0, 4), [0.1, 0.2, 0.3, 0.4])).toEqual([1, 2]);
    expect(keep(typicalStep(0.51, 0, 4), [0.1, 0.2, 0.3, 0.4])).toEqual([1, 2, 3]);
    expect(keep(typicalStep(0.9, 0, 4), [0.97, 0.01, 0.01, 0.01])).toEqual([0]);
  });
  test('xtc leaves the least likely of the likely tokens, with its probability', () => {
    expect(keep(xtcStep(1, 0.09, 0, always), [0.4, 0.3, 0.2, 0.1])).toEqual([3]);
    expect(keep(xtcStep(1, 0.19, 0, always), [0.4, 0.3, 0.2, 0.1])).toEqual([2, 3]);
    expect(keep(xtcStep(1, 0.35, 0, always), [0.4, 0.3, 0.2, 0.1])).toEqual([0, 1, 2, 3]);
    expect(keep(xtcStep(1, 0.09, 3, always), [0.4, 0.3, 0.2, 0.1])).toEqual([0, 1, 2, 3]);
    const sometimes = xtcStep(0.25, 0.09, 0, createRandom(8));
    const hits = Array.from({ length: 4000 }, () => keep(sometimes, [0.4, 0.3, 0.2, 0.1]).length).filter((n) => n === 1).length;
    // five standard deviations of a binomial
    expect(Math.abs(hits - 1000)).toBeLessThan(5 * Math.sqrt(4000 * 0.25 * 0.75));
  });
  test('top_n_sigma', () => {
    // logits 0, 1, 2, 3: deviation 1.118
    const c = (n: number): number => {
      const k = load([0, 1, 2, 3]);
      topNSigmaStep(n)(k);
      return k.size;
    };
    expect([c(0.5), c(0.9), c(1.8), c(2.7)]).toEqual([1, 2, 3, 4]);
  });
});

test('top_p of equal logits, more than the fast path holds', () => {
  for (const [p, want] of [
    [0, 1],
    [0.25, 250],
    [0.9995, 1000],
  ]) {
    const c = load(new Float32Array(1000));
    topPStep(p, 0)(c);
    expect(Math.abs(c.size - want), `p ${p}: ${c.size}`).toBeLessThanOrEqual(1);
    expect(Array.from(c.ids.subarray(0, c.size))).toEqual(Array.from({ length: c.size }, (_, id) => id));
  }
});

describe('DRY', () => {
  const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
  const penaltiesOf = (
    history: number[],
    pieces: string[],
    options: { allowedLength: number; lastN?: number; breakers?: string[] },
  ): Map<number, number> => {
    const dry = createDry(
      {
        multiplier: 0.8,
        base: 1.75,
        lastN: options.lastN ?? -1,
        allowedLength: options.allowedLength,
        sequenceBreakers: options.breakers ?? [],
      },
      pieces.length,
      (id) => bytes(pieces[id]),
    );
    for (const id of history) dry.accept(id);
    const c = load(new Float32Array(pieces.length));
    dry.step(c);
    return new Map(Array.from(c.logits, (v, id): [number, number] => [id, -v]).filter(([, v]) => v !== 0));
  };
  const letters = [...'abcdy\n'];

  test('by hand: a b c c b c y a b c', () => {
    // extends: "a b c" by c (3 tokens), "b c" by y (2), "c" by b (1)
    const got = penaltiesOf([0, 1, 2, 2, 1, 2, 4, 0, 1, 2], letters, { allowedLength: 2 });
    expect([...got.keys()].sort()).toEqual([2, 4]);
    expect(got.get(2)).toBeCloseTo(0.8 * 1.75, 6);
    expect(got.get(4)).toBeCloseTo(0.8, 6);
    expect(penaltiesOf([0, 1, 2, 2, 1, 2, 4, 0, 1, 2], letters, { allowedLength: 4 }).size).toBe(0);
    // a breaker in between: only "c" can be repeated
    expect([...penaltiesOf([0, 1, 2, 3, 0, 1, 5, 2], letters, { allowedLength: 1, breakers: ['\n'] }).keys()]).toEqual([3]);
    // a breaker itself is never penalised
    expect(penaltiesOf([0, 1, 5, 0, 1], letters, { allowedLength: 1, breakers: ['\n'] }).size).toBe(0);
  });

  test('a breaker cut across tokens is found', () => {
    const pieces = ['a', 'b', 'x<', '/p', '>y', 'c'];
    // "a b" is repeated, followed by "x<", but "</p>" ended after the second "a"
    expect(penaltiesOf([0, 1, 5, 0, 2, 3, 4, 0, 1], pieces, { allowedLength: 2, breakers: ['</p>'] }).get(5)).toBeCloseTo(0.8, 6);
    expect(penaltiesOf([0, 1, 5, 0, 1, 2, 3, 4], pieces, { allowedLength: 1, breakers: ['</p>'] }).size).toBe(0);
    expect(penaltiesOf([2, 3, 5, 2, 3], pieces, { allowedLength: 2, breakers: ['</p>'] }).get(5)).toBeCloseTo(0.8, 6);
  });

  test('against every suffix and every position', () => {
    const random = createRandom(seed);
    for (let round = 0; round < 150; round++) {
      const length = Math.floor(random.next() * 70);
      const kinds = 2 + Math.floor(random.next() * 4);
      const lastN = round % 3 === 0 ? 20 : -1;
      const history = Array.from({ length }, () => (random.next() < 0.05 ? 5 : Math.floor(random.next() * kinds)));
      const allowedLength = Math.floor(random.next() * 4);
      const seen = lastN === -1 ? history : history.slice(-lastN);
      const want = reference.dryPenalties(
        seen,
        seen.map((id) => id === 5),
        0.8,
        1.75,
        allowedLength,
      );
      want.delete(5);
      const got = penaltiesOf(history, letters, { allowedLength, lastN, breakers: ['\n'] });
      expect([...got.keys()].sort(), `seed ${seed}, round ${round}, ${history}`).toEqual([...want.keys()].sort());
      for (const [id, penalty] of want) expect(got.get(id)! / penalty, `round ${round}, id ${id}`).toBeCloseTo(1, 5);
    }
  });
});

describe('Mirostat', () => {
  for (const version of [1, 2]) {
    test(`version ${version} keeps the surprise near tau`, () => {
      const n = 2000;
      const tau = 4;
      const logits = Array.from({ length: n }, (_, i) => -1.1 * Math.log(i + 1));
      const mirostat = createMirostat(version, tau, 0.1, n, createRandom(seed));
      const p = reference.probabilities(logits.map((logit, id) => ({ id, logit })));
      let surprise = 0;
      const rounds = 1500;
      for (let round = 0; round < rounds; round++) {
        const c = load(logits);
        surprise -= Math.log2(p[c.ids[mirostat.draw(c)]]) / rounds;
      }
      // It steers the surprise within the cut distribution, which is slightly lower than in the
      // whole one.
      expect(Math.abs(surprise - tau), `mean surprise ${surprise} bits`).toBeLessThan(0.8);
    });

    test(`version ${version}: one candidate, equal ones, and a reset`, () => {
      const draws = (m: ReturnType<typeof createMirostat>): number[] =>
        Array.from({ length: 20 }, () => {
          const c = load(new Float32Array(10));
          return c.ids[m.draw(c)];
        });
      const mirostat = createMirostat(version, 5, 0.1, 10, createRandom(1));
      expect(mirostat.draw(load([3]))).toBe(0);
      for (const id of draws(mirostat)) expect(id).toBeLessThan(10);
      const random = createRandom(2);
      const again = createMirostat(version, 3, 0.1, 10, random);
      const first = draws(again);
      random.reset();
      again.reset();
      expect(draws(again)).toEqual(first);
    });
  }

  test('version 2 by hand: mu starts at 2 tau', () => {
    // surprises of 1, 2, 3, 3 bits; mu = 2 removes the last two
    for (let s = 0; s < 40; s++) {
      const c = load([0.5, 0.25, 0.125, 0.125].map(Math.log));
      const chosen = createMirostat(2, 1.05, 0.1, 4, createRandom(s)).draw(c);
      expect([0, 1]).toContain(c.ids[chosen]);
      expect(c.size).toBe(2);
    }
  });
});
