/**
 * Strides and aliases that a kernel or fusion once ignored, and the table that every record is
 * checked against (src/graph/strides.ts).
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  add,
  add_inplace,
  argmax,
  argsort,
  cont,
  cpy,
  createEngine,
  flash_attn_ext,
  get_rows,
  mean_of_rows,
  mul_mat,
  permute,
  rms_norm,
  rope_ext,
  set_rows,
  top_k,
  transpose,
  view,
  type Engine,
  type Tensor,
} from 'quantlet/core';
import { COPY } from '../../src/graph/layout.ts';
import { mustFit } from '../../src/graph/strides.ts';
import { temporary } from '../../src/graph/record.ts';
import { leaf } from '../../src/graph/tensor.ts';
import { transpose as transposed } from '../../src/graph/views.ts';
import { TYPE } from '../../src/type-traits.ts';
import { gaussian } from '../kernel/harness.ts';
import { RUNS, failure } from '../support.ts';

const ints = (...values: number[]): Int32Array => Int32Array.from(values);

describe.each(RUNS)('%s, %i threads', (build, threads) => {
  let engine: Engine;
  beforeAll(async () => void (engine = await createEngine({ build, threads })));
  afterAll(() => engine.dispose());

  const f32 = (ne: number[], seed = 1): Tensor =>
    engine.tensor(
      'f32',
      ne,
      gaussian(
        ne.reduce((a, b) => a * b),
        seed,
      ),
    );
  /** Computes a result and returns its numbers. */
  async function run(t: Tensor): Promise<number[]> {
    const plan = engine.plan(t);
    await engine.compute(plan);
    const got = Array.from(engine.read(t) as Float32Array);
    plan.dispose();
    return got;
  }

  it('set_rows into a transposed tensor', async () => {
    for (const type of ['f32', 'f16', 'bf16'] as const) {
      const a = engine.tensor(type, [4, 3]);
      const rows = engine.tensor('f32', [3, 2], Float32Array.of(1, 2, 3, 4, 5, 6));
      const got = await run(cpy(set_rows(transpose(a), rows, engine.tensor('i32', [2], ints(3, 1))), engine.tensor('f32', [3, 4])));
      expect(got, type).toEqual([0, 0, 0, 4, 5, 6, 0, 0, 0, 1, 2, 3]);
      expect(await run(cpy(a, engine.tensor('f32', [4, 3]))), type).toEqual([0, 4, 0, 1, 0, 5, 0, 2, 0, 6, 0, 3]);
    }
  });

  it('set_rows: of rows with one index the last stays, in every type', async () => {
    const n = 257;
    const ids = ints(...Array.from({ length: n }, (_, i) => (i * 7) % 5));
    const rows = f32([64, n]);
    for (const type of ['f32', 'f16', 'q8_0', 'q4_0'] as const) {
      const many = engine.tensor(type, [64, 6]);
      const few = engine.tensor(type, [64, 6]);
      const last = [0, 1, 2, 3, 4].map((id) => ids.lastIndexOf(id));
      const plan = engine.plan(set_rows(many, rows, engine.tensor('i32', [n], ids)));
      const kept = get_rows(rows, engine.tensor('i32', [5], ints(...last)));
      await run(set_rows(few, kept, engine.tensor('i32', [5], ints(0, 1, 2, 3, 4))));
      for (let i = 0; i < 20; i++) {
        await engine.compute(plan);
        expect(engine.read(many), `${type}, run ${i}`).toEqual(engine.read(few));
      }
    }
  });

  it('set_rows leaves out i64 ids beyond 32 bits', async () => {
    const ids = cont(engine.tensor('i64', [2], BigInt64Array.of((1n << 32n) + 1n, 2n)));
    expect(await run(set_rows(engine.tensor('f32', [1, 3]), engine.tensor('f32', [1, 2], Float32Array.of(7, 8)), ids))).toEqual([0, 0, 8]);
  });

  it('flash_attn_ext with a mask that is permuted, transposed or has gaps, for batches and heads', async () => {
    const [nKv, tokens, heads, batches] = [19, 6, 2, 2];
    const q = f32([16, tokens, heads, batches], 2);
    const k = f32([16, nKv, heads, batches], 3);
    const v = f32([16, nKv, heads, batches], 4);
    for (const type of ['f32', 'f16'] as const) {
      const plain = engine.tensor(type, [nKv, tokens, heads, batches]);
      await run(cpy(f32([nKv, tokens, heads, batches], 5), plain));
      const want = await run(flash_attn_ext(q, k, v, { mask: plain }));
      const masks = [
        transpose(cont(transpose(plain))),
        permute(cont(permute(plain, 1, 2, 3, 0)), 3, 0, 1, 2),
        permute(cont(permute(plain, 0, 2, 1, 3)), 0, 2, 1, 3),
      ];
      for (const [i, mask] of masks.entries()) expect(await run(flash_attn_ext(q, k, v, { mask })), `${type}, mask ${i}`).toEqual(want);
      const whole = engine.tensor(type, [tokens, nKv, heads, batches]);
      await run(cpy(transpose(plain), whole));
      expect(await run(flash_attn_ext(q, k, v, { mask: transpose(whole) })), `${type}, a leaf`).toEqual(want);
    }
  });

  it('mean_of_rows with strided rows and counts', async () => {
    const a = f32([5, 9]);
    const from = engine.tensor('i32', [2, 3], ints(0, 9, 4, 9, 7, 9));
    const count = engine.tensor('i32', [3, 3], ints(8, 8, 2, 8, 8, 3, 8, 8, 1));
    const every = (t: Tensor, at: number): Tensor => permute(view(t, [1, 3], { nb: [t.nb[1]], offset: at * 4 }), 1, 0, 2, 3);
    expect(await run(mean_of_rows(a, every(from, 0), every(count, 2)))).toEqual(
      await run(mean_of_rows(a, engine.tensor('i32', [3], ints(0, 4, 7)), engine.tensor('i32', [3], ints(2, 3, 1)))),
    );
  });

  it('a norm whose weight is a view of the sum before it', async () => {
    const [n, rows] = [64, 8];
    const x = f32([n, rows], 6);
    const y = f32([n, rows], 7);
    const sum = add(x, y);
    const weight = engine.tensor('f32', [n], Float32Array.from(await run(view(add(x, y), [n], { offset: 4 * n }))));
    expect(await run(rms_norm(sum, { weight: view(sum, [n], { offset: 4 * n }), eps: 1e-5 }))).toEqual(
      await run(rms_norm(add(x, y), { weight, eps: 1e-5 })),
    );
  });

  it('packed weights by activations of f16, bf16 and q8_0, transposed and permuted', async () => {
    const [k, n, m, batches] = [64, 19, 5, 2];
    const x = f32([k, m, batches], 9);
    for (const type of ['q4_0', 'q8_0', 'f16', 'f32'] as const) {
      const w = engine.tensor(type, [k, n]);
      await run(cpy(f32([k, n], 10), w));
      expect(await engine.pack(w)).toBe(true);
      const want = await run(mul_mat(w, x));
      expect(await run(mul_mat(w, transpose(cont(transpose(x))))), `${type}, transposed`).toEqual(want);
      expect(await run(mul_mat(w, permute(cont(permute(x, 1, 2, 0, 3)), 2, 0, 1, 3))), `${type}, permuted`).toEqual(want);
      for (const to of type === 'q4_0' || type === 'q8_0' ? (['f16', 'bf16', 'q8_0'] as const) : (['f16', 'bf16'] as const)) {
        const short = cpy(x, engine.tensor(to, x.ne));
        expect(await run(mul_mat(w, short)), `${type} by ${to}`).toEqual(await run(mul_mat(w, cpy(short, engine.tensor('f32', x.ne)))));
      }
    }
  });

  it('in place and copied onto itself: sources that overlap the destination', async () => {
    const n = 1000;
    const x = gaussian(n + 1, 8);
    const a = engine.tensor('f32', [n + 1], x);
    const low = view(a, [n]);
    const high = view(a, [n], { offset: 4 });
    await run(cpy(low, high));
    expect(engine.read(a)).toEqual(Float32Array.from(x, (_, i) => x[Math.max(0, i - 1)]));
    engine.write(a, x);
    await run(add_inplace(high, low));
    expect(engine.read(a)).toEqual(Float32Array.from(x, (v, i) => (i > 0 ? v + x[i - 1] : v)));
    engine.write(a, x);
    await run(add_inplace(low, view(a, [1], { offset: 400 })));
    expect(engine.read(a), 'an element of its own, repeated').toEqual(Float32Array.from(x, (v, i) => (i < n ? v + x[100] : v)));
    const m = engine.tensor('f32', [30, 30], x.subarray(0, 900));
    await run(cpy(transpose(m), m));
    expect(engine.read(m)).toEqual(Float32Array.from({ length: 900 }, (_, i) => x[(i % 30) * 30 + Math.floor(i / 30)]));
    const rows = engine.tensor('f32', [30, 30], x.subarray(0, 900));
    const reversed = engine.tensor('i32', [30], ints(...Array.from({ length: 30 }, (_, i) => 29 - i)));
    await run(set_rows(rows, rows, reversed));
    expect(engine.read(rows)).toEqual(Float32Array.from({ length: 900 }, (_, i) => x[(29 - Math.floor(i / 30)) * 30 + (i % 30)]));
  });

  it('computed indices out of range give NaN: get_rows and rope_ext; those of a leaf are refused, unless the graph writes it', async () => {
    const outside = ints(1, -8, 8, 1 << 30);
    const ids = engine.tensor('i32', [4], outside);
    const table = f32([6, 8]);
    const x = f32([6, 2, 4]);
    for (const rows of [get_rows(table, cont(ids)), rope_ext(x, cont(ids), { nCtx: 8, nDims: 4 })]) {
      const got = await run(rows);
      const row = got.length / 4;
      got.forEach((v, i) => expect(Number.isNaN(v), `index ${i}`).toBe(i >= row));
    }
    for (const rows of [get_rows(table, ids), rope_ext(x, ids, { nCtx: 8 })])
      expect((await failure(run(rows))).code).toBe('ERR_INVALID_ARGUMENT');
    const stale = engine.tensor('i32', [4], outside);
    const written = cpy(engine.tensor('i32', [4], ints(0, 1, 2, 3)), stale);
    expect(await run(get_rows(table, written))).toEqual(await run(view(cont(table), [6, 4])));
  });

  it('rows of flash_attn_ext without visible keys are 0, next to rows with some', async () => {
    const nKv = 300;
    const masked = new Set([1, 4]);
    for (const type of ['f32', 'f16', 'q8_0', 'q4_0'] as const)
      for (const tokens of [2, 9])
        for (const unifiedMax of [undefined, 1]) {
          const mask = engine.tensor(
            'f32',
            [nKv, tokens],
            Float32Array.from({ length: nKv * tokens }, (_, i) => (masked.has(Math.floor(i / nKv)) || i % 3 === 0 ? -Infinity : 0)),
          );
          const kv = [3, 4].map((seed) => engine.tensor(type, [32, nKv, 2]) && f32([32, nKv, 2], seed));
          const stored = kv.map((x) => cpy(x, engine.tensor(type, x.ne)));
          const got = await run(flash_attn_ext(f32([32, tokens, 4], 2), stored[0], stored[1], { mask, unifiedMax }));
          const row = 32 * 4;
          for (let t = 0; t < tokens; t++) {
            const some = got.slice(t * row, (t + 1) * row);
            if (masked.has(t))
              expect(
                some.every((v) => Object.is(v, 0)),
                `${type}, token ${t} of ${tokens}: ${some.slice(0, 3).join(' ')}`,
              ).toBe(true);
            else
              expect(
                some.every((v) => Math.abs(v) > 0 && Math.abs(v) < 10),
                `${type}, token ${t} of ${tokens}: ${some.slice(0, 3).join(' ')}`,
              ).toBe(true);
          }
          for (const t of [...stored, ...kv]) engine.free(t.viewOf ?? t);
        }
  });

  it('argsort, top_k and argmax: the first of equals, NaN after all numbers', async () => {
    const x = engine.tensor('f32', [8], Float32Array.of(NaN, 1, -Infinity, 3, NaN, 3, 0, -0));
    expect(await run(argsort(x))).toEqual([3, 5, 1, 6, 7, 2, 0, 4]);
    expect(await run(argsort(x, { order: 'asc' }))).toEqual([2, 6, 7, 1, 3, 5, 0, 4]);
    for (let k = 1; k <= 8; k++) expect(await run(top_k(x, k)), `k = ${k}`).toEqual([3, 5, 1, 6, 7, 2, 0, 4].slice(0, k));
    expect(await run(argmax(x))).toEqual([3]);
    const all = engine.tensor('f32', [3, 2], Float32Array.of(NaN, NaN, NaN, NaN, -Infinity, -Infinity));
    expect(await run(argmax(all))).toEqual([0, 1]);
    expect(await run(argsort(all))).toEqual([0, 1, 2, 1, 2, 0]);
  });

  it('a tensor whose elements lie in one place can be read, not written', async () => {
    const a = f32([4, 4]);
    const twice = view(a, [4, 2], { nb: [0] });
    const sliding = view(a, [4, 2], { nb: [8] });
    const b = f32([4, 2]);
    expect(await run(add(twice, sliding))).toHaveLength(8);
    for (const [op, make] of [
      ['cpy', () => cpy(b, twice)],
      ['cpy', () => cpy(b, sliding)],
      ['add_inplace', () => add_inplace(sliding, b)],
      ['set_rows', () => set_rows(twice, b, engine.tensor('i32', [2], ints(0, 1)))],
    ] as const) {
      const { code, message } = await failure(async () => run(make()));
      expect(`${code} ${message}`).toMatch(new RegExp(`ERR_TENSOR_SHAPE ${op}: .*whose elements do not overlap`));
    }
  });
});

describe('no record breaks the table of operands', () => {
  const x = leaf('x', TYPE.f32, [4, 4, 1, 1]);
  const y = temporary('y', TYPE.f32, x);
  const kept = { params: [], src: [x] };
  it.each([
    ['strided rows', () => mustFit({ ...kept, code: 'UNARY', dst: y, src: [transposed(x)] })],
    ['a strided result', () => mustFit({ ...kept, code: 'UNARY', dst: transposed(y) })],
    ['a cast of a strided result', () => mustFit({ ...kept, code: 'BINARY', dst: transposed(y), src: [x, x], casts: [y] })],
    ['a source that the kernel does not have', () => mustFit({ ...kept, code: 'UNARY', dst: y, src: [x, x] })],
    ['a source in the result', () => mustFit({ ...kept, code: 'UNARY', dst: x })],
    [
      'a transposed source in the result',
      () => mustFit({ ...kept, code: 'CPY', dst: x, src: [transposed(x)], params: [COPY.elements, 4] }),
    ],
    [
      'a source in what is written beside the result',
      () => mustFit({ ...kept, code: 'RMS_NORM', dst: y, src: [leaf('a', TYPE.f32, x.ne), x], writtenSrc: [x] }),
    ],
  ])('%s', async (_, make) => expect((await failure(async () => make())).code).toBe('ERR_TENSOR_SHAPE'));
  it('valid records are accepted', () => {
    mustFit({ ...kept, code: 'UNARY', dst: y });
    mustFit({ ...kept, code: 'BINARY', dst: x, src: [x, x] });
  });
});
