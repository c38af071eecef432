/**
 * Random graphs of a dozen ops give the same bits if planned tightly (results reuse memory), with
 * everything kept, and on other builds and numbers of threads. Sharing, fusing and the placement of
 * barriers must not change results.
 */
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import * as core from 'quantlet/core';
import type { Engine, Tensor } from 'quantlet/core';
import { gaussian } from '../kernel/harness.ts';

const NE = [8, 6, 2] as const;
const SEED = 12;

/** An op, and the indices of the earlier tensors that it takes. */
type Step = readonly [op: keyof typeof OPS, a: number, b: number];

const OPS = {
  silu: (a: Tensor) => core.silu(a),
  scale: (a: Tensor) => core.scale(a, 0.7, { bias: 0.1 }),
  add: (a: Tensor, b: Tensor) => core.add(a, b),
  mul: (a: Tensor, b: Tensor) => core.mul(a, b),
  add_inplace: (a: Tensor, b: Tensor) => core.add_inplace(core.scale(a, 1), b),
  rms_norm: (a: Tensor) => core.rms_norm(a, { eps: 1e-5 }),
  sum_and_norm: (a: Tensor, b: Tensor) => core.rms_norm(core.add(a, b), { eps: 1e-5 }),
  sum: (a: Tensor, b: Tensor) => core.mul(a, core.sum(core.sqr(core.neg(b)))),
  group_norm: (a: Tensor) => core.group_norm(a, { groups: 2, eps: 1e-5 }),
  pad: (a: Tensor) =>
    core.cont(core.view(core.pad(a, [1, 2], { left: [2, 0, 1] }), NE, { nb: [4 * (NE[0] + 3), 4 * (NE[0] + 3) * (NE[1] + 2)], offset: 8 })),
  conv_2d: (a: Tensor, b: Tensor) => core.add(a, core.conv_2d(core.view(core.cont(b), [3, 3, NE[2], 2]), a, { padding: 1 })),
  conv_1d: (a: Tensor, b: Tensor) =>
    core.add(
      a,
      core.reshape(core.conv_1d(core.view(core.cont(b), [3, NE[1], 2]), core.cont(a), { padding: 1, type: 'f32' }), [NE[0], 2, NE[2]]),
    ),
  blocks: (a: Tensor) => core.reshape(core.cast(core.cast(core.reshape(core.cont(a), [NE[0] * 4, 3]), 'iq4_nl'), 'f32'), NE),
  soft_max: (a: Tensor) => core.soft_max(a),
  repeat: (a: Tensor) => core.add(a, core.repeat(core.sum_rows(a), a.ne)),
  cast: (a: Tensor) => core.cast(core.cast(a, 'f16'), 'f32'),
  transposed: (a: Tensor) => core.cont(core.transpose(core.cont(core.transpose(a)))),
  permuted: (a: Tensor) => core.cont(core.permute(core.cont(core.permute(a, 2, 0, 1, 3)), 1, 2, 0, 3)),
  reshaped: (a: Tensor) => core.reshape(core.reshape(core.cont(a), [NE[0] * NE[1], NE[2]]), NE),
  window: (a: Tensor, b: Tensor) => {
    const c = core.concat(a, b, 1);
    return core.cont(core.view(c, NE, { nb: [c.nb[1], c.nb[2]], offset: 2 * c.nb[1] }));
  },
  cpy: (a: Tensor, b: Tensor) => core.cpy(core.silu(a), core.scale(b, 1)),
  mul_mat: (a: Tensor, b: Tensor) =>
    core.add(
      a,
      core.view(core.cont(core.transpose(core.mul_mat(core.cont(a), b))), [1, NE[1], NE[2]], { nb: [4 * NE[1], 4 * NE[1] ** 2] }),
    ),
  get_rows: (a: Tensor, b: Tensor) =>
    core.get_rows(a, core.view(core.argsort(core.cont(core.transpose(b))), [NE[1], NE[2]], { nb: [4 * NE[0] * NE[1]] })),
} as const;

/** Three leaves, and the results of the steps. */
function graph(engine: Engine, steps: readonly Step[]): { leaves: Tensor[]; made: Tensor[] } {
  const leaves = [1, 2, 3].map((seed) => engine.tensor('f32', NE, gaussian(NE[0] * NE[1] * NE[2], seed)));
  const all: Tensor[] = [...leaves];
  for (const [op, a, b] of steps) all.push(OPS[op](all[a % all.length], all[b % all.length]));
  return { leaves, made: all.slice(3) };
}

const engines: Engine[] = [];
beforeAll(async () => {
  for (const [build, threads] of [
    ['simd', 1],
    ['simd-threads', 3],
    ['simd-threads', 2],
  ] as const)
    engines.push(await core.createEngine({ build, threads }));
});
afterAll(() => Promise.all(engines.map((e) => e.dispose())));

it('the same bits however they are planned', async () => {
  const index = fc.integer({ min: 0, max: 1000 });
  const step = fc.tuple(fc.constantFrom(...(Object.keys(OPS) as (keyof typeof OPS)[])), index, index);
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 2, maxLength: 14 }), async (steps) => {
      let want: Float32Array | undefined;
      for (const [i, engine] of [...engines, engines[1]].entries()) {
        const { leaves, made } = graph(engine, steps);
        const last = made.at(-1)!;
        const free = engine.freeBytes;
        const plan = engine.plan(...(i < engines.length ? [last] : made));
        await engine.compute(plan);
        const got = engine.read(last) as Float32Array;
        plan.dispose();
        expect(engine.freeBytes).toBe(free);
        for (const t of leaves) engine.free(t);
        want ??= got;
        const at = want.findIndex((v, k) => !Object.is(v, got[k]));
        expect(at, at < 0 ? '' : `way ${i}, index ${at}: got ${got[at]}, want ${want[at]}`).toBe(-1);
      }
    }),
    { seed: SEED, numRuns: 120 },
  );
});
