/**
 * MX formats for both operands: conversions of MXFP8 by the OCP specification, and products of MX
 * weights and MX activations, on all builds and numbers of threads.
 */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { cast, createEngine, get_rows, grouped_matmul, mul_mat, mul_mat_id, type Engine, type Tensor, type TypeName } from 'quantlet/core';
import { writeGGUF } from '../../src/gguf/write.ts';
import { TYPE, isMx, namesOf, rowSize, typesWith } from '../../src/type-traits.ts';
import { dequantize } from '../reference/blocks.ts';
import { randomBlocks } from '../golden/formats-rows.ts';
import { quantizeMx } from '../reference/mx.ts';
import { failure, RUNS } from '../support.ts';

const MXFP8 = ['mxfp8_e4m3', 'mxfp8_e5m2'] as const;
const MX = namesOf(typesWith((_, type) => isMx(type)));
/** f32 sums compared with f64, relative to the sum of magnitudes. */
const ROUNDING = 2 ** -20;

/** Any bits of f32, and numbers near the rounding points of elements. */
const numbers = fc.oneof(
  fc.float({ noNaN: true, noDefaultInfinity: true }),
  fc.tuple(fc.integer({ min: -600, max: 600 }), fc.integer({ min: -14, max: 2 })).map(([n, e]) => Math.fround(n * 2 ** e)),
  fc.constantFrom(0, -0, 2 ** -149, -(2 ** -126), 448, 464, 57344, 61440, 3.4028234663852886e38),
);

const X = Float32Array.from([
  ...fc.sample(fc.array(numbers, { minLength: 32, maxLength: 32 }), { seed: 27, numRuns: 150 }).flat(),
  ...Array.from({ length: 32 }, (_, i) => (i === 31 ? NaN : i)),
  ...Array.from({ length: 32 }, (_, i) => (i === 5 ? -Infinity : i)),
  ...new Array<number>(32).fill(-0),
]);
const QUANTISED = { mxfp8_e4m3: quantizeMx('mxfp8_e4m3', X), mxfp8_e5m2: quantizeMx('mxfp8_e5m2', X) };

describe.each(RUNS)('%s, %i threads', (build, threads) => {
  let engine: Engine;
  beforeAll(async () => void (engine = await createEngine({ build, threads })));
  afterAll(() => engine.dispose());

  const run = async <T extends string>(t: Tensor<T>, ...held: Tensor[]) => {
    const plan = engine.plan(t);
    await engine.compute(plan);
    const got = engine.read(t);
    plan.dispose();
    held.forEach((h) => engine.free(h));
    return got;
  };

  it.each(MXFP8)('%s: rows become the blocks of the specification, and a NaN or Inf the scale of its block NaN', async (type) => {
    const t = engine.tensor('f32', [32, X.length / 32], X);
    expect(await run(cast(t, type), t)).toEqual(QUANTISED[type]);
  });

  it.each(MXFP8)('%s: every element with every kind of scale, as f32', async (type) => {
    const scales = [0, 1, 100, 127, 246, 254, 255];
    const bytes = Uint8Array.from(
      scales.flatMap((e) => Array.from({ length: 8 }, (_, b) => [e, ...Array.from({ length: 32 }, (_, j) => 32 * b + j)]).flat()),
    );
    const t = engine.tensor(type, [256, scales.length], bytes);
    const want = Float32Array.from(dequantize[type](bytes, 256 * scales.length));
    expect(engine.read(t, { as: 'f32' })).toEqual(want);
    expect(await run(cast(t, 'f32'))).toEqual(want);
    expect(await run(get_rows(t, [3]), t)).toEqual(want.subarray(3 * 256, 4 * 256));
  });

  it('mul_mat and mul_mat_id of any by any', async () => {
    for (const a of MX) for (const b of MX) await products(a, b);
  });

  async function products(a: TypeName, b: TypeName): Promise<void> {
    const [k, n, matrices, used, tokens] = [96, 5, 3, 2, 7];
    const wBytes = randomBlocks(a, TYPE[a].typeSize, (k * n * matrices) / 32, 5);
    const xBytes = randomBlocks(b, TYPE[b].typeSize, (k * used * tokens) / 32, 6);
    const w = dequantize[a](wBytes, k * n * matrices);
    const x = dequantize[b](xBytes, k * used * tokens);
    const ids = Int32Array.from({ length: used * tokens }, (_, i) => (i * 5) % matrices);
    const weights = engine.tensor(a, [k, n, matrices], wBytes);
    const activations = engine.tensor(b, [k, used, tokens], xBytes);
    const check = (got: ArrayLike<number>, matrix: (column: number) => number): void => {
      for (let i = 0; i < got.length; i++) {
        const [r, c] = [i % n, Math.floor(i / n)];
        let [want, size] = [0, 0];
        for (let j = 0; j < k; j++) {
          const p = w[(matrix(c) * n + r) * k + j] * x[c * k + j];
          want += p;
          size += Math.abs(p);
        }
        expect(Math.abs(got[i] - want), `${a} x ${b}: row ${r}, column ${c}`).toBeLessThanOrEqual(ROUNDING * size);
      }
    };
    const which = engine.tensor('i32', [used, tokens], ids);
    check((await run(mul_mat_id(weights, activations, which), which)) as Float32Array, (c) => ids[c]);
    const first = engine.tensor(a, [k, n], wBytes.subarray(0, rowSize(TYPE[a], k) * n));
    const flat = engine.tensor(b, [k, used * tokens], xBytes);
    check((await run(mul_mat(first, flat), first, flat, weights, activations)) as Float32Array, () => 0);
  }
});

describe('refusals before a kernel runs', () => {
  it('MX activations of other weights and packed ones, types that no file has', async () => {
    const engine = await createEngine({ build: 'simd' });
    const activations = engine.tensor('mxfp8_e4m3', [32, 2]);
    const refused = (of: () => Tensor) => failure(() => Promise.resolve(engine.plan(of())));
    const q4_0 = engine.tensor('q4_0', [32, 16]);
    const message = expect.stringMatching(/no kernel for these types; expected activations of f32, f16, bf16 or q8_0/) as string;
    expect(await refused(() => mul_mat(q4_0, activations))).toMatchObject({ code: 'ERR_UNSUPPORTED_TYPE', message });
    expect(await refused(() => grouped_matmul(activations, q4_0, [2]))).toMatchObject({ code: 'ERR_UNSUPPORTED_TYPE', message });
    const mxfp4 = engine.tensor('mxfp4', [32, 16]);
    expect(await refused(() => mul_mat(mxfp4, engine.tensor('q8_0', [32, 1])))).toMatchObject({ code: 'ERR_UNSUPPORTED_TYPE' });
    await engine.pack(mxfp4);
    expect(await refused(() => mul_mat(mxfp4, activations))).toMatchObject({
      code: 'ERR_TENSOR_SHAPE',
      message: expect.stringMatching(/is packed; .*MX/) as string,
    });
    expect(await failure(() => Promise.resolve(engine.tensor('mxfp8_e4m3', [33])))).toMatchObject({ code: 'ERR_TENSOR_SHAPE' });
    for (const name of MXFP8) {
      const file = writeGGUF(new Map(), [{ name: 't', type: TYPE[name], ne: [32], data: new Uint8Array(33) }]);
      expect(await failure(() => engine.load(file, 't')), name).toMatchObject({
        code: expect.stringMatching(/^ERR_(GGUF|UNSUPPORTED)/) as string,
      });
    }
    await engine.dispose();
  });
});
