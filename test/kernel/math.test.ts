/**
 * exp and related functions compared with f64: the errors stated in assembly/math.ts and
 * assembly/ops/attention_split.ts, through the graph's unary ops and the exported 2^x.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  abs,
  createEngine,
  exp,
  gelu,
  gelu_erf,
  gelu_quick,
  log,
  neg,
  sigmoid,
  silu,
  softplus,
  sqr,
  sqrt,
  step,
  tanh,
  xielu,
  type Engine,
  type Tensor,
} from 'quantlet/core';
import { BUILDS, instantiate } from './harness.ts';

const bits = new Uint32Array(1);
const value = new Float32Array(bits.buffer);
/** Unit in the last place of an f32 of this magnitude. */
function ulpOf(x: number): number {
  value[0] = Math.abs(x);
  return bits[0] < 0x00800000 ? 2 ** -149 : 2 ** ((bits[0] >>> 23) - 150);
}

/** Every step-th finite f32, in ascending order of bits, of both signs. */
function allFloats(step: number): Float32Array {
  const half = Math.floor(0x7f800000 / step);
  const u = new Uint32Array(2 * half);
  for (let i = 0; i < half; i++) {
    u[2 * i] = i * step;
    u[2 * i + 1] = (i * step + 0x80000000) >>> 0;
  }
  return new Float32Array(u.buffer);
}

const erf = (x: number): number => {
  // series near 0, continued fraction further out
  const a = Math.abs(x);
  if (a > 6) return Math.sign(x);
  if (a < 2.5) {
    let term = x;
    let sum = x;
    for (let n = 1; n < 80; n++) {
      term *= (-x * x) / n;
      sum += term / (2 * n + 1);
    }
    return (2 / Math.sqrt(Math.PI)) * sum;
  }
  let f = 0;
  for (let n = 120; n > 0; n--) f = n / 2 / (a + f);
  return Math.sign(x) * (1 - Math.exp(-a * a) / Math.sqrt(Math.PI) / (a + f));
};

/** Largest errors, in ulp for normal results, or absolute. */
const FUNCTIONS: readonly [string, (t: Tensor) => Tensor, (x: number) => number, { ulp?: number; absolute?: number }][] = [
  ['exp', exp, Math.exp, { ulp: 1 }],
  ['log', log, Math.log, { ulp: 1 }],
  ['sqrt', sqrt, Math.sqrt, { ulp: 0.5 }],
  ['tanh', tanh, Math.tanh, { ulp: 2 }],
  ['sigmoid', sigmoid, (x) => 1 / (1 + Math.exp(-x)), { ulp: 3 }],
  ['silu', silu, (x) => x / (1 + Math.exp(-x)), { ulp: 3 }],
  ['softplus', softplus, (x) => (x > 20 ? x : Math.log1p(Math.exp(x))), { ulp: 4 }],
  ['gelu_quick', gelu_quick, (x) => x / (1 + Math.exp(-1.702 * x)), { absolute: 4e-7 }],
  ['gelu', gelu, (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * x * (1 + 0.044715 * x * x))), { absolute: 5e-7 }],
  ['gelu_erf', gelu_erf, (x) => 0.5 * x * (1 + erf(x / Math.SQRT2)), { absolute: 5e-7 }],
];

/** Relative error: of two terms, one at most half the other, each rounded a few times. */
const XIELU_ERROR = 1e-6;

/**
 * Results near the smallest normal number may be 0: exp flushes subnormals, and silu's e^-x
 * overflows before x e^x is that small.
 */
const FLUSHED = 2 ** -119;

describe.each(BUILDS)('%s', (build) => {
  let engine: Engine;
  beforeAll(async () => void (engine = await createEngine({ build, threads: 1 })));
  afterAll(() => engine.dispose());

  it.each(FUNCTIONS)('%s', async (name, op, want, limit) => {
    // A prime step over all bit patterns, and a dense sweep where functions are not flat.
    const sweep = Float32Array.from({ length: 200_000 }, (_, i) => (i / 100_000 - 1) * 20);
    const xs = allFloats(20011);
    const all = new Float32Array(sweep.length + xs.length);
    all.set(sweep);
    all.set(xs, sweep.length);
    const x = engine.tensor('f32', [all.length], all);
    const y = op(x);
    const plan = engine.plan(y);
    await engine.compute(plan);
    const got = engine.read(y) as Float32Array;
    let worst = 0;
    let at = 0;
    for (let i = 0; i < all.length; i++) {
      const w = want(all[i]);
      const f = Math.fround(w);
      if (f === got[i] || (Number.isNaN(f) && Number.isNaN(got[i]))) continue;
      const error =
        Math.abs(w) < FLUSHED && Math.abs(got[i]) < FLUSHED
          ? 0
          : limit.ulp
            ? Math.abs(w - got[i]) / ulpOf(f)
            : Math.abs(w - got[i]) / Math.max(1, Math.abs(w));
      if (!(error <= worst)) [worst, at] = [Number.isNaN(error) ? Infinity : error, i];
    }
    if (process.env['SHOW_DIFFERENCES']) console.log(`${build} ${name}: ${worst} at ${all[at]}`);
    expect(worst, `${name}(${all[at]}) is ${got[at]}, want ${want(all[at])}`).toBeLessThanOrEqual(limit.ulp ?? limit.absolute!);
    plan.dispose();
    engine.free(x);
  });

  it('xielu near 0, where e^x - 1 - x in f32 would be only rounding error', async () => {
    const [alphaN, alphaP, beta, eps] = [0.3, -0.4, 0.25, -1e-6];
    const xs = Float32Array.from({ length: 400 }, (_, i) => -(10 ** (-9 * (i / 400)) * 0.3));
    const y = xielu(engine.tensor('f32', [xs.length], xs), alphaN, alphaP, beta, eps);
    await engine.compute(engine.plan(y));
    const a = beta + Math.log1p(Math.exp(alphaN));
    const got = engine.read(y) as Float32Array;
    const errors = got.map((v, i) => Math.abs(v / ((Math.expm1(Math.min(xs[i], eps)) - xs[i]) * a + beta * xs[i]) - 1));
    expect(Math.max(...errors)).toBeLessThan(XIELU_ERROR);
  });

  it('NaN, infinities and zeros', async () => {
    const x = engine.tensor('f32', [5], Float32Array.of(NaN, Infinity, -Infinity, 0, -0));
    const of = async (op: (t: Tensor) => Tensor): Promise<number[]> => {
      const y = op(x);
      await engine.compute(engine.plan(y));
      return [...(engine.read(y) as Float32Array)];
    };
    expect(await of(exp)).toEqual([NaN, Infinity, 0, 1, 1]);
    expect(await of(tanh)).toEqual([NaN, 1, -1, 0, 0]);
    expect(await of(sigmoid)).toEqual([NaN, 1, 0, 0.5, 0.5]);
    expect(await of(log)).toEqual([NaN, Infinity, NaN, -Infinity, -Infinity]);
    expect(await of(sqrt)).toEqual([NaN, Infinity, NaN, 0, -0]);
    expect(await of(sqr)).toEqual([NaN, Infinity, Infinity, 0, 0]);
    expect(await of(neg)).toEqual([NaN, -Infinity, Infinity, -0, 0]);
    expect(await of(abs)).toEqual([NaN, Infinity, Infinity, 0, 0]);
    expect(await of(step)).toEqual([0, 1, 0, 0, 0]);
  });

  it('2^x of attention: 2 ulp from -126 to 126, 1 exactly at 0, NaN stays', () => {
    const k = instantiate(build);
    const n = 40_000;
    k.arena.reset();
    const xs = Float32Array.from({ length: n }, (_, i) => (i / (n / 2) - 1) * 126);
    xs.set([0, -0, NaN, -1e30], 0);
    const x = k.arena.f32(xs);
    const y = k.arena.alloc(4 * n);
    k.call('exp2_row', x, y, n);
    k.arena.checkGuards();
    const got = k.arena.readF32(y, n);
    expect([...got.slice(0, 4)]).toEqual([1, 1, NaN, 2 ** -126]);
    for (let i = 4; i < n; i++) {
      const want = 2 ** xs[i];
      expect(Math.abs(got[i] - want) / ulpOf(want), `2^${xs[i]} is ${got[i]}, want ${want}`).toBeLessThanOrEqual(2);
    }
  });
});
