/**
 * cpy, cast and set_rows to every type with a quantiser give native ggml's bytes
 * (test/golden/formats.json), from rows, other types and any strides, on all builds and numbers of
 * threads.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { cast, cont, cpy, createEngine, mul_mat, set_rows, transpose, view, type Engine, type Tensor, type TypeName } from 'quantlet/core';
import { TYPE, rowSize } from '../../src/type-traits.ts';
import { N, ROWS, oneNaNScale } from '../golden/formats-rows.ts';
import { gaussian } from '../kernel/harness.ts';
import { RUNS } from '../support.ts';

type Hashes = Readonly<Record<string, string>>;
const golden = JSON.parse(readFileSync(new URL('../golden/formats.json', import.meta.url), 'utf8')) as {
  ref: Readonly<Record<string, Hashes>>;
};
const hash = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex').slice(0, 16);

describe.each(RUNS)('%s, %i threads', (name, threads) => {
  let engine: Engine;
  beforeAll(async () => void (engine = await createEngine({ build: name, threads })));
  afterAll(() => engine.dispose());

  const bytesOf = async (t: Tensor): Promise<Uint8Array> => {
    const plan = engine.plan(t);
    await engine.compute(plan);
    const { buffer, byteOffset, byteLength } = engine.read(t);
    plan.dispose();
    return new Uint8Array(buffer, byteOffset, byteLength);
  };
  const filled = (ne: readonly number[], values: Float32Array): Tensor => engine.tensor('f32', ne, values);

  it.each(Object.keys(golden.ref) as TypeName[])("%s: native's bytes, for ordinary and hostile rows", async (type) => {
    const names = Object.keys(golden.ref[type]);
    const size = rowSize(TYPE[type], N);
    const values = new Float32Array(names.length * N);
    const turned = new Float32Array(names.length * N);
    names.forEach((row, r) =>
      ROWS[row].forEach((v, i) => {
        values[r * N + i] = v;
        turned[i * names.length + r] = v;
      }),
    );
    const x = filled([N, names.length], values);
    const columns = filled([names.length, N], turned);
    const backwards = engine.tensor(
      'i32',
      [names.length],
      Int32Array.from(names, (_, r) => names.length - 1 - r),
    );
    const into = (ne: readonly number[]): Tensor => engine.tensor(type, ne);
    const check = (bytes: Uint8Array, what: string, at = (r: number): number => r): void =>
      names.forEach((row, r) =>
        expect(hash(oneNaNScale(type, bytes.subarray(at(r) * size, (at(r) + 1) * size))), `${what}, row "${row}"`).toBe(
          golden.ref[type][row],
        ),
      );
    const target = into([N, names.length]);
    const other = into([N, names.length]);
    check(await bytesOf(cpy(x, target)), 'cpy');
    check(await bytesOf(cast(transpose(columns), type)), 'cast of a transposed tensor');
    check(await bytesOf(set_rows(other, x, backwards)), 'set_rows', (r) => names.length - 1 - r);
    for (const t of [x, columns, backwards, target, other]) engine.free(t);
  });

  it.each(Object.keys(golden.ref) as TypeName[])('%s from f16 and from q8_0, and its products', async (type) => {
    const [k, n] = [1024, 5];
    const x = filled([k, n], gaussian(k * n, 31));
    const y = filled([k, 3], gaussian(k * 3, 32));
    for (const from of ['f16', 'q8_0'] as const) {
      const there = cast(x, from);
      const bytes = await bytesOf(cast(there, type));
      expect(hash(bytes), from).toBe(hash(await bytesOf(cast(cast(cast(x, from), 'f32'), type))));
      expect(bytes.length).toBe(n * rowSize(TYPE[type], k));
    }
    // A product with the cast made in the graph equals one with the stored copy.
    if (type === 'q8_1' || type === 'q8_K') return;
    const leaf = engine.tensor(type, [k, n]);
    await bytesOf(cpy(x, leaf));
    expect(await bytesOf(mul_mat(cast(x, type), y))).toEqual(await bytesOf(mul_mat(leaf, y)));
    for (const t of [x, y, leaf]) engine.free(t);
  });

  it('a copy of columns into blocks by way of a view', async () => {
    const wide = gaussian(600 * 4, 33);
    const x = filled([600, 4], wide);
    const window = cont(x);
    const type = 'q6_K';
    const rows = new Float32Array(512 * 4);
    for (let r = 0; r < 4; r++) rows.set(wide.subarray(r * 600 + 40, r * 600 + 552), r * 512);
    expect(hash(await bytesOf(cast(view(window, [512, 4], { nb: [2400], offset: 160 }), type)))).toBe(
      hash(await bytesOf(cast(filled([512, 4], rows), type))),
    );
  });
});
