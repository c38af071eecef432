/**
 * flash_attn_ext with a maximum per KV split (FlashDecoding) and with a unified one
 * (FlashDecoding++). A token has the same bits alone and in a batch.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  cpy,
  createEngine,
  flash_attn_ext,
  permute,
  view,
  type Engine,
  type FlashAttnOptions,
  type Tensor,
  type TypeName,
} from '../../src/entry/core-node.ts';
import { attention, FLASH_TYPES, KV_TYPES, kv_store } from '../../src/graph/attention-ops.ts';
import { gaussian } from '../kernel/harness.ts';
import { RUNS } from '../support.ts';

/** Two KV splits, the second one short. 9 tokens are computed as a prompt, one as in generation. */
const HEAD = 32;
const HEADS = 4;
const KV_HEADS = 2;
const N_KV = 300;
const TOKENS = 9;
const ROW = HEAD * HEADS;
/**
 * Relative to f32: the same sums, scaled in two ways. With block caches, a softmax weight is
 * rounded to 16 bits relative to the split's largest and may round to its neighbour: 2^-16 of
 * values up to 4.
 */
const TOLERANCE = { f32: 2e-6, f16: 2e-6, q8_0: 6e-5, q4_0: 6e-5 } as const;
/** f32 sums of up to 300 terms of size 1, compared with f64. */
const TOLERANCE_SUM = 1e-5;
const q = gaussian(ROW * TOKENS, 1);
const k = gaussian(HEAD * KV_HEADS * N_KV, 2);
const v = gaussian(HEAD * KV_HEADS * N_KV, 3);
/** The query heads of token 4 have scores that spread over hundreds. */
const LOUD = 4;
for (let i = LOUD * ROW; i < (LOUD + 1) * ROW; i++) q[i] *= 60;

describe.each(RUNS)('%s, %i threads', (build, threads) => {
  let engine: Engine;
  beforeAll(async () => void (engine = await createEngine({ build, threads })));
  afterAll(() => engine.dispose());

  /** Results of all tokens together, or of one token computed alone. */
  async function attend(type: TypeName, params: FlashAttnOptions, token?: number): Promise<Float32Array> {
    const [qs, ks, vs] = [
      engine.tensor('f32', [HEAD, HEADS, TOKENS], q),
      engine.tensor('f32', [HEAD, KV_HEADS, N_KV], k),
      engine.tensor('f32', [HEAD, KV_HEADS, N_KV], v),
    ];
    const some = token === undefined ? qs : view(qs, [HEAD, HEADS, 1, 1], { offset: token * ROW * 4 });
    const cached = await Promise.all(
      [ks, vs].map(async (x) => {
        if (type === 'f32') return x;
        const y = engine.tensor(type, x.ne);
        const plan = engine.plan(cpy(x, y));
        await engine.compute(plan);
        plan.dispose();
        return y;
      }),
    );
    const [kc, vc] = cached.map((x) => permute(x, 0, 2, 1, 3));
    const y = flash_attn_ext(permute(some, 0, 2, 1, 3), kc, vc, params);
    const plan = engine.plan(y);
    await engine.compute(plan);
    const result = engine.read(y) as Float32Array;
    plan.dispose();
    for (const t of new Set([qs, ks, vs, ...cached])) engine.free(t);
    return result;
  }

  it.each(['f16', 'f32', 'q8_0', 'q4_0'] as const)('%s: a unified maximum', async (type) => {
    const own = await attend(type, {});
    const unified = await attend(type, { unifiedMax: 1 });
    const far = await attend(type, { unifiedMax: 5000 });
    expect(far, 'out of range everywhere: the safe way').toEqual(own);
    own.forEach((x, i) =>
      expect(Math.abs(unified[i] - x), `index ${i}: got ${unified[i]}, want ${x}`).toBeLessThanOrEqual(
        TOLERANCE[type] * Math.max(1, Math.abs(x)),
      ),
    );
    expect(unified, 'in range the sums are scaled by phi').not.toEqual(own);
    const row = (x: Float32Array): Float32Array => x.subarray(LOUD * ROW, (LOUD + 1) * ROW);
    expect(row(unified), 'one token leaves the range').toEqual(row(own));
  });

  it.each<TypeName>(['f16', 'f32', 'q8_0', 'q4_0'])('%s: a token alone as among others', async (type) => {
    for (const params of [{}, { unifiedMax: 1 }, { logitSoftcap: 3 }, { sinks: [-9, 0, 1, 40] }, { unifiedMax: 1, sinks: [1, 2, 3, 4] }]) {
      const all = await attend(type, params);
      for (const t of [0, LOUD, TOKENS - 1])
        expect(await attend(type, params, t), `token ${t}, ${JSON.stringify(params)}`).toEqual(all.subarray(t * ROW, (t + 1) * ROW));
    }
  });

  /** A window in both directions over two KV splits, for many tokens at once and for one. */
  it.each([0, 3, 150])('up to %i keys on each side', async (reach) => {
    const places = [0, 1, 120, 254, 255, 256, 257, 290, 299];
    const owned: Tensor[] = [];
    const own = <T extends Tensor>(t: T): T => (owned.push(t), t);
    const ints = (values: readonly number[]) => own(engine.tensor('i32', [values.length], Int32Array.from(values)));
    const caches = ([k, v] as const).map((x, i) => {
      const given = own(engine.tensor('f32', [HEAD, KV_HEADS, N_KV], x));
      return kv_store(own(engine.tensor('f32', [HEAD, 512, KV_HEADS])) as never, given as never, undefined, i === 0 ? 'k' : 'v');
    });
    const over = async (tokens: readonly number[]): Promise<Float32Array> => {
      const qs = own(
        engine.tensor(
          'f32',
          [HEAD, HEADS, tokens.length],
          tokens.flatMap((t) => [...q.subarray(t * ROW, (t + 1) * ROW)]),
        ),
      );
      const [first, visible, pos] = [tokens.map(() => 0), tokens.map(() => N_KV), tokens.map((t) => places[t])].map(ints);
      const y = attention(qs as never, caches[0], caches[1], first as never, visible as never, { scale: 0.2, reach, pos: pos as never });
      const plan = engine.plan(y as never);
      await engine.compute(plan);
      const result = engine.read(y as never) as Float32Array;
      plan.dispose();
      return result;
    };
    const got = await over(places.map((_, t) => t));
    for (const t of [0, 4, 8]) expect(await over([t]), `token ${t} alone`).toEqual(got.subarray(t * ROW, (t + 1) * ROW));
    for (const [t, place] of places.entries())
      for (let h = 0; h < HEADS; h++) {
        const seen = Array.from({ length: N_KV }, (_, i) => i).filter((i) => Math.abs(i - place) <= reach);
        const row = (x: Float32Array, i: number) => x.subarray((i * KV_HEADS + (h >> 1)) * HEAD, (i * KV_HEADS + (h >> 1) + 1) * HEAD);
        const query = q.subarray(t * ROW + h * HEAD, t * ROW + (h + 1) * HEAD);
        const scores = seen.map((i) => 0.2 * row(k, i).reduce((sum, x, d) => sum + x * query[d], 0));
        const top = Math.max(...scores);
        const sum = scores.reduce((total, s) => total + Math.exp(s - top), 0);
        for (let d = 0; d < HEAD; d++) {
          const want = seen.reduce((total, i, j) => total + (Math.exp(scores[j] - top) / sum) * row(v, i)[d], 0);
          expect(Math.abs(got[t * ROW + h * HEAD + d] - want), `token ${t}, head ${h}`).toBeLessThanOrEqual(TOLERANCE_SUM);
        }
      }
    for (const t of owned) engine.free(t as never);
  });

  /**
   * Cache types stored as rows, which attention widens one part at a time, with 48 rows of queries
   * and with one.
   */
  it.each(KV_TYPES.filter((type) => !(FLASH_TYPES as readonly string[]).includes(type)))(
    '%s: over a cache of rows as over their f32 values, bit for bit',
    async (type) => {
      const CELLS = 512;
      const ints = (values: number[]) => engine.tensor('i32', [TOKENS], Int32Array.from(values));
      const qs = engine.tensor('f32', [HEAD, HEADS, TOKENS], q);
      const first = ints(new Array<number>(TOKENS).fill(0));
      const visible = ints(Array.from({ length: TOKENS }, (_, t) => [1, 17, 256, 257, 40, 299, 300, 3, N_KV][t]));
      const owned = [qs, first, visible];
      const made = <T extends TypeName>(of: T, ne: readonly number[], data?: Float32Array) => {
        const t = data ? engine.tensor(of, ne, data as never) : engine.tensor(of, ne);
        owned.push(t as never);
        return t;
      };
      const run = async (node: Parameters<Engine['plan']>[0]): Promise<void> => {
        const plan = engine.plan(node);
        await engine.compute(plan);
        plan.dispose();
      };
      const rounded = async (x: Float32Array) => {
        const ne = [HEAD, KV_HEADS, N_KV];
        const [given, kept, back] = [made('f32', ne, x), made(type, ne), made('f32', ne)];
        await run(cpy(given, kept));
        await run(cpy(kept, back));
        return { given, back };
      };
      const over = async (of: TypeName, ks: Tensor, vs: Tensor): Promise<Float32Array> => {
        const cache = (x: Tensor, order: 'k' | 'v') => kv_store(made(of, [HEAD, CELLS, KV_HEADS]) as never, x as never, undefined, order);
        const y = attention(qs as never, cache(ks, 'k'), cache(vs, 'v'), first as never, visible as never, { scale: 0.2, window: 200 });
        const plan = engine.plan(y as never);
        await engine.compute(plan);
        const result = engine.read(y as never) as Float32Array;
        plan.dispose();
        return result;
      };
      const [ks, vs] = [await rounded(k), await rounded(v)];
      const got = await over(type, ks.given, vs.given);
      expect(got).toEqual(await over('f32', ks.back, vs.back));
      expect(got, 'the type rounds').not.toEqual(await over('f32', ks.given, vs.given));
      for (const t of owned) engine.free(t);
    },
  );
});
