/**
 * The op that sums the squares of a matrix's inputs (in_sum2): its sums on every build, and its
 * place in a graph.
 */
import { describe, expect, it } from 'vitest';
import { in_sum2, withInputSums } from '../../src/graph/input-sums.ts';
import { lower } from '../../src/graph/lower.ts';
import { mul_mat } from '../../src/graph/ops.ts';
import { createGraphPlan, encodePlan, expand, place } from '../../src/graph/plan.ts';
import { rms_norm } from '../../src/graph/row-ops.ts';
import { leaf, type Tensor } from '../../src/graph/tensor.ts';
import { view } from '../../src/graph/views.ts';
import { TYPE } from '../../src/type-traits.ts';
import { isaOf } from '../../src/wasm/load.ts';
import { BUILDS, gaussian, instantiate, type Build } from '../kernel/harness.ts';
import { failure } from '../support.ts';

const f32 = (name: string, ne0: number, ne1: number): Tensor => leaf(name, TYPE.f32, [ne0, ne1, 1, 1]);

/**
 * Sums squares of rows of n columns, which lie n + gap apart, and adds them to `before`. The nth
 * threads run one after another.
 */
function sumsOf(build: Build, n: number, gap: number, rows: Float32Array, before: Float32Array, nth: number): Float32Array {
  const k = instantiate(build, 32);
  k.arena.reset();
  const x = f32('x', n + gap, rows.length / (n + gap));
  const sums = f32('sums', n, 1);
  x.data = k.arena.f32(rows);
  sums.data = k.arena.f32(before);
  const node = in_sum2(view(x, [n, x.ne[1]], { nb: [x.nb[1]] }), sums);
  const plan = createGraphPlan(lower(expand([node]), { isa: isaOf(build) }));
  expect(plan.records.map(({ code }) => code)).toEqual(['IN_SUM2']);
  place(plan, 0);
  const at = k.arena.alloc(plan.byteLength);
  new Uint8Array(k.memory.buffer).set(encodePlan(plan, at, 0), at);
  k.call('begin', at, 1, 1);
  for (let ith = 0; ith < nth; ith++) k.call('compute', at, 0, ith, nth, 0, 1);
  k.arena.checkGuards();
  return k.arena.readF32(sums.data, n);
}

describe.each(BUILDS)('%s', (build) => {
  it.each([
    [1, 1],
    [3, 5],
    [4, 2],
    [17, 33],
    [64, 7],
    [131, 40],
  ])('%i columns of %i rows: f32 sums, row after row, by any number of threads', (n, nRows) => {
    for (const gap of [0, 3]) {
      const rows = gaussian((n + gap) * nRows, n);
      const before = gaussian(n, n + 1).map(Math.abs);
      const want = Float32Array.from(before, (sum, i) => {
        for (let r = 0; r < nRows; r++) sum = Math.fround(sum + Math.fround(rows[r * (n + gap) + i] ** 2));
        return sum;
      });
      for (const nth of [1, 2, 3, 7]) expect(sumsOf(build, n, gap, rows, before, nth), `gap ${gap}, ${nth} threads`).toEqual(want);
    }
  });

  it.each([1, 2])('each expert has sums and a count of its own (%i activations per token)', (activations) => {
    const [n, used, tokens, experts] = [21, 2, 5, 4];
    const k = instantiate(build, 32);
    const rows = gaussian(n * activations * tokens, 3);
    const which = Int32Array.of(0, 3, 3, 1, 1, 0, 0, 3, -1, 4); // the last two ids are invalid
    const x = leaf('x', TYPE.f32, [n, activations, tokens, 1]);
    const ids = leaf('ids', TYPE.i32, [used, tokens, 1, 1]);
    const [sums, counts] = [f32('sums', n, experts), f32('counts', experts, 1)];
    x.data = k.arena.f32(rows);
    ids.data = k.arena.alloc(4 * which.length);
    new Int32Array(k.memory.buffer).set(which, ids.data / 4);
    sums.data = k.arena.f32(new Float32Array(n * experts));
    counts.data = k.arena.f32(new Float32Array(experts));
    const plan = createGraphPlan(lower(expand([in_sum2(x, sums, { ids, counts })]), { isa: isaOf(build) }));
    place(plan, 0);
    const at = k.arena.alloc(plan.byteLength);
    new Uint8Array(k.memory.buffer).set(encodePlan(plan, at, 0), at);
    k.call('begin', at, 1, 1);
    for (let ith = 0; ith < 2; ith++) k.call('compute', at, 0, ith, 2, 0, 1);
    const want = new Float32Array(n * experts);
    which.forEach((e, i) => {
      if (e < 0 || e >= experts) return;
      const from = n * (Math.floor(i / used) * activations + (i % activations));
      for (let c = 0; c < n; c++) want[e * n + c] = Math.fround(want[e * n + c] + Math.fround(rows[from + c] ** 2));
    });
    k.arena.checkGuards();
    expect(k.arena.readF32(sums.data, n * experts)).toEqual(want);
    expect([...k.arena.readF32(counts.data, experts)]).toEqual([3, 2, 0, 3]);
  });

  it('NaN stays NaN, and does not spread to other columns', () => {
    const rows = Float32Array.of(1, NaN, 3, Infinity, 1e30, -0);
    expect([...sumsOf(build, 6, 0, rows, new Float32Array(6), 2)]).toEqual([1, NaN, 9, Infinity, Infinity, 0]);
  });
});

describe('a graph with sums', () => {
  const x = rms_norm(f32('x', 8, 3), { eps: 1 });
  const [q, k, up] = [f32('q', 8, 4), f32('k', 8, 2), f32('up', 4, 8)];
  const products = [mul_mat(q, x), mul_mat(k, x)];
  const nodes = expand([...products, mul_mat(up, products[0])]);

  it('has one for each input, before the first product that reads it', () => {
    const { nodes: got, sums } = withInputSums(nodes, (name) => name !== 'none');
    expect(
      [...sums].map(
        ([
          name,
          {
            sums: { ne },
            counts,
          },
        ]) => [name, ne[0], counts],
      ),
    ).toEqual([
      ['q', 8, undefined],
      ['k', 8, undefined],
      ['up', 4, undefined],
    ]);
    expect(sums.get('q')).toBe(sums.get('k'));
    const ops = got.filter(({ op }) => op !== 'leaf').map(({ op }) => op);
    expect(ops).toEqual(['rms_norm', 'in_sum2', 'mul_mat', 'mul_mat', 'in_sum2', 'mul_mat']);
  });

  it('is unchanged if nothing is measured', () => {
    const { nodes: got, sums } = withInputSums(nodes, () => false);
    expect(got).toEqual(nodes);
    expect(sums.size).toBe(0);
  });

  it('refuses sums of another width', async () => {
    expect(await failure(() => Promise.resolve(in_sum2(x, f32('sums', 7, 1))))).toMatchObject({
      code: 'ERR_TENSOR_SHAPE',
      message: expect.stringMatching(/a sum for each column/) as string,
    });
  });
});
