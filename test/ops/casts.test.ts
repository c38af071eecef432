/**
 * An op's output for packed products is quantised by the op, on whichever thread computes it, with
 * a scale per 32 or per 256 elements. Products have the bits that they have for the same numbers in
 * a tensor of the caller.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createEngine, mul_mat, norm, rms_norm, silu, swiglu, type Engine, type Tensor, type TypeName } from 'quantlet/core';
import { TYPE } from '../../src/type-traits.ts';
import { randomBlocks } from '../golden/formats-rows.ts';
import { gaussian } from '../kernel/harness.ts';
import { RUNS } from '../support.ts';

/** Three super-blocks, so that threads get different numbers of them. */
const NE0 = 768;
const ROWS = 21;
const OPS: { readonly [name: string]: (x: Tensor) => Tensor } = {
  silu,
  swiglu: (x) => swiglu(x, silu(x)),
  rms_norm: (x) => rms_norm(x, { eps: 1e-5 }),
  norm: (x) => norm(x, { eps: 1e-5 }),
};

describe.each(RUNS)('%s, %i threads', (build, threads) => {
  let engine: Engine, weights: Tensor[];
  beforeAll(async () => {
    engine = await createEngine({ build, threads });
    weights = (['q4_0', 'q4_K', 'q2_K', 'q8_0', 'q6_K'] as TypeName[]).map((type, i) =>
      engine.tensor(type, [NE0, ROWS], randomBlocks(type, TYPE[type].typeSize, (NE0 * ROWS) / TYPE[type].blckSize, i)),
    );
    for (const w of weights) expect(await engine.pack(w)).toBe(true);
  });
  afterAll(() => engine.dispose());

  it.each(Object.keys(OPS))('%s', async (name) => {
    for (const tokens of [1, 2, 5]) {
      const x = engine.tensor('f32', [NE0, tokens], gaussian(NE0 * tokens, 30 + tokens));
      const y = OPS[name](x);
      const products = weights.map((w) => mul_mat(w, y));
      const plan = engine.plan(...products, y);
      await engine.compute(plan);
      const leaf = engine.tensor('f32', [NE0, tokens], engine.read(y) as Float32Array);
      for (const [i, w] of weights.entries()) {
        const alone = mul_mat(w, leaf);
        const plain = engine.plan(alone);
        await engine.compute(plain);
        expect(engine.read(products[i]), `${w.type.name}, ${tokens} tokens`).toEqual(engine.read(alone));
        plain.dispose();
      }
      plan.dispose();
      engine.free(x);
      engine.free(leaf);
    }
  });
});
