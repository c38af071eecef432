/**
 * Rope at negative positions and at positions outside its table, on all builds and numbers of
 * threads. Positions that the host can read are refused; computed ones give rows of NaN.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { cont, createEngine, rope_ext, type Engine, type RopeExtOptions, type Tensor } from 'quantlet/core';
import { gaussian } from '../kernel/harness.ts';
import { RUNS } from '../support.ts';

const [HEAD, HEADS, TOKENS] = [14, 2, 6];

describe.each(RUNS)('%s, %i threads', (name, threads) => {
  let engine: Engine;
  beforeAll(async () => void (engine = await createEngine({ build: name, threads })));
  afterAll(() => engine.dispose());

  const values = gaussian(HEAD * HEADS * TOKENS, 41);
  const run = async (t: Tensor): Promise<Float32Array> => {
    await engine.compute(engine.plan(t));
    return Float32Array.from(engine.read(t) as Float32Array);
  };
  const states = (): Tensor => engine.tensor('f32', [HEAD, HEADS, TOKENS], values);
  const positions = (...list: number[]): Tensor => engine.tensor('i32', [list.length], Int32Array.from(list));

  it.each<[string, RopeExtOptions]>([
    ['adjacent', {}],
    ['neox', { mode: 'neox' }],
    ['neox, 10 of 14 dims', { mode: 'neox', nDims: 10 }],
  ])('%s: -p undoes the rotation of p', async (_, options) => {
    const there = [0, 1, 7, 63, 30, 12];
    const p = { ...options, nCtx: 64 };
    const turned = await run(rope_ext(states(), positions(...there), p));
    const back = await run(rope_ext(rope_ext(states(), positions(...there), p), positions(...there.map((v) => -v)), p));
    values.forEach((v, i) => expect(Math.abs(back[i] - v), `index ${i}`).toBeLessThan(1e-6 * (1 + Math.abs(v))));
    expect(turned.slice(0, HEAD * HEADS), 'position 0 turns nothing').toEqual(values.slice(0, HEAD * HEADS));
    expect(turned.slice(HEAD * HEADS)).not.toEqual(values.slice(HEAD * HEADS));
  });

  it.each([-64, 64, -2147483648])('position %i of a table of 64', async (outside) => {
    const list = [-63, 63, outside, 5, outside, -5];
    const ok = await run(rope_ext(states(), positions(-63, 63, 0, 5, 0, -5), { nCtx: 64 }));
    await expect(engine.compute(engine.plan(rope_ext(states(), positions(...list), { nCtx: 64 })))).rejects.toMatchObject({
      code: 'ERR_INVALID_ARGUMENT',
      message: expect.stringMatching(new RegExp(`rope: .*element 2 is ${outside}; expected -63 to 63`)) as string,
    });
    const got = await run(rope_ext(states(), cont(positions(...list)), { nCtx: 64 }));
    got.forEach((v, i) => expect(v, `index ${i}`).toBe(list[Math.floor(i / (HEAD * HEADS))] === outside ? NaN : ok[i]));
  });
});
