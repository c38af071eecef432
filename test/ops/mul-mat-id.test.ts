/**
 * Each column of mul_mat_id has the bits of mul_mat by its matrix alone: for every type, packed and
 * plain, with any other tokens and any number of threads. (mul_mat is compared with f64 in
 * matrix.test.ts, mul_mat_id with native ggml in golden.test.ts.)
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { add_id, cont, createEngine, explain, mul_mat, mul_mat_id, view, type Engine, type Tensor, type TypeName } from 'quantlet/core';
import { TYPE, namesOf, typesWith } from '../../src/type-traits.ts';
import { randomBlocks } from '../golden/formats-rows.ts';
import { gaussian } from '../kernel/harness.ts';
import { RUNS } from '../support.ts';
import { computed } from './graph.ts';

const MATRICES = 5;
/** Number of matrices that have columns. */
const NAMED = 4;
const USED = 2;
const TOKENS = 45;
/**
 * Columns by matrix: 64, 11, 8 and 1. The last matrix has none, and one token uses a matrix twice.
 */
const IDS = Int32Array.from({ length: USED * TOKENS }, (_, i) => (i % 11 === 3 ? 2 : i % 8 === 1 ? 1 : i === 6 ? 3 : 0));

const TYPES: readonly TypeName[] = ['f32', 'f16', 'bf16', ...namesOf(typesWith((k, { blckSize }) => blckSize > 1 && k.vecDotType))];
/** A multiple of 32 but not of 64, if the type allows it. */
const widthOf = (type: TypeName): number => (TYPE[type].blckSize > 32 ? 2 * TYPE[type].blckSize : 352);

function bytesOf(type: TypeName, n: number): Uint8Array {
  const { typeSize, blckSize } = TYPE[type];
  if (type === 'f32') return new Uint8Array(gaussian(n, 5).buffer);
  // Any f16 or bf16 below 2, of either sign.
  if (blckSize === 1) return new Uint8Array(Uint16Array.from(gaussian(n, 6), (v) => (v * 2 ** 14) & 0xbfff).buffer);
  return randomBlocks(type, typeSize, n / blckSize, 7);
}

/** First index at which two results have different bits, or -1. */
const differs = (a: Float32Array, b: Float32Array): number =>
  a.length === b.length ? a.findIndex((v, i) => !Object.is(v, b[i])) : a.length;

/** Results of the first run of each build: any number of threads must give the same bits. */
const first = new Map<string, Float32Array>();

describe.each(RUNS)('%s, %i threads', (build, threads) => {
  let engine: Engine;
  beforeAll(async () => void (engine = await createEngine({ build, threads })));
  afterAll(() => engine.dispose());

  const run = (t: Tensor): Promise<Float32Array> => computed(engine, t);

  it.each(TYPES)('%s', async (type) => {
    const k = widthOf(type);
    // 5 rows are less than a row block: plain products.
    const isPacked = TYPE[type].kernels!.packed !== undefined;
    for (const rows of !isPacked ? [5] : type === 'q4_0' ? [32, 5] : [32]) {
      const bytes = bytesOf(type, k * rows * MATRICES);
      const as = engine.tensor(type, [k, rows, MATRICES], bytes);
      const alone = Array.from({ length: MATRICES }, (_, e) =>
        engine.tensor(type, [k, rows], bytes.subarray((e * bytes.length) / MATRICES, ((e + 1) * bytes.length) / MATRICES)),
      );
      const packed = await engine.pack(as);
      expect(packed, 'whole row blocks of a type with packed loops').toBe(rows === 32);
      if (packed) for (const w of alone) await engine.pack(w);
      const ids = engine.tensor('i32', [USED, TOKENS], IDS);
      for (const width of [1, USED]) {
        const x = engine.tensor('f32', [k, width, TOKENS], gaussian(k * width * TOKENS, 8));
        const y = mul_mat_id(as, x, ids);
        const plan = engine.plan(y);
        expect(explain(plan)).toMatch(packed ? /QUANTIZE_GROUPS[^]*MUL_MAT_PACKED/ : /GROUP_IDS[^]*MUL_MAT /);
        plan.dispose();
        const got = await run(y);
        const each = await Promise.all(alone.slice(0, NAMED).map((w) => run(mul_mat(w, view(x, [k, width * TOKENS])))));
        const want = new Float32Array(got.length);
        IDS.forEach((e, i) => {
          const column = width === 1 ? Math.floor(i / USED) : i;
          want.set(each[e].subarray(column * rows, (column + 1) * rows), i * rows);
        });
        expect(differs(got, want), 'the first element that differs').toBe(-1);
        // One token alone, and together with others.
        for (const [t, n] of [
          [7, 1],
          [20, 3],
        ]) {
          const part = mul_mat_id(
            as,
            view(x, [k, width, n], { offset: t * width * k * 4 }),
            view(ids, [USED, n], { offset: t * USED * 4 }),
          );
          expect(differs(await run(part), got.subarray(t * USED * rows, (t + n) * USED * rows))).toBe(-1);
        }
        const known = `${build} ${type} ${rows} ${width}`;
        expect(differs(got, first.get(known) ?? got)).toBe(-1);
        first.set(known, got);
        engine.free(x);
      }
      for (const t of [as, ids, ...alone]) engine.free(t);
    }
  });

  it('an invalid id computed by the graph: NaN in that column only', async () => {
    const as = engine.tensor('f32', [32, 16, 2], gaussian(32 * 16 * 2, 1));
    const x = engine.tensor('f32', [32, 1, 3], gaussian(96, 2));
    const bias = engine.tensor('f32', [16, 2], gaussian(32, 3));
    const right = engine.tensor('i32', [1, 3], [1, 0, 1]);
    for (const pack of [false, true]) {
      if (pack) expect(await engine.pack(as)).toBe(true);
      const want = await run(add_id(mul_mat_id(as, x, right), bias, right));
      for (const wrong of [-1, 2, 1 << 30, -(2 ** 31)]) {
        const ids = cont(engine.tensor('i32', [1, 3], [1, wrong, 1]));
        const products = await run(mul_mat_id(as, x, ids));
        const got = await run(add_id(mul_mat_id(as, x, right), bias, ids));
        expect([...products.subarray(16, 32), ...got.subarray(16, 32)].every(Number.isNaN)).toBe(true);
        expect([got.subarray(0, 16), got.subarray(32)]).toEqual([want.subarray(0, 16), want.subarray(32)]);
        expect(Number.isNaN(products[15]) || Number.isNaN(products[32])).toBe(false);
      }
    }
  });
});

describe('wrong operands', () => {
  let engine: Engine;
  beforeAll(async () => void (engine = await createEngine({ threads: 1 })));
  afterAll(() => engine.dispose());
  const zeros = (type: TypeName, ne: readonly number[]): Tensor => engine.tensor(type, ne);

  it.each<[string, string, () => unknown, RegExp]>([
    [
      'ERR_TENSOR_SHAPE',
      'another width',
      () => mul_mat_id(zeros('f32', [4, 2, 3]), zeros('f32', [5, 1, 2]), [[0], [1]]),
      /ne0 is 4 and 5; expected the same/,
    ],
    [
      'ERR_TENSOR_SHAPE',
      'ids of other tokens',
      () => mul_mat_id(zeros('f32', [4, 2, 3]), zeros('f32', [4, 1, 2]), [[0]]),
      /expected ids of \[used, 2\]/,
    ],
    [
      'ERR_TENSOR_SHAPE',
      'three activations for two ids',
      () => mul_mat_id(zeros('f32', [4, 2, 3]), zeros('f32', [4, 3, 1]), [[0, 1]]),
      /expected ne1 of the activations to divide ne0/,
    ],
    [
      'ERR_TENSOR_SHAPE',
      'four dimensions',
      () => mul_mat_id(zeros('f32', [4, 2, 3, 2]), zeros('f32', [4, 1, 1]), [[0]]),
      /three dimensions/,
    ],
    [
      'ERR_UNSUPPORTED_TYPE',
      'ids of f32',
      () => mul_mat_id(zeros('f32', [4, 2, 3]), zeros('f32', [4, 1, 1]), zeros('f32', [1, 1])),
      /i32 ids/,
    ],
    [
      'ERR_TENSOR_SHAPE',
      'a bias for other rows',
      () => add_id(zeros('f32', [4, 2, 3]), zeros('f32', [3, 5]), zeros('i32', [2, 3])),
      /biases as long/,
    ],
    [
      'ERR_TENSOR_SHAPE',
      'an id too few',
      () => add_id(zeros('f32', [4, 2, 3]), zeros('f32', [4, 5]), zeros('i32', [1, 3])),
      /an id for each row/,
    ],
  ])('%s: %s', (code, _, make, says) => expect(make).toThrow(expect.objectContaining({ code, message: expect.stringMatching(says) })));

  it('an id outside that the host can read', async () => {
    const as = zeros('f32', [4, 2, 3]);
    const plan = engine.plan(mul_mat_id(as, zeros('f32', [4, 1, 1]), [[3]]), add_id(zeros('f32', [2, 1, 1]), zeros('f32', [2, 3]), [[-1]]));
    await expect(engine.compute(plan)).rejects.toMatchObject({
      code: 'ERR_INVALID_ARGUMENT',
      message: expect.stringMatching(/mul_mat_id: .*element 0 is 3; expected 0 to 2/),
    });
  });

  it('gate and up share the sorted ids and quantised columns, and no barrier lies between them', async () => {
    const [gate, up] = [zeros('q4_0', [32, 16, 4]), zeros('q4_0', [32, 16, 4])];
    expect([await engine.pack(gate), await engine.pack(up)]).toEqual([true, true]);
    const [x, ids] = [zeros('f32', [32, 1, 3]), zeros('i32', [2, 3])];
    const said = explain(engine.plan(mul_mat_id(gate, x, ids), mul_mat_id(up, x, ids)));
    expect(said.split('\n').map((line) => /^(meet|    ) (\w+)/.exec(line)!.slice(1).join(' ').trim())).toEqual([
      'GROUP_IDS',
      'meet QUANTIZE_GROUPS',
      'meet MUL_MAT_PACKED',
      'MUL_MAT_PACKED',
    ]);
  });

  it('packed matrices are read by mul_mat_id alone', async () => {
    const as = zeros('q8_0', [32, 16, 2]);
    expect(await engine.pack(as)).toBe(true);
    expect(() => engine.plan(mul_mat(as, zeros('f32', [32, 1, 2])))).toThrow(/is packed; only mul_mat and get_rows read it/);
    expect(() => engine.read(as)).toThrow(/is packed/);
  });
});
