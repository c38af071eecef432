/**
 * A NaN or Inf among the activations of an integer product makes its column's outputs NaN, however
 * the activations reach the product, plain or packed.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { cast, createEngine, mul_mat, permute, silu, type Engine, type Tensor, type TypeName } from 'quantlet/core';
import { TYPE } from '../../src/type-traits.ts';
import { randomBlocks } from '../golden/formats-rows.ts';
import { gaussian } from '../kernel/harness.ts';
import { RUNS } from '../support.ts';

const NE0 = 512;
const ROWS = 21;
const TOKENS = 5;
const TYPES: readonly TypeName[] = ['q4_0', 'q5_1', 'q8_0', 'q4_K', 'q6_K', 'iq4_nl', 'mxfp4'];
/** The types whose plain products also use integers. */
const PLAIN = TYPES.filter((type) => TYPE[type].kernels?.vecDotType);

describe.each(RUNS)('%s, %i threads', (build, threads) => {
  let engine: Engine, plain: Tensor[], packed: Tensor[];
  beforeAll(async () => {
    engine = await createEngine({ build, threads });
    const weights = (types: readonly TypeName[]): Tensor[] =>
      types.map((type, i) =>
        engine.tensor(type, [NE0, ROWS], randomBlocks(type, TYPE[type].typeSize, (NE0 * ROWS) / TYPE[type].blckSize, i)),
      );
    plain = weights(PLAIN);
    packed = weights(TYPES);
    for (const w of packed) expect(await engine.pack(w)).toBe(true);
  });
  afterAll(() => engine.dispose());

  // Activations quantised from a tensor, by the op that makes them, by way of f32, element by
  // element.
  const ways: { readonly [name: string]: (x: Tensor, transposed: Tensor) => Tensor } = {
    leaf: (x) => x,
    silu: (x) => silu(x),
    f16: (x) => cast(x, 'f16'),
    permuted: (_, transposed) => permute(transposed, 1, 0, 2, 3),
  };
  it.each(Object.keys(ways))('%s', async (name) => {
    const values = gaussian(NE0 * TOKENS, 7);
    const at = (token: number, i: number): number => token * NE0 + i;
    values[at(1, 3)] = NaN;
    values[at(3, NE0 - 1)] = Infinity;
    const x = engine.tensor('f32', [NE0, TOKENS], values);
    const transposed = engine.tensor(
      'f32',
      [TOKENS, NE0],
      values.map((_, i) => values[at(i % TOKENS, Math.floor(i / TOKENS))]),
    );
    const y = ways[name](x, transposed);
    const products = [...plain, ...packed].map((w) => mul_mat(w, y));
    const plan = engine.plan(...products);
    await engine.compute(plan);
    for (const [i, product] of products.entries()) {
      const got = engine.read(product) as Float32Array;
      const where = i < PLAIN.length ? `${PLAIN[i]}, plain` : `${TYPES[i - PLAIN.length]}, packed`;
      for (let token = 0; token < TOKENS; token++) {
        const rows = [...got.subarray(token * ROWS, (token + 1) * ROWS)];
        if (token === 1 || token === 3) expect(rows.every(Number.isNaN), `${where}, token ${token}: ${rows.join(' ')}`).toBe(true);
        else expect(rows.every(Number.isFinite), `${where}, token ${token}: ${rows.join(' ')}`).toBe(true);
      }
    }
    plan.dispose();
    engine.free(x);
    engine.free(transposed);
  });
});
