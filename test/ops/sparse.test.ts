/**
 * Products that compute only selected rows, compared with f64 and, bit by bit, with mul_mat: every
 * type by rows, plain and packed, any fraction of rows, any number of tokens, buckets and
 * thresholds. Random graphs (random.test.ts) mix them with all other ops.
 */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  axpy,
  axpy_head,
  cont,
  createEngine,
  explain,
  mul_mat,
  mul_mat_sparse,
  view,
  type Engine,
  type MulMatSparseOptions,
  type Tensor,
  type TypeName,
} from 'quantlet/core';
import { TYPE } from '../../src/type-traits.ts';
import { randomBlocks } from '../golden/formats-rows.ts';
import { gaussian, random } from '../kernel/harness.ts';
import { dequantize } from '../reference/blocks.ts';
import { roundBrain, decode } from '../reference/golden-ops.ts';
import { RUNS } from '../support.ts';
import { computed } from './graph.ts';

/** f32 sums in another order. */
const F32_NMSE = 1e-12;
/** 8-bit activations: ggml's own limit for products of quantised weights. */
const QUANTISED_NMSE = 5e-4;

const TYPES: readonly TypeName[] = ['f32', 'f16', 'bf16', 'q8_0', 'q4_0', 'q2_K', 'q3_K', 'q4_K', 'q5_K', 'q6_K'];

interface Spec {
  readonly type: TypeName;
  readonly rows: number;
  readonly tokens: number;
  /** Fraction of rows that are selected. */
  readonly density: number;
  /** Rows of the result that belong to no bucket; undefined without a lookup. */
  readonly outside: number | undefined;
  readonly beyond: number;
  readonly threshold: number | 'relu' | undefined;
  readonly nan: boolean;
  readonly seed: number;
}

const spec: fc.Arbitrary<Spec> = fc.record({
  type: fc.constantFrom(...TYPES),
  rows: fc.constantFrom(1, 5, 16, 33, 70),
  tokens: fc.constantFrom(1, 1, 2, 5),
  density: fc.constantFrom(0, 0.1, 0.5, 0.9, 1),
  outside: fc.option(fc.integer({ min: 0, max: 20 }), { nil: undefined }),
  beyond: fc.integer({ min: 0, max: 3 }),
  threshold: fc.constantFrom<Spec['threshold']>(undefined, 'relu', 0, 0.5, -Infinity, Infinity),
  nan: fc.boolean(),
  seed: fc.integer({ min: 1, max: 1000 }),
});

function weightsOf(type: TypeName, n: number, seed: number): { bytes: Uint8Array; numbers: Float64Array } {
  const { blckSize, typeSize } = TYPE[type];
  if (blckSize > 1) {
    const bytes = randomBlocks(type, typeSize, n / blckSize, seed);
    return { bytes, numbers: dequantize[type](bytes, n) };
  }
  const x = gaussian(n, seed);
  // Any f16 below 2.
  const bytes =
    type === 'f32'
      ? new Uint8Array(x.buffer)
      : new Uint8Array(
          Uint16Array.from(x, (v) =>
            type === 'f16' ? (v * 2 ** 14) & 0xbfff : new Uint32Array(Float32Array.of(roundBrain(v)).buffer)[0] >>> 16,
          ).buffer,
        );
  return { bytes, numbers: decode(type, bytes) };
}

/**
 * idx of n rows for each token. A rounded fraction of the rows is selected by values of 1 and
 * above; other rows get 0 or less, or NaN.
 */
function idxOf({ tokens, density, threshold, nan, seed }: Spec, n: number): Float32Array {
  const next = random(seed);
  const idx = new Float32Array(n * tokens);
  for (let t = 0; t < tokens; t++) {
    const order = Array.from({ length: n }, (_, i) => i).sort(() => next() - 0.5);
    order.forEach((r, j) => {
      const on = j < Math.round(density * n);
      // A NaN passes a ReLU, but is not >= a threshold.
      const none = nan && next() < 0.5;
      if (on) idx[t * n + r] = none && threshold === 'relu' ? NaN : 1 + next();
      else idx[t * n + r] = threshold === undefined ? 0 : none && threshold !== 'relu' ? NaN : -next();
    });
  }
  return idx;
}
const counts = (v: number, threshold: Spec['threshold']): boolean =>
  threshold === undefined ? v !== 0 : threshold === 'relu' ? !(v <= 0) : v >= threshold;
const counting = (threshold: Spec['threshold']): MulMatSparseOptions => (threshold === 'relu' ? { relu: true } : { threshold });

/** Results of the first run of each build: any number of threads must give the same bits. */
const first = new Map<string, Float32Array>();

describe.each(RUNS)('%s, %i threads', (build, threads) => {
  let engine: Engine;
  beforeAll(async () => void (engine = await createEngine({ build, threads })));
  afterAll(() => engine.dispose());

  const run = (t: Tensor): Promise<Float32Array> => computed(engine, t);
  const same = (key: string, got: Float32Array): void => {
    const name = `${build.replace('-threads', '')} ${key}`;
    expect(got.findIndex((v, i) => !Object.is(v, (first.get(name) ?? got)[i]))).toBe(-1);
    first.set(name, got);
  };

  it('selected rows have the bits of mul_mat, the others are 0', async () => {
    await fc.assert(
      fc.asyncProperty(spec, async (s) => {
        const { type, rows, tokens, outside, beyond, threshold, seed } = s;
        const k = Math.max(64, TYPE[type].blckSize);
        const { bytes, numbers } = weightsOf(type, k * rows, seed);
        const x = gaussian(k * tokens, seed + 1);
        const n = rows + (outside ?? 0);
        const places = Array.from({ length: n }, (_, i) => i);
        const next = random(seed + 2);
        if (outside !== undefined) places.sort(() => next() - 0.5);
        places.length = rows;
        const idx = idxOf(s, n);
        const held = [engine.tensor(type, [k, rows], bytes), engine.tensor(type, [k, rows], bytes), engine.tensor('f32', [k, tokens], x)];
        const [plain, packed, xs] = held;
        expect(await engine.pack(packed)).toBe(true);
        const all = await run(mul_mat(packed, xs));
        let diff = 0;
        let power = 0;
        const want = new Float32Array((n + beyond) * tokens);
        for (let t = 0; t < tokens; t++)
          for (let r = 0; r < rows; r++) {
            if (!counts(idx[t * n + places[r]], threshold)) continue;
            const f32 = all[t * rows + r];
            want[t * (n + beyond) + places[r]] = f32;
            let f64 = 0;
            for (let i = 0; i < k; i++) {
              const term = numbers[r * k + i] * x[t * k + i];
              f64 += term;
              // The error is relative to the terms, because a sum may be close to 0.
              power += term ** 2;
            }
            diff += (f32 - f64) ** 2;
          }
        expect(diff && diff / power).toBeLessThanOrEqual(TYPE[type].blckSize > 1 ? QUANTISED_NMSE : F32_NMSE);
        const options: MulMatSparseOptions = {
          ...counting(threshold),
          result_ne0: n + beyond,
          ...(outside !== undefined && { row_lookup: places }),
        };
        const idxs = engine.tensor('f32', [n, tokens], idx);
        const times = engine.tensor('f32', [n, tokens], gaussian(n * tokens, seed + 3));
        const factors = await run(cont(times));
        const timesWant = want.map((v, i) => v * (factors[Math.floor(i / (n + beyond)) * n + (i % (n + beyond))] ?? 0) || 0);
        for (const [name, w, dense] of [
          ['plain', plain, undefined],
          ['packed', packed, undefined],
          ['either', plain, packed],
        ] as const) {
          const got = await run(mul_mat_sparse(w, xs, idxs, { ...options, dense }));
          expect(
            got.findIndex((v, i) => !Object.is(v, want[i])),
            `${name}: the first that differs`,
          ).toBe(-1);
          const gated = await run(mul_mat_sparse(w, xs, idxs, { ...options, dense, times }));
          expect(
            gated.findIndex((v, i) => v !== timesWant[i]),
            `${name} with times: the first that differs`,
          ).toBe(-1);
        }
        [...held, idxs, times].forEach((t) => engine.free(t));
      }),
      { seed: 2030, numRuns: 16 },
    );
  });

  it('axpy: f32 sums in order of the selected rows; for floats the bits of mul_mat', async () => {
    await fc.assert(
      fc.asyncProperty(spec, fc.constantFrom(1, 31, 64, 1100), async (s, width) => {
        const { type, rows, tokens, outside, threshold, seed } = s;
        const { blckSize } = TYPE[type];
        const w = Math.max(1, Math.round(width / blckSize)) * blckSize;
        const { bytes, numbers } = weightsOf(type, w * rows, seed);
        const n = rows + (outside ?? 0);
        const places = Array.from({ length: n }, (_, i) => i);
        places.length = rows;
        if (outside) places.reverse();
        const x = gaussian(n * tokens, seed + 1).map((v, i) => (i % 7 === 3 ? 0 : v));
        const idx = idxOf(s, n);
        const held = [engine.tensor(type, [w, rows], bytes), engine.tensor('f32', [n, tokens], x), engine.tensor('f32', [n, tokens], idx)];
        const [weights, xs, idxs] = held;
        const got = await run(axpy(weights, xs, idxs, { ...counting(threshold), ...(outside !== undefined && { row_lookup: places }) }));
        const taken = x.map((v, i) => (counts(idx[i], threshold) ? v : 0));
        let diff = 0;
        let power = 0;
        got.forEach((v, i) => {
          const t = Math.floor(i / w);
          let sum = 0;
          places.forEach((p, r) => (sum += numbers[r * w + (i % w)] * taken[t * n + p]));
          diff += (v - sum) ** 2;
          power += sum ** 2;
        });
        expect(diff && diff / power).toBeLessThanOrEqual(F32_NMSE);
        same(JSON.stringify([s, width]), got);
        if (blckSize === 1 && outside === undefined) {
          const size = TYPE[type].typeSize;
          const turned = new Uint8Array(bytes.length);
          for (let r = 0; r < rows; r++)
            for (let c = 0; c < w; c++) turned.set(bytes.subarray((r * w + c) * size, (r * w + c + 1) * size), (c * rows + r) * size);
          const dense = engine.tensor(type, [rows, w], turned);
          await engine.pack(dense);
          const products = await run(mul_mat(dense, engine.tensor('f32', [rows, tokens], taken)));
          expect(got.findIndex((v, i) => v !== products[i])).toBe(-1);
          // `dense` is used for columns with many selected rows.
          const zeros = engine.tensor('f32', [n, tokens], taken);
          const either = await run(axpy(weights, zeros, zeros, { dense }));
          expect(either.findIndex((v, i) => v !== products[i])).toBe(-1);
          [dense, zeros].forEach((t) => engine.free(t));
        }
        held.forEach((t) => engine.free(t));
      }),
      { seed: 2031, numRuns: 16 },
    );
  });

  it('selected heads, and dense products for columns that are mostly not 0', async () => {
    const w = engine.tensor('q4_0', [96, 64], weightsOf('q4_0', 96 * 64, 5).bytes);
    const x = engine.tensor('f32', [64, 2], gaussian(128, 6));
    const heads = Float32Array.of(1, -1, 0.5, NaN, -1, -1, 2, 0);
    const rows = Float32Array.from({ length: 128 }, (_, i) => heads[i >> 4]);
    expect(await run(axpy_head(w, x, engine.tensor('f32', [4, 2], heads), { threshold: 0 }))).toEqual(
      await run(axpy(w, x, engine.tensor('f32', [64, 2], rows), { threshold: 0 })),
    );
    const turned = engine.tensor('q8_0', [64, 96], weightsOf('q8_0', 96 * 64, 7).bytes);
    await engine.pack(turned);
    // The first column selects all its rows, the second few.
    const mixed = engine.tensor(
      'f32',
      [64, 2],
      gaussian(128, 8).map((v, i) => (i >= 64 && i % 9 ? 0 : v)),
    );
    const got = await run(axpy(w, mixed, mixed, { dense: turned }));
    expect(got.subarray(0, 96)).toEqual((await run(mul_mat(turned, mixed))).subarray(0, 96));
    expect(got.subarray(96)).toEqual((await run(axpy(w, mixed, mixed))).subarray(96));
  });

  it('NaN among activations and scales, and wrong lookups', async () => {
    const bytes = weightsOf('q4_0', 64 * 40, 9).bytes;
    // Row 7 has an infinite scale: its products are NaN, and rows packed with it are unaffected.
    bytes.set([0, 0x7c], 7 * 36);
    const w = engine.tensor('q4_0', [64, 40], bytes);
    const x = engine.tensor('f32', [64, 2], gaussian(128, 10));
    const ones = engine.tensor('f32', [40, 2], 1);
    const got = await run(mul_mat_sparse(w, x, ones));
    expect([...got.keys()].filter((i) => Number.isNaN(got[i]))).toEqual([7, 47]);
    const nan = engine.tensor(
      'f32',
      [64, 2],
      Float32Array.from({ length: 128 }, (_, i) => (i === 70 ? NaN : 1)),
    );
    const none = await run(mul_mat_sparse(w, nan, ones));
    expect([none[0], none[40]].map(Number.isNaN)).toEqual([false, true]);
    const sums = await run(axpy(engine.tensor('f32', [3, 64], 1), nan, nan));
    expect([...sums]).toEqual([64, 64, 64, NaN, NaN, NaN]);
    // If two rows share an index, the last one wins. A row with an invalid index belongs nowhere.
    const lookup = engine.tensor(
      'i32',
      [40],
      Int32Array.from({ length: 40 }, (_, i) => [5, 5, -1, 50, 2 ** 30][i] ?? i),
    );
    const bucket = await run(mul_mat_sparse(w, x, engine.tensor('f32', [50, 2], 1), { threshold: 1, row_lookup: lookup }));
    const plain = await run(mul_mat_sparse(w, x, ones));
    expect(bucket[5]).toBe(plain[5]);
    expect([...bucket.subarray(0, 5), ...bucket.subarray(40, 55)].every((v) => v === 0)).toBe(true);
  });

  it('rows that begin in one another are read as if they lay apart', async () => {
    const w = view(engine.tensor('bf16', [17 + 35], weightsOf('bf16', 17 + 35, 11).bytes), [17, 36], { nb: [2] });
    const x = engine.tensor('f32', [17, 1], gaussian(17, 12));
    const ones = engine.tensor('f32', [36, 1], 1);
    expect(await run(mul_mat_sparse(w, x, ones))).toEqual(await run(mul_mat_sparse(cont(w), x, ones)));
    // The stride of a single row is never used.
    const row = view(w, [17, 1], { nb: [0] });
    expect(await run(mul_mat_sparse(row, x, view(ones, [1, 1])))).toEqual(await run(mul_mat_sparse(cont(row), x, view(ones, [1, 1]))));
  });
});

describe('operands and words', () => {
  let engine: Engine;
  beforeAll(async () => void (engine = await createEngine({ threads: 2 })));
  afterAll(() => engine.dispose());
  const zeros = (ne: readonly number[], type: TypeName = 'f32'): Tensor => engine.tensor(type, ne);

  it.each<[string, string, () => unknown, RegExp]>([
    ['ERR_TENSOR_SHAPE', 'another width', () => mul_mat_sparse(zeros([4, 3]), zeros([5, 1]), [0, 0, 0]), /ne0 of x is 5; expected 4/],
    ['ERR_TENSOR_SHAPE', 'idx of other rows', () => mul_mat_sparse(zeros([4, 3]), zeros([4, 1]), [0, 0]), /an element for each of 3 rows/],
    [
      'ERR_TENSOR_SHAPE',
      'idx of other tokens',
      () => mul_mat_sparse(zeros([4, 3]), zeros([4, 2]), [0, 0, 0]),
      /expected idx with 2 columns/,
    ],
    [
      'ERR_TENSOR_SHAPE',
      'a short result',
      () => mul_mat_sparse(zeros([4, 3]), zeros([4]), [0, 0, 0], { result_ne0: 2 }),
      /at least the 3 rows/,
    ],
    ['ERR_TENSOR_SHAPE', 'a short lookup', () => axpy(zeros([4, 3]), [0, 0, 0], [0, 0, 0], { row_lookup: [0, 1] }), /each of 3 rows/],
    [
      'ERR_TENSOR_SHAPE',
      'heads that do not divide',
      () => axpy_head(zeros([4, 3]), [0, 0, 0], [0, 0]),
      /heads is 2; expected a divisor of the 3 rows/,
    ],
    [
      'ERR_TENSOR_SHAPE',
      'dense weights beside a threshold',
      () => axpy(zeros([4, 3]), [0, 0, 0], [0, 0, 0], { threshold: 1, dense: zeros([3, 4]) }),
      /expected x as idx/,
    ],
    [
      'ERR_TENSOR_SHAPE',
      'short factors',
      () => mul_mat_sparse(zeros([4, 3]), zeros([4]), [0, 0, 0], { times: [1, 1] }),
      /as many elements as idx/,
    ],
    [
      'ERR_INVALID_ARGUMENT',
      'a threshold beside relu',
      () => axpy(zeros([4, 3]), [0, 0, 0], [0, 0, 0], { threshold: 1, relu: true }),
      /expected one of them/,
    ],
    [
      'ERR_UNSUPPORTED_TYPE',
      'a type without packed products',
      () => mul_mat_sparse(zeros([32, 3], 'q8_1'), zeros([32]), [0, 0, 0]),
      /weights of f32/,
    ],
    ['ERR_INVALID_ARGUMENT', 'a threshold of NaN', () => axpy(zeros([4, 3]), [0, 0, 0], [0, 0, 0], { threshold: NaN }), /threshold is NaN/],
    [
      'ERR_TENSOR_SHAPE',
      'dense weights that are plain',
      () => engine.plan(mul_mat_sparse(zeros([4, 3]), zeros([4]), [0, 0, 0], { dense: zeros([4, 3]) })),
      /expected packed weights for dense/,
    ],
  ])('%s: %s', (code, _, make, says) => expect(make).toThrow(expect.objectContaining({ code, message: expect.stringMatching(says) })));

  it('explain() names the selected rows, the loop, and the share from which packed rows are used; no record precedes the product', async () => {
    const [w, packed] = [zeros([64, 32], 'q4_0'), zeros([64, 32], 'q4_0')];
    await engine.pack(packed);
    const [x, idx] = [zeros([64, 1]), zeros([32, 1])];
    const pair = (a: Tensor, b: Tensor): string =>
      explain(engine.plan(mul_mat_sparse(a, x, idx, { threshold: 0.5 }), mul_mat_sparse(b, x, idx, { threshold: 0.5, dense: packed })));
    const said = pair(w, packed);
    expect(said).toContain('rows_8x1, single rows of elements of at least 0.5)');
    expect(said).toMatch(/row blocks of 16 of elements of at least 0\.5; packed rows where more than \d+ of 16 count/);
    expect(explain(engine.plan(mul_mat_sparse(zeros([64, 32]), x, idx)))).toContain('single rows, packed 16 at a time, of elements');
    expect(explain(engine.plan(axpy(w, idx, idx)))).toMatch(/^[^\n]*AXPY \(q4_0 rows of elements that are not 0 in f32\)/);
    const lookup = engine.tensor('i32', [32]);
    const buckets = engine.plan(mul_mat_sparse(w, x, idx, { row_lookup: lookup }), axpy(w, idx, idx, { row_lookup: lookup }));
    expect(explain(buckets).match(/INVERSE_LOOKUP/g), 'once for both').toHaveLength(1);
  });
});
