/**
 * The chain of samplers compared with native llama.cpp's: the same tokens with the same
 * probabilities, in every combination (native.json, written by make-native.ts).
 */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { createSampler } from '../../src/sample/sampler.ts';
import { CASES, HISTORY, LOGITS, N_VOCAB, OFF } from './native-cases.ts';

const golden = JSON.parse(readFileSync(new URL('native.json', import.meta.url), 'utf8')) as Readonly<Record<string, number>>[][];
const DRAWS = 3000;
const SEED = 5;

test.each(CASES.map((c, i) => [JSON.stringify(c), c, golden[i]] as const))('%s', (_, options, rows) => {
  rows.forEach((want, row) => {
    const drawn = new Map<number, number>();
    // Mirostat learns from each draw, so each draw gets a new sampler.
    const draw = (seed: number): (() => number) => {
      const sampler = createSampler({ ...OFF, ...options, seed }, N_VOCAB);
      for (const id of HISTORY) sampler.accept(id);
      return () => sampler.sample(LOGITS[row]);
    };
    const shared = draw(SEED);
    for (let i = 0; i < DRAWS; i++) {
      const id = options.mirostat ? draw(i)() : shared();
      drawn.set(id, (drawn.get(id) ?? 0) + 1);
    }
    expect(
      [...drawn.keys()].filter((id) => !(id in want)),
      `row ${row}: drawn, but native leaves them out`,
    ).toEqual([]);
    for (const [id, p] of Object.entries(want)) {
      // Five standard deviations of a binomial, plus one draw for nearly impossible tokens.
      const off = Math.abs((drawn.get(Number(id)) ?? 0) - DRAWS * p);
      expect(
        off,
        `row ${row}, id ${id}: drawn ${drawn.get(Number(id)) ?? 0} times of ${DRAWS}, native's probability ${p}`,
      ).toBeLessThanOrEqual(5 * Math.sqrt(DRAWS * p * (1 - p)) + 1);
    }
  });
});
