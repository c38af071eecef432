/**
 * The learning of rotations: its gradient compared with finite differences, its steps, and
 * continuing from a copy.
 */
import { createEngine, rope_ext, type Engine, type Tensor } from '../../src/entry/core-node.ts';
import { expect, it } from 'vitest';
import { cayleyStep } from '../../src/rotate/cayley.ts';
import { learnRotations, roomFor, type Learned, type LearnWeights } from '../../src/rotate/learn.ts';
import { LAYER_MATRICES, lossOf, type LayerMatrices } from '../../src/rotate/loss.ts';
import { asItIs, rounded } from '../../src/rotate/rounded.ts';
import type { HParams } from '../../src/arch/hparams.ts';
import { gaussian } from '../kernel/harness.ts';
import { failure, randomIds } from '../support.ts';

const SHAPE = { nEmbd: 32, nHead: 4, nHeadKv: 2, headDim: 8, nFf: 64, nVocab: 19, nLayer: 2, eps: 1e-5 };
const ROPE = { nDims: 8, freqBase: 100, freqScale: 1, extFactor: 0, attnFactor: 1, betaFast: 32, betaSlow: 1, nCtxOrig: 0 };
const HP = { ...SHAPE, arch: 'llama', nCtxTrain: 16, rope: ROPE } as unknown as HParams;

/**
 * Matrices with values of the size that training gives, with norms folded in: columns of several
 * sizes.
 */
function weightsIn(engine: Engine): LearnWeights {
  const { nEmbd, nHead, nHeadKv, headDim, nFf, nVocab, nLayer } = SHAPE;
  let seed = 40;
  const matrix = (cols: number, rows: number): Tensor =>
    engine.tensor(
      'f32',
      [cols, rows],
      gaussian(cols * rows, seed++).map((x, i) => (x * (1 + (i % 3))) / (2 * Math.sqrt(cols))),
    );
  const [queries, values] = [nHead * headDim, nHeadKv * headDim];
  const sizes = [
    [nEmbd, queries],
    [nEmbd, values],
    [nEmbd, values],
    [queries, nEmbd],
    [nEmbd, nFf],
    [nEmbd, nFf],
    [nFf, nEmbd],
  ];
  const layer = (): LayerMatrices =>
    Object.fromEntries(LAYER_MATRICES.map((name, i) => [name, matrix(sizes[i][0], sizes[i][1])])) as LayerMatrices;
  return {
    embeddings: matrix(nEmbd, nVocab),
    output: matrix(nEmbd, nVocab),
    layers: Array.from({ length: nLayer }, layer),
    ropeFactors: Float32Array.of(1, 2, 1, 3),
  };
}

/** An orthogonal matrix: Cayley's transform of a skew one. */
const orthogonal = (n: number, seed: number): Float32Array => {
  const x = Float32Array.from({ length: n * n }, (_, i) => (i % (n + 1) === 0 ? 1 : 0));
  cayleyStep(x, new Float32Array(n * n), gaussian(n * n, seed), 0.5);
  return x;
};
const gram = (x: Float32Array): number => {
  const n = Math.sqrt(x.length);
  let most = 0;
  for (let i = 0; i < n; i++)
    for (let j = 0; j < n; j++) {
      let dot = 0;
      for (let k = 0; k < n; k++) dot += x[i * n + k] * x[j * n + k];
      most = Math.max(most, Math.abs(dot - Number(i === j)));
    }
  return most;
};

/**
 * A matrix that is not quite orthogonal. With orthogonal ones the model computes the same and the
 * loss is 0, so that there would be no gradient to measure.
 */
const bent = (n: number, seed: number): Float32Array => {
  const noise = gaussian(n * n, seed + 1);
  return orthogonal(n, seed).map((x, i) => x + 0.1 * noise[i]);
};

it.each([0, 16])('the gradient by R1 and each R2 is that of finite differences, R4 of %i', async (r4) => {
  await using engine = await createEngine({ threads: 2, memoryBytes: 2 ** 25 });
  const { nEmbd, headDim, nVocab } = SHAPE;
  const [window, sequences] = [6, 2];
  const tokens = window * sequences;
  const positions = Array.from({ length: tokens }, (_, i) => i % window);
  const values = [bent(nEmbd, 5), bent(headDim, 6), bent(headDim, 7)];
  const [r1, ...r2] = values.map((x) => engine.tensor('f32', [Math.sqrt(x.length), Math.sqrt(x.length)], x));
  const loss = lossOf({
    ...SHAPE,
    ...weightsIn(engine),
    r4,
    round: asItIs,
    window,
    r1,
    r2,
    ids: engine.tensor('i32', [tokens], randomIds(tokens, nVocab, 3)),
    rope: (x, back) => rope_ext(x, back ? positions.map((p) => -p) : positions, { freqBase: 100, nCtx: window }),
  });
  const plan = engine.plan(loss.divergence, loss.r1, ...loss.r2);
  const measure = async (): Promise<number> => {
    await engine.compute(plan);
    return engine.read(loss.divergence)[0];
  };
  await measure();
  const gradients = [loss.r1, ...loss.r2].map((g) => engine.read(g) as Float32Array);
  const norm = (x: Float32Array): number => Math.hypot(...x);
  for (const [i, t] of [r1, ...r2].entries()) {
    expect(norm(gradients[i]), 'there is something to learn').toBeGreaterThan(0.02);
    for (const seed of [81, 82, 83]) {
      const direction = gaussian(values[i].length, seed);
      const step = 0.02 / norm(direction);
      const at = async (far: number): Promise<number> => {
        engine.write(
          t,
          values[i].map((x, k) => x + far * step * direction[k]),
        );
        return measure();
      };
      const slope = (await at(1)) - (await at(-1));
      engine.write(t, values[i]);
      const want = gradients[i].reduce((sum, g, k) => sum + 2 * step * g * direction[k], 0);
      expect(Math.abs(slope - want), `matrix ${i}, direction ${seed}: ${slope}, want ${want}`).toBeLessThan(
        0.002 * 0.04 * norm(gradients[i]) + 2e-6,
      );
    }
  }
  for (const [t, x] of [[r1, orthogonal(nEmbd, 5)], ...r2.map((t, i) => [t, orthogonal(headDim, 6 + i)] as const)] as const)
    engine.write(t, x);
  expect(Math.abs(await measure()), 'orthogonal matrices lose nothing').toBeLessThan(1e-6);
});

it('the largest element of a block gets the gradient of the scale', async () => {
  await using engine = await createEngine({ threads: 1 });
  const values = gaussian(96, 41);
  values.fill(0, 64);
  const w = engine.tensor('f32', [48, 2], values);
  const wide = engine.tensor('f32', [96], values);
  const gradient = gaussian(96, 42);
  const out = rounded(wide);
  const back = out.back(engine.tensor('f32', [96], gradient));
  await engine.compute(engine.plan(out.x, back));
  const [x, got] = [out.x, back].map((t) => engine.read(t) as Float32Array);
  const want = new Float32Array(96);
  for (const from of [0, 32]) {
    const block = values.subarray(from, from + 32);
    const at = block.reduce((most, v, i) => (Math.abs(v) > Math.abs(block[most]) ? i : most), 0);
    for (let i = from; i < from + 32; i++) want[from + at] += (gradient[i] * (x[i] - values[i])) / block[at];
  }
  got.forEach((v, i) => expect(v).toBeCloseTo(want[i], 5));
  expect(rounded(w).x, 'rows that are no whole blocks stay').toBe(w);
});

it('steps keep a matrix orthogonal and find the one that rotates a to b', () => {
  const n = 12;
  const [a, want] = [orthogonal(n, 11), orthogonal(n, 12)];
  const x = a.slice();
  const momentum = new Float32Array(n * n);
  const apart = (): number => Math.hypot(...x.map((v, i) => v - want[i]));
  const before = apart();
  for (let i = 0; i < 200; i++)
    cayleyStep(
      x,
      momentum,
      x.map((v, k) => v - want[k]),
      0.2 * (1 - i / 200),
    );
  expect(gram(x)).toBeLessThan(1e-5);
  expect(apart()).toBeLessThan(before / 50);
});

it('learning continued from a copy gives the same bits for any threads, keeps matrices orthogonal, and starts with the best', async () => {
  const { nEmbd, headDim, nVocab, nLayer } = SHAPE;
  const start = (seed = 21): Learned => {
    const of = (n: number, s: number): Learned['r1'] => {
      const x = orthogonal(n, s);
      return { x, momentum: new Float32Array(n * n), best: x.slice() };
    };
    return { step: 0, loss: Infinity, r1: of(nEmbd, seed), r2: Array.from({ length: nLayer }, (_, il) => of(headDim, seed + 1 + il)) };
  };
  const ids = randomIds(60, nVocab, 9);
  const options = { r4: 0, ids, bos: 1, window: 16, sequences: 2, steps: 12, rate: 0.05, seed: 3 };
  const run = async (threads: number, starts: readonly Learned[], until: number, more: Partial<typeof options> = {}): Promise<Learned> => {
    await using engine = await createEngine({ threads, memoryBytes: 2 ** 25 });
    let last = starts[0];
    for await (last of learnRotations(engine, HP, weightsIn(engine), starts, { ...options, ...more })) if (last.step === until) break;
    return last;
  };
  const whole = await run(1, [start()], Infinity);
  expect(whole.step).toBe(12);
  for (const { x, best } of [whole.r1, ...whole.r2]) for (const m of [x, best]) expect(gram(m)).toBeLessThan(1e-5);
  expect(whole.r1.x).not.toEqual(start().r1.x);
  const part = await run(3, [start()], 7);
  expect(part.step).toBe(7);
  expect(await run(2, [structuredClone(part)], Infinity)).toEqual(whole);
  expect(whole.loss, 'the best of what was judged, at 0, 10 and 12 steps').toBeLessThanOrEqual(part.loss);
  // Among several starts, the one closest to the model before the first step is chosen.
  const seeds = [21, 51, 71];
  const first = await Promise.all(seeds.map(async (seed) => (await run(1, [start(seed)], 1)).loss));
  expect(new Set(first).size).toBe(3);
  expect((await run(1, seeds.map(start), 1)).loss).toBe(Math.min(...first));
  const { code, message } = await failure(run(1, [start()], 1, { ids: ids.slice(0, 31) }));
  expect([code, message]).toEqual([
    'ERR_INVALID_ARGUMENT',
    expect.stringMatching(/the text has 31 tokens; expected at least two windows of 16/),
  ]);
});

it('a model that does not fit in a memory is refused', () => {
  expect(roomFor(HP, 1e5, 2 ** 32)).toMatchObject({ window: 16, sequences: 4 });
  expect(() => roomFor(HP, 5e8, 2 ** 32)).toThrow(expect.objectContaining({ code: 'ERR_OUT_OF_MEMORY' }) as Error);
});
