/**
 * Packed products of every block format, on every build: exact integers, bits that do not depend on
 * the batch, and the f64 reference.
 */
import { describe, expect, it } from 'vitest';
import { ACT_4 } from '../../src/graph/layout.ts';
import { isThreaded } from '../../src/wasm/load.ts';
import { TYPE, type TypeKernels, type TypeName } from '../../src/type-traits.ts';
import { dequantizeRows, dotPacked, quantizeAct } from '../reference/packed.ts';
import { BUILDS, gaussian, instantiate } from './harness.ts';
import { CASES, ROUNDINGS, weights } from './packed-blocks.ts';
import { pack, product, quantize } from './packed-ways.ts';

/** Formats whose codes are grid entries, in both forms: compact and as levels. */
const OF_GRIDS = CASES.flatMap((c) => {
  const { gridQuantizer, fast } = TYPE[c.type].kernels as TypeKernels;
  return gridQuantizer ? [TYPE[c.type], fast!].map((as) => ({ ...c, as })) : [];
});

/** Lengths of one block, of an odd number of blocks, and longer than the GEMM unpacks at a time. */
const lengths = (type: TypeName): number[] => {
  const { blckSize } = TYPE[type];
  return blckSize === 256 ? [256, 768] : [blckSize, 3 * blckSize, Math.ceil(1120 / blckSize) * blckSize];
};

// Builds with threads have the same products: self-test.test.ts compares their checksums.
describe.each(BUILDS.filter((build) => !isThreaded(build)))('packed products on %s', (build) => {
  const k = instantiate(build, 128);

  it.each([
    ['q4_0', 127],
    ['q4_K', 127],
    ['q4_0', 7],
    ['q4_K', 7],
  ] as const)(
    'quantize_act for %s, quants up to %i: d, quants and sums are the reference, and what it writes is what it says',
    (type, most) => {
      k.arena.reset();
      const x = gaussian(512, 5, 3);
      x.fill(0, 32, 64);
      x.set([127, -127, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997], 64);
      x.fill(1e-42, 96, 128);
      const { act, stride } = quantize(k, TYPE[type], [x], most === 7 ? ACT_4 : 0);
      const want = quantizeAct(x, type, most);
      const bytes = k.arena.readBytes(act, stride);
      const size = stride / 16;
      const wide = size > 64;
      k.arena.checkGuards();
      const view = new DataView(bytes.buffer);
      const sums: number[] = [];
      for (let run = 0; run < 16; run++) {
        const p = run * size;
        const tail = p + (wide ? 64 : 32);
        const quants = Array.from({ length: 32 }, (_, i) => (wide ? view.getInt16(p + 2 * i, true) : view.getInt8(p + i)));
        expect(quants, `run ${run}`).toEqual([...want.q.subarray(run * 32, run * 32 + 32)]);
        const sum = (from: number, to: number): number => quants.slice(from, to).reduce((a, q) => a + q, 0);
        const d = want.d[Math.floor((run * 32) / want.block)];
        sums.push(sum(0, 32));
        if (type === 'q4_0' || run % 2 === 0) expect(view.getFloat32(tail, true), `d of run ${run}`).toBe(d);
        else expect([view.getInt16(tail, true), view.getInt16(tail + 2, true)], `sums of runs ${run - 1}, ${run}`).toEqual(sums.slice(-2));
        if (type === 'q4_0') expect(view.getFloat32(tail + 4, true), `sum of run ${run}`).toBe(sum(0, 32));
        else
          expect([view.getInt16(tail + 4, true), view.getInt16(tail + 6, true)], `sums of run ${run}'s halves`).toEqual([
            sum(0, 16),
            sum(16, 32),
          ]);
        for (const half of [0, 1]) {
          for (const pair of [0, 1]) {
            const part = quants.reduce((a, q, i) => (i >> 4 === half && (i & 3) >> 1 === pair ? a - q : a), 0);
            expect(view.getInt16(tail + 8 + half * 4 + pair * 2, true), `pairs of run ${run}`).toBe(part + 0);
          }
        }
      }
    },
  );

  it.each(CASES)('$type: n columns together are n times one column, bit for bit, and near the f64 reference', (c) => {
    const seeds = { weights: 11, act: 12 };
    for (const ne00 of lengths(c.type)) {
      for (const nrows of [1, 16, 37]) {
        k.arena.reset();
        const plain = weights(c, ne00, nrows, seeds.weights);
        const p = pack(k, c.type, plain, ne00, nrows);
        const x = Array.from({ length: 17 }, (_, i) => gaussian(ne00, seeds.act + i));
        const single = x.map((row) => product(k, p, [row]));
        const rows = dequantizeRows(c.type, plain, ne00, nrows);
        for (const [i, row] of x.entries()) {
          const q = quantizeAct(row, c.type);
          for (let r = 0; r < nrows; r++) {
            const want = dotPacked(rows[r], q);
            const limit = ROUNDINGS * (ne00 / 32) * want.abs;
            if (Math.abs(single[i][r] - want.dot) <= limit) continue;
            expect.fail(
              `seeds ${JSON.stringify(seeds)}, ne00 ${ne00}, nrows ${nrows}, row ${r}, column ${i}: got ${single[i][r]}, want ${want.dot}`,
            );
          }
        }
        for (const ncols of [2, 3, 4, 5, 6, 7, 8, 9, 16, 17]) {
          const got = product(k, p, x.slice(0, ncols));
          const bits = new Uint32Array(got.buffer);
          for (let i = 0; i < ncols; i++) {
            const want = new Uint32Array(single[i].buffer);
            const at = want.findIndex((b, r) => b !== bits[i * nrows + r]);
            if (at >= 0)
              expect.fail(
                `seeds ${JSON.stringify(seeds)}, ne00 ${ne00}, nrows ${nrows}, ncols ${ncols}, column ${i}, row ${at}: got ${got[i * nrows + at]}, want ${single[i][at]}`,
              );
          }
        }
      }
    }
  });

  // A format for each layout and scaling of activations.
  const layouts = CASES.filter(({ type }) => ['q4_0', 'q8_0', 'iq4_nl', 'q2_K', 'q4_K', 'q6_K', 'tq2_0', 'nvfp4'].includes(type));
  it.each(layouts)('$type: activations of 4 bits, n columns together and one alone, near the f64 reference', (c) => {
    k.arena.reset();
    const ne00 = lengths(c.type)[1];
    const plain = weights(c, ne00, 21, 31);
    const p = pack(k, c.type, plain, ne00, 21);
    const rows = dequantizeRows(c.type, plain, ne00, 21);
    const x = Array.from({ length: 7 }, (_, i) => gaussian(ne00, 500 + i));
    const together = product(k, p, x, 0, 21, 21, ACT_4);
    for (const [i, column] of x.entries()) {
      const q = quantizeAct(column, c.type, 7);
      const alone = product(k, p, [column], 0, 21, 21, ACT_4);
      expect(together.subarray(i * 21, (i + 1) * 21), `column ${i}`).toEqual(alone);
      for (let r = 0; r < 21; r++) {
        const want = dotPacked(rows[r], q);
        expect(Math.abs(alone[r] - want.dot), `row ${r}, column ${i}`).toBeLessThanOrEqual(ROUNDINGS * (ne00 / 32) * want.abs);
      }
    }
  });

  it.each(CASES)('$type: a range of rows and many columns give the same bits as all rows and few columns', (c) => {
    k.arena.reset();
    const ne00 = lengths(c.type)[1];
    const p = pack(k, c.type, weights(c, ne00, 53, 21), ne00, 53);
    const x = Array.from({ length: 70 }, (_, i) => gaussian(ne00, 100 + i));
    const all = product(k, p, x);
    for (const [row0, row1] of [
      [0, 16],
      [16, 48],
      [32, 53],
      [48, 53],
    ]) {
      const part = product(k, p, x, row0, row1);
      for (let i = 0; i < 70; i++) {
        expect(part.subarray(i * (row1 - row0), (i + 1) * (row1 - row0)), `rows ${row0}..${row1}, column ${i}`).toEqual(
          all.subarray(i * 53 + row0, i * 53 + row1),
        );
      }
    }
  });

  it.each(CASES)('$type: one column, row block by row block, of any length, gives the bits of four', (c) => {
    for (const ne00 of [lengths(c.type)[1], 131 * 256]) {
      k.arena.reset();
      const p = pack(k, c.type, weights(c, ne00, 37, 51), ne00, 37);
      const x = Array.from({ length: 4 }, (_, i) => gaussian(ne00, 400 + i));
      const all = product(k, p, x);
      for (let i = 0; i < 4; i++)
        expect(product(k, p, [x[i]], 0, 37, k.call('packed_rows')), `ne00 ${ne00}, column ${i}`).toEqual(
          all.subarray(i * 37, (i + 1) * 37),
        );
    }
  });

  it.each(CASES)('$type: extreme codes and activations give the exact integer', (c) => {
    const ne00 = TYPE[c.type].blckSize;
    const acts = [
      () => 127,
      () => -127,
      (i: number) => (i & 1 ? 127 : -127),
      (i: number) => (i & 4 ? 127 : -127),
      (i: number) => (i === 3 ? 127 : 0),
    ];
    for (const fill of [0x00, 0xff, 0x80, 0x7f, 0x0f, 0xf0]) {
      k.arena.reset();
      const plain = weights(c, ne00, 5, 3, 1, fill);
      const p = pack(k, c.type, plain, ne00, 5);
      const x = acts.map((f) => Float32Array.from({ length: ne00 }, (_, i) => f(i)));
      const got = product(k, p, x);
      const rows = dequantizeRows(c.type, plain, ne00, 5);
      for (const [i, row] of x.entries()) {
        const want = dotPacked(rows[0], quantizeAct(row, c.type)).dot;
        const alone = product(k, p, [row]);
        for (let r = 0; r < 5; r++) {
          expect(got[i * 5 + r], `codes ${fill.toString(16)}, activations ${i}, row ${r}`).toBe(want + 0);
          expect(alone[r], `codes ${fill.toString(16)}, activations ${i} alone, row ${r}`).toBe(want + 0);
        }
      }
    }
  });

  it.each(OF_GRIDS)('$type as $as.name: the largest activations with the signs of a row’s codes give the exact integer', (c) => {
    // These are the largest possible sums of products. Some random rows of iq2_* exceed i16 over
    // half a sub-block (gemm_8x4_grid.ts).
    k.arena.reset();
    const plain = weights(c, 256, 40, 7, 1);
    const rows = dequantizeRows(c.type, plain, 256, 40);
    const x = rows.map((row) => Float32Array.from(row, (v) => (v < 0 ? -127 : 127)));
    const got = product(k, pack(k, c.type, plain, 256, 40, c.as), x);
    for (const [i, row] of x.entries()) {
      const act = quantizeAct(row, c.type);
      for (let r = 0; r < 40; r++)
        expect(got[i * 40 + r], `activations of row ${i}, row ${r}`).toBe(Math.fround(dotPacked(rows[r], act).dot));
    }
  });

  it.each(CASES)('$type: packed_row gives the bits of the dequantised row', (c) => {
    k.arena.reset();
    const ne00 = lengths(c.type)[1];
    const plain = weights(c, ne00, 21, 41);
    const p = pack(k, c.type, plain, ne00, 21);
    const y = k.arena.alloc(ne00 * 4, 4);
    const scratch = k.arena.alloc(k.call('mul_mat_packed_scratch'));
    for (const [r, row] of dequantizeRows(c.type, plain, ne00, 21).entries()) {
      k.call('packed_row', TYPE[c.type].id, p.w, ne00, r, y, scratch);
      k.arena.checkGuards();
      // -0 and 0 are equal here: ggml's (0 - 8) * 0 is -0, and so is the f64 product.
      expect(
        k.arena.readF32(y, ne00).map((v) => v + 0),
        `row ${r}`,
      ).toEqual(Float32Array.from(row).map((v) => v + 0));
    }
  });
});
