/**
 * grouped_matmul compared with scalar f64 on all builds and numbers of threads: random groups in
 * every kind of list, packed and plain weights, groups of columns and groups of k.
 */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  cont,
  createEngine,
  explain,
  grouped_matmul,
  type Engine,
  type GroupedMatmulOptions,
  type Tensor,
  type TypeName,
} from 'quantlet/core';
import { TYPE, isMx } from '../../src/type-traits.ts';
import { randomBlocks } from '../golden/formats-rows.ts';
import { gaussian, random } from '../kernel/harness.ts';
import { dequantize } from '../reference/blocks.ts';
import { RUNS } from '../support.ts';
import { computed } from './graph.ts';

/** f32 sums in another order. */
const F32_NMSE = 1e-12;
/** 8-bit activations: ggml's own limit for products of quantised weights. */
const QUANTISED_NMSE = 5e-4;

interface Spec {
  readonly type: TypeName;
  /** Type of the activations, if the weights are MX. */
  readonly act: TypeName;
  readonly split: 'm' | 'k';
  readonly list: 'offset' | 'length' | 'sparse';
  readonly lengths: readonly number[];
  /** Rows of a matrix: whole row blocks, or not. */
  readonly rows: number;
  readonly pack: boolean;
  readonly bias: boolean;
  /** Columns, or units of k, that belong to no group. */
  readonly left: number;
  readonly seed: number;
}

const spec: fc.Arbitrary<Spec> = fc.record({
  type: fc.constantFrom<TypeName>('f32', 'q4_0', 'q6_K', 'mxfp4', 'tq1_0', 'mxfp8_e4m3', 'mxfp8_e5m2'),
  act: fc.constantFrom<TypeName>('f32', 'mxfp4', 'mxfp8_e4m3', 'mxfp8_e5m2'),
  split: fc.constantFrom('m', 'k'),
  list: fc.constantFrom('offset', 'length', 'sparse'),
  lengths: fc.array(
    fc.oneof({ weight: 3, arbitrary: fc.integer({ min: 0, max: 6 }) }, { weight: 1, arbitrary: fc.integer({ min: 30, max: 90 }) }),
    {
      minLength: 1,
      maxLength: 6,
    },
  ),
  rows: fc.constantFrom(16, 48, 5),
  pack: fc.boolean(),
  bias: fc.boolean(),
  left: fc.integer({ min: 0, max: 3 }),
  seed: fc.integer({ min: 1, max: 1000 }),
});

/**
 * A list of the given kind for groups of these lengths. A sparse list names the non-empty groups,
 * in another order.
 */
function listOf(engine: Engine, kind: Spec['list'], lengths: readonly number[], named: readonly number[]): Tensor {
  if (kind === 'sparse') return engine.tensor('i32', [2, named.length], Int32Array.from(named.flatMap((g) => [g, lengths[g]])));
  let end = 0;
  return engine.tensor(
    'i32',
    [lengths.length],
    Int32Array.from(lengths, (n) => (kind === 'length' ? n : (end += n))),
  );
}

describe.each(RUNS)('%s, %i threads', (build, threads) => {
  let engine: Engine;
  beforeAll(async () => void (engine = await createEngine({ build, threads })));
  afterAll(() => engine.dispose());

  const run = (t: Tensor): Promise<Float32Array> => computed(engine, t);

  it('random groups', async () => {
    await fc.assert(
      fc.asyncProperty(spec, async ({ type, split, lengths: given, rows, pack: packs, bias: biased, left, seed, ...rest }) => {
        const byM = split === 'm';
        const list = byM ? rest.list : rest.list === 'sparse' ? 'length' : rest.list;
        const { blckSize, typeSize } = TYPE[type];
        // Groups of k have few whole blocks.
        const unit = byM ? 1 : blckSize;
        const lengths = given.map((n) => unit * (byM ? n : n % 4));
        const total = lengths.reduce((a, b) => a + b) + unit * left;
        const k = byM ? (blckSize > 32 ? blckSize : 96) : Math.max(total, unit);
        const m = byM ? Math.max(total, 1) : 3;
        const matrices = byM ? lengths.length : 1;
        const n = k * rows * matrices;
        const bytes = blckSize === 1 ? new Uint8Array(gaussian(n, seed).buffer) : randomBlocks(type, typeSize, n / blckSize, seed);
        const weights = type === 'f32' ? Float64Array.from(new Float32Array(bytes.buffer)) : dequantize[type](bytes, n);
        const act = isMx(TYPE[type]) && k % 32 === 0 ? rest.act : 'f32';
        const pack = packs && act === 'f32';
        const given32 = gaussian(k * m, seed + 1);
        const xBytes = act === 'f32' ? new Uint8Array(given32.buffer) : randomBlocks(act, TYPE[act].typeSize, (k * m) / 32, seed + 1);
        const x = act === 'f32' ? Float64Array.from(given32) : dequantize[act](xBytes, k * m);
        const bias = gaussian(rows * lengths.length, seed + 2);

        const next = random(seed);
        const named = lengths.flatMap((l, g) => (l > 0 ? [g] : [])).sort(() => next() - 0.5);
        const order = list === 'sparse' ? named : lengths.map((_, g) => g);
        if (order.length === 0) return;
        const held = [
          engine.tensor(act, [k, m], xBytes),
          engine.tensor(type, [k, rows, matrices], bytes),
          listOf(engine, list, lengths, named),
          engine.tensor('f32', [rows, lengths.length], bias),
        ];
        const [a, b, groups, biases] = held;
        if (pack && byM) await engine.pack(b);
        const got = await run(grouped_matmul(a, b, groups, { list, split, ...(biased && { bias: biases }) }));
        held.forEach((t) => engine.free(t));

        const want = new Float64Array(got.length).fill(byM ? NaN : 0);
        const dot = (r: number, e: number, c: number, from: number, to: number): number => {
          let sum = 0;
          for (let i = from; i < to; i++) sum += weights[(e * rows + r) * k + i] * x[c * k + i];
          return sum;
        };
        let at = 0;
        for (const g of order) {
          const end = at + lengths[g];
          for (let c = byM ? at : 0; c < (byM ? end : m); c++)
            for (let r = 0; r < rows; r++)
              want[((byM ? 0 : g * m) + c) * rows + r] =
                (byM ? dot(r, g, c, 0, k) : dot(r, 0, c, at, end)) + (biased ? bias[g * rows + r] : 0);
          at = end;
        }
        let diff = 0;
        let power = 0;
        want.forEach((w, i) => {
          if (Number.isNaN(w)) return void expect(got[i], `element ${i}, of no group`).toBeNaN();
          diff += (w - got[i]) ** 2;
          power += w ** 2;
        });
        expect(diff && diff / power).toBeLessThanOrEqual(type === 'f32' || act !== 'f32' ? F32_NMSE : QUANTISED_NMSE);
      }),
      { seed: 2027, numRuns: 28 },
    );
  });

  it('a thousand groups of one or two columns, a group of many, and only empty groups', async () => {
    const G = 1000;
    const b = engine.tensor(
      'f32',
      [4, 1, G],
      Float32Array.from({ length: 4 * G }, (_, i) => i >> 2),
    );
    const ones = engine.tensor('f32', [4, 1500], 1);
    const lengths = Int32Array.from({ length: G }, (_, g) => 1 + (g & 1));
    const got = await run(grouped_matmul(ones, b, lengths, { list: 'length' }));
    expect([...got]).toEqual([...lengths].flatMap((n, g) => Array.from({ length: n }, () => 4 * g)));
    const huge = await run(grouped_matmul(ones, b, [[3, 1500]], { list: 'sparse' }));
    expect([...new Set(huge)]).toEqual([12]);
    expect((await run(grouped_matmul(ones, b, new Int32Array(G)))).every(Number.isNaN)).toBe(true);
  });

  it('a wrong computed list is clamped', async () => {
    const b = engine.tensor(
      'f32',
      [32, 1, 3],
      Float32Array.from({ length: 96 }, (_, i) => 1 + (i >> 5)),
    );
    const ones = engine.tensor('f32', [32, 4], 1);
    const of = async (list: number[], options?: GroupedMatmulOptions): Promise<number[]> => {
      const ne = options?.list === 'sparse' ? [2, list.length / 2] : [list.length];
      return [...(await run(grouped_matmul(ones, b, cont(engine.tensor('i32', ne, list)), options)))];
    };
    expect(await of([2, 1, 9])).toEqual([32, 32, 96, 96]);
    expect(await of([-5, 1, 1 << 30], { list: 'length' })).toEqual([64, 96, 96, 96]);
    expect(await of([7, 1, -1, 1, 1, 1, 0, 1], { list: 'sparse' })).toEqual([NaN, NaN, 64, 32]);
    const one = engine.tensor('f32', [32, 1], 1);
    const k = cont(engine.tensor('i32', [3], [-(2 ** 31), 2 ** 31 - 1, 5]));
    expect([...(await run(grouped_matmul(ones, one, k, { split: 'k' })))]).toEqual([0, 0, 0, 0, 32, 32, 32, 32, 0, 0, 0, 0]);
  });
});

describe('bad lists and shapes', () => {
  let engine: Engine;
  beforeAll(async () => void (engine = await createEngine({ threads: 2 })));
  afterAll(() => engine.dispose());
  const zeros = (ne: readonly number[], type: TypeName = 'f32'): Tensor => engine.tensor(type, ne);

  it.each<[string, () => Tensor, RegExp]>([
    [
      'offsets that go down',
      () => grouped_matmul(zeros([4, 5]), zeros([4, 2, 3]), [1, 4, 3]),
      /element 2 ends the group at 3, before it begins at 4/,
    ],
    [
      'beyond the columns',
      () => grouped_matmul(zeros([4, 5]), zeros([4, 2, 3]), [1, 4, 6]),
      /element 2 ends the group at 6; expected at most 5, the number of columns/,
    ],
    [
      'a length below 0',
      () => grouped_matmul(zeros([4, 5]), zeros([4, 2, 2]), [1, -1], { list: 'length' }),
      /element 1 is -1; expected a length/,
    ],
    [
      'lengths that add up to more',
      () => grouped_matmul(zeros([4, 5]), zeros([4, 2, 2]), [3, 3], { list: 'length' }),
      /element 1 ends the group at 6/,
    ],
    [
      'a group twice',
      () =>
        grouped_matmul(
          zeros([4, 5]),
          zeros([4, 2, 3]),
          [
            [1, 2],
            [1, 1],
          ],
          { list: 'sparse' },
        ),
      /pair 1 names group 1 again/,
    ],
    [
      'a group that there is not',
      () => grouped_matmul(zeros([4, 5]), zeros([4, 2, 3]), [[3, 2]], { list: 'sparse' }),
      /pair 0 names group 3; expected 0 to 2/,
    ],
    [
      'half a block',
      () => grouped_matmul(zeros([64, 5]), zeros([64, 2], 'q4_0'), [16, 64], { split: 'k' }),
      /at 16, within a block; expected a multiple of 32/,
    ],
    [
      'beyond k',
      () => grouped_matmul(zeros([64, 5]), zeros([64, 2]), [16, 65], { split: 'k' }),
      /ends the group at 65; expected at most 64, the number of elements of a row/,
    ],
  ])('%s', async (_, make, says) => {
    const plan = engine.plan(make());
    await expect(engine.compute(plan)).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT', message: expect.stringMatching(says) });
  });

  it.each<[string, () => Tensor, RegExp]>([
    ['a list of other groups than b has', () => grouped_matmul(zeros([4, 5]), zeros([4, 2, 3]), [1, 5]), /an element for each of 3 groups/],
    [
      'a sparse list of three',
      () => grouped_matmul(zeros([4, 5]), zeros([4, 2, 3]), [[1, 2, 3]], { list: 'sparse' }),
      /expected a sparse list of \[2, number of groups\]/,
    ],
    ['a sparse list of k', () => grouped_matmul(zeros([4, 5]), zeros([4, 2]), [[0, 2]], { list: 'sparse', split: 'k' }), /divides columns/],
    [
      'matrices where k is divided',
      () => grouped_matmul(zeros([4, 5]), zeros([4, 2, 3]), [1, 2, 3], { split: 'k' }),
      /expected one matrix b/,
    ],
    [
      'a bias of other rows',
      () => grouped_matmul(zeros([4, 5]), zeros([4, 2, 3]), [1, 2, 3], { bias: zeros([3, 3]) }),
      /expected a bias of \[2, 3\]/,
    ],
    ['another width', () => grouped_matmul(zeros([4, 5]), zeros([5, 2, 3]), [1, 2, 3]), /ne0 is 4 and 5; expected a matrix a/],
  ])('%s', (_, make, says) =>
    expect(make).toThrow(expect.objectContaining({ code: 'ERR_TENSOR_SHAPE', message: expect.stringMatching(says) })),
  );

  it('explain() prints groups, tiles and tail of a list that the graph brings along', async () => {
    const b = zeros([32, 48, 4], 'q8_0');
    expect(await engine.pack(b)).toBe(true);
    const say = (list: Parameters<typeof grouped_matmul>[2]): string => explain(engine.plan(grouped_matmul(zeros([32, 200]), b, list)));
    expect(say([100, 100, 103, 200])).toContain('by 3 of 4 matrices, in 5 groups of 3 to 64 columns, 15 tiles of 16 rows, a tail of 1');
    expect(say(engine.tensor('i32', [4], [0, 0, 0, 70]))).toContain(
      'by 1 of 4 matrices, 130 by none, in 5 groups of 2 to 64 columns, 15 tiles',
    );
    expect(say(cont(engine.tensor('i32', [4])))).toContain('each by one of 4 matrices, in groups of up to 64');
    expect(say([9, 5, 6, 7]), 'a wrong list').toContain('each by one of 4 matrices');
  });
});
