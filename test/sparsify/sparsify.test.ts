/** Parts of `quantlet sparsify`: orders of neurons, thresholds, predictors. */
import { createEngine } from '../../src/entry/core-node.ts';
import { describe, expect, it } from 'vitest';
import { createFiring } from '../../src/sparsify/firing.ts';
import { ordered, transposed } from '../../src/sparsify/plan.ts';
import { createTrainer, trainerBytes } from '../../src/sparsify/predictor.ts';
import { createScores, qualityAt, thresholdFor } from '../../src/sparsify/scores.ts';
import { gaussian } from '../kernel/harness.ts';

const never = new AbortController().signal;

describe('firing', () => {
  /**
   * 40 neurons of three sorts. Sort i fires for tokens t with t % 8 < rates[i]. Neuron 39 fires for
   * one token more, so it is the hottest.
   */
  const neurons = 40;
  const rates = [1, 4, 2];
  const firing = createFiring(neurons, 70);
  const rows = Array.from({ length: 80 }, (_, t) =>
    Float32Array.from({ length: neurons }, (_, r) => ((t % 8 < rates[r % 3] ? 1 : r === 39 && t === 7 ? 1 : 0) * (r + 1)) / -4),
  );
  firing.add(Float32Array.from(rows.slice(0, 33).flatMap((row) => [...row])));
  for (const row of rows.slice(33)) firing.add(row);

  it('counts tokens up to its capacity', () => {
    expect(firing.tokens).toBe(70);
    const fires = (r: number, t: number): boolean => rows[t][r] !== 0;
    for (let r = 0; r < neurons; r++) {
      const all = rows.slice(0, 70).filter((_, t) => fires(r, t));
      expect(firing.counts[r]).toBe(all.length);
      expect(firing.sums[r]).toBeCloseTo(
        all.reduce((sum, row) => sum + Math.abs(row[r]), 0),
        3,
      );
      for (let t = 0; t < 70; t++) expect(firing.fires(r, t)).toBe(fires(r, t));
    }
  });

  it('the order has every neuron once, in groups of 16 of one sort if possible, the hottest first', () => {
    const order = firing.order();
    expect([...order].sort((a, b) => a - b)).toEqual([...Array(neurons).keys()]);
    // 13 neurons of the sort that fires most, and three of the sort that fires for half as many
    // tokens.
    expect([...order.subarray(0, 13)].every((r) => r % 3 === 1)).toBe(true);
    expect([...order.subarray(13, 26)].every((r) => r % 3 === 2)).toBe(true);
    const share = (order: Uint32Array): number => {
      let read = 0;
      for (const row of rows.slice(0, 70))
        for (let at = 0; at < neurons; at += 16) read += Number(order.subarray(at, at + 16).some((r) => row[r] !== 0));
      return read / 70 / 3;
    };
    const asItIs = Uint32Array.from({ length: neurons }, (_, r) => r);
    expect(firing.groupsRead(asItIs)).toBeCloseTo(share(asItIs), 12);
    expect(firing.groupsRead(order)).toBeCloseTo(share(order), 12);
    expect(share(order)).toBeLessThan(share(asItIs));
  });

  it('the hottest can come before all groups, in whole groups', () => {
    expect([1, 0.5, 0.01].map((share) => firing.hot(share))).toEqual([0, 0, 32]);
    const order = firing.order(16);
    const counts = [...order].map((r) => firing.counts[r]);
    expect(counts.slice(0, 16)).toEqual([...firing.counts].sort((a, b) => b - a).slice(0, 16));
    expect([...order].sort((a, b) => a - b)).toEqual([...Array(neurons).keys()]);
  });

  it('rows and columns are reordered by it', () => {
    const order = Uint32Array.of(2, 0, 1);
    expect([...ordered(Uint8Array.of(1, 2, 3, 4, 5, 6), order)]).toEqual([5, 6, 1, 2, 3, 4]);
    const matrix = Uint16Array.of(1, 2, 3, 40, 50, 60); // rows of three
    expect([...new Uint16Array(transposed(new Uint8Array(matrix.buffer), order, 2).buffer)]).toEqual([3, 60, 1, 40, 2, 50]);
    const wide = Float32Array.from(matrix);
    expect([...new Float32Array(transposed(new Uint8Array(wide.buffer), order, 4).buffer)]).toEqual([3, 60, 1, 40, 2, 50]);
  });
});

it('scores: recall, precision and the threshold that keeps a recall', () => {
  const [one, two] = [createScores(), createScores()];
  for (let i = 0; i < 100; i++) one.add(i / 10 - 5, i >= 40);
  for (let i = 0; i < 100; i++) two.add(-40, i % 2 === 0);
  two.add(NaN, false);
  expect(qualityAt([one], 0)).toEqual({ recall: 50 / 60, precision: 1, skipped: 0.5 });
  expect(thresholdFor([one], 1)).toBeGreaterThan(-1.02);
  expect(thresholdFor([one], 1)).toBeLessThanOrEqual(-1);
  expect(qualityAt([one], thresholdFor([one], 0.5)).recall).toBeGreaterThanOrEqual(0.5);
  expect(thresholdFor([one, two], 1), 'what is below all bins').toBe(-Infinity);
  expect(qualityAt([], 0)).toEqual({ recall: 1, precision: 1, skipped: 1 });
});

it('a predictor learns which side of a plane tokens are on, with the same bits for any number of threads', async () => {
  const shape = { nEmbd: 8, rank: 16, neurons: 20 };
  const [tokens, trained] = [600, 500];
  const planes = gaussian(shape.nEmbd * shape.neurons, 5);
  const x = gaussian(shape.nEmbd * tokens, 6).map((v, i) => v * (i % shape.nEmbd === 3 ? 100 : 1));
  const firing = createFiring(shape.neurons, tokens);
  for (let t = 0; t < tokens; t++)
    firing.add(
      Float32Array.from({ length: shape.neurons }, (_, r) => {
        let dot = 0;
        for (let c = 0; c < shape.nEmbd; c++) dot += planes[r * shape.nEmbd + c] * (x[t * shape.nEmbd + c] / (c === 3 ? 100 : 1));
        return Math.max(0, dot);
      }),
    );
  const results: Float32Array[] = [];
  for (const threads of [1, 2]) {
    await using engine = await createEngine({ threads, memoryBytes: trainerBytes(shape) });
    const trainer = createTrainer(engine, shape, 400);
    let last = 0;
    const predictor = await trainer.train({ x, firing, trained }, (part) => (last = part), never);
    expect(last).toBe(1);
    const scores = createScores();
    await trainer.judge(predictor, { x, firing, trained }, firing.order(), scores, never);
    const { firing: fire, idle } = scores.above(-Infinity);
    expect(fire + idle).toBe((tokens - trained) * shape.neurons);
    const { recall, precision } = qualityAt([scores], 0);
    expect(recall).toBeGreaterThan(0.85);
    expect(precision).toBeGreaterThan(0.85);
    results.push(predictor.fc1, predictor.fc2);
    await expect(trainer.train({ x, firing, trained }, () => undefined, AbortSignal.abort(new Error('stopped')))).rejects.toThrow(
      'stopped',
    );
    trainer.dispose();
  }
  expect(results.slice(2)).toEqual(results.slice(0, 2));
});
