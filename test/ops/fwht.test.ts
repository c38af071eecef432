/**
 * The Walsh-Hadamard transform compared with matrices made from their definitions: every kind of
 * size, on every build, with 1 to 3 threads. Also caches that it rotates.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createEngine, fwht, fwht_inplace, view, type Engine, type Tensor } from '../../src/entry/core-node.ts';
import { attention, kv_store, type CacheRotation, type KvType } from '../../src/graph/attention-ops.ts';
import { isFwhtSize, largestFwhtSize, powerOfTwo } from '../../src/graph/fwht-size.ts';
import { gaussian } from '../kernel/harness.ts';
import { hadamard } from '../reference/hadamard.ts';
import { RUNS } from '../support.ts';

/** Relative to the largest element: log2(n) sums, each rounded to 2^-24 of itself. */
const TOLERANCE = 1e-6;
/**
 * Every order of the small matrix, with 1, 2, 4, 16 and more parts; whole rows, and several
 * transforms per row.
 */
const SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 12, 24, 48, 192, 20, 40, 80, 320, 28, 56, 112, 224, 448];

const ROWS = 4;
/** For each size, rows of two transforms and their result. */
const CASES = SIZES.map((n) => {
  const x = gaussian(2 * n * ROWS, n);
  const matrix = Float64Array.from({ length: n * n }, (_, i) => hadamard(n, Math.floor(i / n), i % n));
  const want = Float64Array.from(x, (_, i) => {
    let sum = 0;
    for (let j = 0; j < n; j++) sum += x[i - (i % n) + j] * matrix[(i % n) * n + j];
    return sum;
  });
  return { n, x, want };
});

function expectNear(got: ArrayLike<number>, want: ArrayLike<number>, tolerance: number): void {
  const largest = Array.from(want).reduce((most, v) => Math.max(most, Math.abs(v)), 0);
  const at = Array.from(want).findIndex((v, i) => !(Math.abs(got[i] - v) <= tolerance * largest));
  expect(at, `index ${at}: got ${got[at]}, want ${want[at]}`).toBe(-1);
}

describe.each(RUNS)('%s, %i threads', (build, threads) => {
  let engine: Engine;
  beforeAll(async () => void (engine = await createEngine({ build, threads })));
  afterAll(() => engine.dispose());

  it.each(CASES)('n = $n', async ({ n, x, want }) => {
    const ne0 = 2 * n;
    const a = engine.tensor('f32', [ne0, ROWS], x);
    const once = fwht(a, { n });
    const twice = fwht(once, { n });
    const plan = engine.plan(once, twice);
    await engine.compute(plan);
    const got = engine.read(once);
    expectNear(got, want, TOLERANCE);
    expectNear(engine.read(twice), x, 2 * TOLERANCE);
    plan.dispose();
    // In place: the second transform of all rows but the first and the last. Nothing else may
    // change.
    const window = view(a, [n, ROWS - 2], { nb: [4 * ne0], offset: 4 * (ne0 + n) });
    const changing = engine.plan(fwht_inplace(window));
    await engine.compute(changing);
    const inside = (i: number): boolean => i >= ne0 && i < ne0 * (ROWS - 1) && i % ne0 >= n;
    expect(engine.read(a)).toEqual(x.map((v, i) => (inside(i) ? got[i] : v)));
    changing.dispose();
    engine.free(a);
  });

  /** Two KV splits. 9 tokens are computed as a prompt, one as in generation. */
  const [HEAD, HEADS, KV_HEADS, N_KV] = [128, 4, 2, 300];
  const NONE: CacheRotation = { k: 0, v: 0 };

  /**
   * Attention over caches that either the kernels rotate, or other ops, which then also rotate
   * queries and results.
   */
  async function attend(type: KvType, tokens: number, rotation: CacheRotation, byKernels: boolean): Promise<Float32Array> {
    const floats = (heads: number, n: number, seed: number): Tensor =>
      engine.tensor('f32', [HEAD, heads, n], gaussian(HEAD * heads * n, seed));
    const cells = (n: number): Tensor => engine.tensor('i32', [tokens], new Int32Array(tokens).fill(n));
    const [q, k, v] = [floats(HEADS, tokens, 1), floats(KV_HEADS, N_KV, 2), floats(KV_HEADS, N_KV, 3)];
    const caches = [1, 2].map(() => engine.tensor(type, [HEAD, 512, KV_HEADS]));
    const [first, visible] = [cells(0), cells(N_KV)];
    const by = (t: Tensor, n: number): Tensor => (byKernels || n === 0 ? t : fwht(t, { n }));
    const inside = byKernels ? rotation : NONE;
    const kept = (['k', 'v'] as const).map((order, i) =>
      kv_store(caches[i], by([k, v][i], rotation[order]), undefined, order, inside[order]),
    );
    const y = by(attention(by(q, rotation.k), kept[0], kept[1], first, visible, { scale: 0.1, rotation: inside }), rotation.v);
    const plan = engine.plan(y);
    await engine.compute(plan);
    const result = engine.read(y) as Float32Array;
    plan.dispose();
    for (const t of [q, k, v, ...caches, first, visible]) engine.free(t);
    return result;
  }

  it.each<KvType>(['q4_0', 'q5_1', 'f16'])('a %s cache that kernels rotate, bit for bit', async (type) => {
    for (const [tokens, rotation] of [
      [9, { k: 128, v: 64 }],
      [1, { k: 32, v: 128 }],
    ] as const) {
      const got = await attend(type, tokens, rotation, true);
      expect(got).toEqual(await attend(type, tokens, rotation, false));
      expect(got, 'the rotation is heard').not.toEqual(await attend(type, tokens, NONE, true));
    }
  });
});

it('supported sizes', () => {
  const sizes = Array.from({ length: 130 }, (_, i) => i - 1).filter(isFwhtSize);
  expect(sizes).toEqual([1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128]);
  expect([0.5, NaN, Infinity, 36, 1152].filter(isFwhtSize)).toEqual([]);
  expect([1, 96, 5120].map(powerOfTwo)).toEqual([1, 32, 1024]);
  expect([7, 64, 576, 1536, 3584, 4864, 5120, 11008, 8960, 10].map(largestFwhtSize)).toEqual([
    1, 64, 192, 1536, 3584, 256, 5120, 256, 1792, 2,
  ]);
});
