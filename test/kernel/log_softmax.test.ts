/** The kernels of perplexity compared with sums in f64, on every build. */
import { describe, expect, it } from 'vitest';
import { BUILDS, gaussian, instantiate, random } from './harness.ts';

const SIZES = [1, 2, 3, 4, 5, 63, 64, 67, 1000, 4099];
/** exp_f32x4 is exact to 1 ulp, and 16 f32 additions per lane stay below 2^-20. */
const SUM_TOLERANCE = 2e-6;
/** For a sum of terms that each have f32 rounding. */
const KLD_TOLERANCE = 2e-5;

describe.each(BUILDS)('log_softmax on %s', (build) => {
  const k = instantiate(build);
  const doubles = (p: number, n: number): Float64Array => new Float64Array(k.arena.readBytes(p, 8 * n).buffer);
  const sumExp = (x: Float32Array, offset = 0): Float64Array => {
    k.arena.reset();
    const p = k.arena.f32(x, offset);
    const out = k.arena.alloc(32);
    k.call('sum_exp', p, x.length, out);
    k.arena.checkGuards();
    return doubles(out, 4);
  };

  it.each(SIZES)('sum_exp of %i', (n) => {
    const seed = 100 + n;
    const x = gaussian(n, seed, 4);
    const [max, min, sum, top] = sumExp(x, n % 4);
    expect([max, min, top], `seed ${seed}`).toEqual([Math.max(...x), Math.min(...x), x.indexOf(Math.max(...x))]);
    const want = x.reduce((s, v) => s + Math.exp(v - max), 0);
    expect(Math.abs(sum - want) / want, `seed ${seed}: got ${sum}, want ${want}`).toBeLessThan(SUM_TOLERANCE);
  });

  it('the first of equal logits is the largest; -Inf adds 0; NaN makes the sum NaN', () => {
    expect([...sumExp(Float32Array.of(3, 3, 3, 3, 3))]).toEqual([3, 3, 5, 0]);
    expect([...sumExp(Float32Array.of(-Infinity, 2, -Infinity, -Infinity, -Infinity))]).toEqual([2, -Infinity, 1, 1]);
    for (const i of [0, 1, 6]) expect(sumExp(Float32Array.from({ length: 7 }, (_, j) => (j === i ? NaN : 1)))[2], `NaN at ${i}`).toBeNaN();
  });

  it.each(SIZES)('pack_log_probs of %i', (n) => {
    const seed = 200 + n;
    const x = gaussian(n, seed, 4);
    const max = Math.max(...x);
    const floor = Math.fround(Math.max(Math.min(...x), max - 16));
    const inverse = Math.fround(1 / Math.max(Math.fround(Math.fround(max - floor) / 65535), 1e-9));
    k.arena.reset();
    const p = k.arena.f32(x, 1);
    const y = k.arena.alloc(2 * n, 2);
    k.call('pack_log_probs', p, n, y, floor, inverse);
    k.arena.checkGuards();
    const got = new Uint16Array(k.arena.readBytes(y, 2 * n).buffer);
    for (const [i, v] of x.entries()) {
      const steps = Math.fround(inverse * Math.fround(v - floor));
      const below = Math.floor(steps);
      const rest = steps - below;
      const want = v > floor ? Math.min(65535, rest > 0.5 || (rest === 0.5 && below % 2 === 1) ? below + 1 : below) : 0;
      expect(got[i], `seed ${seed}, index ${i}`).toBe(want);
    }
  });

  it.each(SIZES)('kl_divergence of %i', (n) => {
    const seed = 300 + n;
    const r = random(seed);
    const x = gaussian(n, seed, 2);
    const scale = Math.fround(20 / 65535);
    const floor = Math.fround(-20 - Math.log(n));
    const base = Uint16Array.from({ length: n }, () => 65535 * r());
    k.arena.reset();
    const p = k.arena.f32(x, 3);
    const b = k.arena.bytes(new Uint8Array(base.buffer), 2);
    const out = k.arena.alloc(8);
    const got = k.call('kl_divergence', p, n, 1.5, b, scale, floor, out);
    k.arena.checkGuards();
    let want = 0;
    let size = 0;
    for (const [i, q] of base.entries()) {
      const log = Math.fround(Math.fround(scale * q) + floor);
      const term = log > -16 ? Math.exp(log) * (log - x[i] + 1.5) : 0;
      want += term;
      size += Math.abs(term);
    }
    expect(Math.abs(got - want), `seed ${seed}: got ${got}, want ${want}`).toBeLessThanOrEqual(KLD_TOLERANCE * size);
    expect(doubles(out, 1)[0]).toBe(base.indexOf(Math.max(...base)));
  });
});
