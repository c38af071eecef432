/**
 * Threads share a product's rows: each has a range of its own and helps late threads from the end
 * of theirs. Every row is computed by exactly one thread.
 */
import { describe, expect, it } from 'vitest';
import { RANGES } from '../../src/graph/layout.ts';
import { OP, PLAN } from '../../src/graph/structures.ts';
import { lower } from '../../src/graph/lower.ts';
import { mul_mat } from '../../src/graph/ops.ts';
import { createGraphPlan, encodePlan, place } from '../../src/graph/plan.ts';
import { leaf } from '../../src/graph/tensor.ts';
import { TYPE } from '../../src/type-traits.ts';
import { isaOf } from '../../src/wasm/load.ts';
import { BUILDS, instantiate, type Build } from '../kernel/harness.ts';

const K = 32;
const UNTOUCHED = -1;

/** A plan of one packed product of ones, so that every computed row is K. */
function product(build: Build, rows: number) {
  const k = instantiate(build, 24);
  k.arena.reset();
  const w = leaf('w', TYPE.f32, [K, rows, 1, 1]);
  const x = leaf('x', TYPE.f32, [K, 1, 1, 1]);
  w.layout = 'packed';
  const y = mul_mat(w, x);
  const plan = createGraphPlan(lower([w, x, y], { isa: isaOf(build) }), [y]);
  // Packed rows come in whole row blocks.
  w.data = k.arena.f32(new Float32Array(K * Math.ceil(rows / k.call('packed_rows')) * k.call('packed_rows')).fill(1));
  x.data = k.arena.f32(new Float32Array(K).fill(1));
  place(plan, k.arena.alloc(plan.computeBytes, 0));
  const scratch = k.arena.alloc(plan.scratchSize, 0);
  const at = k.arena.alloc(plan.byteLength, 0);
  new Uint8Array(k.memory.buffer).set(encodePlan(plan, at, scratch), at);
  const words = new Uint32Array(k.memory.buffer);
  const out = new Float32Array(k.memory.buffer, y.data, rows);
  const cursor = words[words[at / 4 + PLAN.ops] / 4 + OP.cursor] / 4;
  const step = words[at / 4 + PLAN.cursor_bytes] / 4;
  return {
    out,
    begin() {
      k.call('begin', at, 1, 1);
      out.fill(UNTOUCHED);
    },
    /** One thread runs at a time here, so all use thread 0's scratch. */
    run: (ith: number, nth: number) => {
      words[at / 4 + PLAN.scratch] = scratch - ith * plan.scratchSize;
      k.call('compute', at, 0, ith, nth, 0, 1);
    },
    taken: (range: number, front: number, back: number) => (words[cursor + range * step] = front + back * 0x10000),
    check: () => k.arena.checkGuards(),
  };
}

describe.each(BUILDS)('%s', (build) => {
  for (const [rows, nth] of [
    [16, 1],
    [16, 4],
    [200, 1],
    [200, 2],
    [1000, 3],
    [1008, RANGES + 5],
    [5000, 2],
  ] as const) {
    it(`${rows} rows, ${nth} threads: whichever runs first, all rows are computed`, () => {
      const p = product(build, rows);
      for (const first of [0, nth - 1]) {
        p.begin();
        p.run(first, nth);
        expect(
          [...p.out].findIndex((v) => v !== K),
          `first row that thread ${first} left`,
        ).toBe(-1);
        p.out.fill(UNTOUCHED);
        for (let ith = 0; ith < nth; ith++) p.run(ith, nth);
        expect(
          [...p.out].findIndex((v) => v !== UNTOUCHED),
          'first row computed a second time',
        ).toBe(-1);
      }
      p.check();
    });
  }

  it('chunks taken by another thread are left to it, at both ends', () => {
    const rows = 1024;
    const nth = 2;
    const chunk = 32;
    const half = rows / nth;
    const p = product(build, rows);
    for (const [front, back] of [
      [3, 0],
      [0, 2],
      [5, 4],
      [16, 0],
      [9, 7],
      [17, 3],
    ] as const) {
      for (const owner of [0, 1]) {
        for (const ith of [0, 1]) {
          p.begin();
          p.taken(owner, front, back);
          p.run(ith, nth);
          const free = (row: number): boolean =>
            Math.trunc(row / half) !== owner || (row % half >= front * chunk && row % half < half - back * chunk);
          const wrong = [...p.out].findIndex((v, row) => v !== (free(row) ? K : UNTOUCHED));
          expect(wrong, `first wrong row where range ${owner} had ${front} chunks taken in front and ${back} behind, thread ${ith}`).toBe(
            -1,
          );
        }
      }
    }
    p.check();
  });
});
