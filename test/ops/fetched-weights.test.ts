/**
 * Prefetching weights does not change products. With more than 4 MiB of weights in a plan
 * (graph/lower.ts) they are prefetched; the same rows in tensors small enough not to be give the
 * same bits.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createEngine, mul_mat, mul_mat_id, view, type Engine, type Tensor } from 'quantlet/core';
import { TYPE } from '../../src/type-traits.ts';
import { randomBlocks } from '../golden/formats-rows.ts';
import { gaussian } from '../kernel/harness.ts';
import { RUNS } from '../support.ts';
import { computed } from './graph.ts';

/**
 * A row block is 72 KiB, so that a chunk of two is prefetched in parts. The last row block has six
 * rows.
 */
const K = 8192;
const ROWS = 1030;
const CUT = 528;
const { typeSize, blckSize } = TYPE.q4_0;
const ROW_BYTES = (K / blckSize) * typeSize;
const BYTES = randomBlocks('q4_0', typeSize, (K / blckSize) * ROWS, 7);
const MATRICES = 4;
const IDS = Int32Array.of(0, 3, 3, 1, 0, 2);

describe.each(RUNS)('%s, %i threads', (build, threads) => {
  let engine: Engine;
  beforeAll(async () => void (engine = await createEngine({ build, threads })));
  afterAll(() => engine.dispose());

  const packed = async (ne: number[], bytes: Uint8Array): Promise<Tensor> => {
    const w = engine.tensor('q4_0', ne, bytes);
    expect(await engine.pack(w)).toBe(true);
    return w;
  };

  it('one column, a few, and a tile of them', async () => {
    const whole = await packed([K, ROWS], BYTES);
    const parts = [
      await packed([K, CUT], BYTES.subarray(0, CUT * ROW_BYTES)),
      await packed([K, ROWS - CUT], BYTES.subarray(CUT * ROW_BYTES)),
    ];
    for (const n of [1, 3, 20]) {
      const x = engine.tensor('f32', [K, n], gaussian(K * n, n));
      const got = await computed(engine, mul_mat(whole, x));
      const [above, below] = [await computed(engine, mul_mat(parts[0], x)), await computed(engine, mul_mat(parts[1], x))];
      for (let c = 0; c < n; c++) {
        expect(got.subarray(c * ROWS, c * ROWS + CUT)).toEqual(above.subarray(c * CUT, (c + 1) * CUT));
        expect(got.subarray(c * ROWS + CUT, (c + 1) * ROWS)).toEqual(below.subarray(c * (ROWS - CUT), (c + 1) * (ROWS - CUT)));
      }
    }
  });

  it('groups', async () => {
    const rows = (ROWS & -16) / MATRICES;
    const as = await packed([K, rows, MATRICES], BYTES.subarray(0, rows * MATRICES * ROW_BYTES));
    const x = engine.tensor('f32', [K, 2, 3], gaussian(K * 6, 9));
    const got = await computed(engine, mul_mat_id(as, x, engine.tensor('i32', [2, 3], IDS)));
    for (const [i, matrix] of IDS.entries()) {
      const w = await packed([K, rows], BYTES.subarray(matrix * rows * ROW_BYTES, (matrix + 1) * rows * ROW_BYTES));
      const alone = await computed(engine, mul_mat(w, view(x, [K, 1], { offset: 4 * K * i })));
      expect(got.subarray(i * rows, (i + 1) * rows)).toEqual(alone);
      engine.free(w);
    }
  });
});
