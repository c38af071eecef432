/** flash_attn_ext with each part's own maximum (FlashDecoding) and with a unified one (FlashDecoding++); the same bits alone and among others. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { cpy, createEngine, flash_attn_ext, permute, view, type Engine, type FlashAttnOptions, type TypeName } from 'quantlet/core';
import { gaussian } from '../kernel/harness.ts';
import { RUNS } from '../support.ts';

/** Two parts, the second one short; 9 tokens are computed as prompts are, one as in generation. */
const HEAD = 32, HEADS = 4, KV_HEADS = 2, N_KV = 300, TOKENS = 9, ROW = HEAD * HEADS;
/** Of f32: two ways to scale the same sums. In blocks a weight is rounded to 16 bits of a part's largest, and may be rounded to its neighbour: 2^-16 of values up to 4. */
const TOLERANCE = { f32: 2e-6, f16: 2e-6, q8_0: 6e-5, q4_0: 6e-5 } as const;
const q = gaussian(ROW * TOKENS, 1), k = gaussian(HEAD * KV_HEADS * N_KV, 2), v = gaussian(HEAD * KV_HEADS * N_KV, 3);
/** Query heads of token 4, whose scores are spread over hundreds. */
const LOUD = 4;
for (let i = LOUD * ROW; i < (LOUD + 1) * ROW; i++) q[i] *= 60;

describe.each(RUNS)('%s, %i threads', (build, threads) => {
  let engine: Engine;
  beforeAll(async () => void (engine = await createEngine({ build, threads })));
  afterAll(() => engine.dispose());

  /** All tokens' results together, or of one token computed alone. */
  async function attend(type: TypeName, params: FlashAttnOptions, token?: number): Promise<Float32Array> {
    const [qs, ks, vs] = [engine.tensor('f32', [HEAD, HEADS, TOKENS], q), engine.tensor('f32', [HEAD, KV_HEADS, N_KV], k), engine.tensor('f32', [HEAD, KV_HEADS, N_KV], v)];
    const some = token === undefined ? qs : view(qs, [HEAD, HEADS, 1, 1], { offset: token * ROW * 4 });
    const cached = await Promise.all([ks, vs].map(async (x) => {
      if (type === 'f32') return x;
      const y = engine.tensor(type, x.ne);
      const plan = engine.plan(cpy(x, y));
      await engine.compute(plan);
      plan.dispose();
      return y;
    }));
    const [kc, vc] = cached.map((x) => permute(x, 0, 2, 1, 3));
    const y = flash_attn_ext(permute(some, 0, 2, 1, 3), kc, vc, params), plan = engine.plan(y);
    await engine.compute(plan);
    const result = engine.read(y) as Float32Array;
    plan.dispose();
    for (const t of new Set([qs, ks, vs, ...cached])) engine.free(t);
    return result;
  }

  it.each(['f16', 'f32', 'q8_0', 'q4_0'] as const)('%s: a unified maximum', async (type) => {
    const own = await attend(type, {}), unified = await attend(type, { unifiedMax: 1 }), far = await attend(type, { unifiedMax: 5000 });
    expect(far, 'out of range everywhere: the safe way').toEqual(own);
    own.forEach((x, i) => expect(Math.abs(unified[i] - x), `index ${i}: got ${unified[i]}, want ${x}`).toBeLessThanOrEqual(TOLERANCE[type] * Math.max(1, Math.abs(x))));
    expect(unified, 'in range the sums are scaled by phi').not.toEqual(own);
    const row = (x: Float32Array): Float32Array => x.subarray(LOUD * ROW, (LOUD + 1) * ROW);
    expect(row(unified), 'one token leaves the range').toEqual(row(own));
  });

  it.each<TypeName>(['f16', 'f32', 'q8_0', 'q4_0'])('%s: a token alone as among others', async (type) => {
    for (const params of [{}, { unifiedMax: 1 }, { logitSoftcap: 3 }]) {
      const all = await attend(type, params);
      for (const t of [0, LOUD, TOKENS - 1]) expect(await attend(type, params, t), `token ${t}, ${JSON.stringify(params)}`).toEqual(all.subarray(t * ROW, (t + 1) * ROW));
    }
  });
});
