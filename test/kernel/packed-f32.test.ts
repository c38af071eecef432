/**
 * Packed products of f32, f16 and bf16 weights with f32 activations: bits that do not depend on the
 * batch, and the f64 reference.
 */
import { describe, expect, it } from 'vitest';
import { TYPE } from '../../src/type-traits.ts';
import { numberToF16 } from '../reference/f16.ts';
import { dequantizeRows } from '../reference/packed.ts';
import { BUILDS, gaussian, instantiate } from './harness.ts';
import { pack } from './packed-ways.ts';

const TYPES = ['f32', 'f16', 'bf16'] as const;
type FloatType = (typeof TYPES)[number];

/**
 * Tolerance of a chain of ne00 multiply-adds, one or two roundings each, as a fraction of the sum
 * of magnitudes.
 */
const ROUNDING = 2 * 2 ** -24;

function toBytes(type: FloatType, x: Float32Array): Uint8Array {
  if (type === 'f32') return new Uint8Array(x.slice().buffer);
  const bits = new Uint32Array(x.slice().buffer);
  return new Uint8Array(Uint16Array.from(x, (v, i) => (type === 'f16' ? numberToF16(v) : bits[i] >>> 16)).buffer);
}

describe.each(BUILDS)('packed f32, f16 and bf16 products on %s', (build) => {
  const k = instantiate(build, 128);

  it.each(TYPES)('%s: any number of columns gives the bits of one, near the f64 reference; rows read back exactly', (type) => {
    for (const [ne00, nrows] of [
      [1, 5],
      [7, 16],
      [33, 20],
      [300, 37],
    ]) {
      k.arena.reset();
      const plain = toBytes(type, gaussian(ne00 * nrows, 7, 0.1));
      const { w, bad } = pack(k, type, plain, ne00, nrows);
      expect(bad).toBe(0);
      const x = Array.from({ length: 7 }, (_, i) => gaussian(ne00, 50 + i));
      const act = k.arena.f32(x.flatMap((row) => [...row]));
      const scratch = k.arena.alloc(k.call('mul_mat_packed_scratch'));
      const product = (from: number, ncols: number, row0 = 0, row1 = nrows): Float32Array => {
        const n = row1 - row0;
        const dst = k.arena.alloc(n * ncols * 4, 4);
        k.call(
          'mul_mat_packed',
          TYPE[type].id,
          w,
          ne00,
          row0,
          row1,
          act + from * ne00 * 4,
          ne00 * 4,
          ncols,
          dst - row0 * 4,
          n * 4,
          scratch,
        );
        k.arena.checkGuards();
        return k.arena.readF32(dst, n * ncols);
      };
      const rows = dequantizeRows(type, plain, ne00, nrows);
      const single = x.map((_, i) => product(i, 1));
      for (const [i, column] of x.entries()) {
        for (const [r, row] of rows.entries()) {
          const want = row.reduce((s, v, j) => s + v * column[j], 0);
          const limit = ROUNDING * ne00 * row.reduce((s, v, j) => s + Math.abs(v * column[j]), 0);
          if (!(Math.abs(single[i][r] - want) <= limit))
            expect.fail(`ne00 ${ne00}, row ${r}, column ${i}: got ${single[i][r]}, want ${want}`);
        }
      }
      for (let ncols = 2; ncols <= 7; ncols++) {
        const got = new Uint32Array(product(0, ncols).buffer);
        for (let i = 0; i < ncols; i++)
          expect(got.subarray(i * nrows, (i + 1) * nrows), `ne00 ${ne00}, ncols ${ncols}, column ${i}`).toEqual(
            new Uint32Array(single[i].buffer),
          );
      }
      if (nrows > 16) expect(product(0, 1, 16, nrows)).toEqual(single[0].subarray(16));
      const y = k.arena.alloc(ne00 * 4, 4);
      for (const [r, row] of rows.entries()) {
        k.call('packed_row', TYPE[type].id, w, ne00, r, y, scratch);
        k.arena.checkGuards();
        expect(k.arena.readF32(y, ne00), `row ${r}`).toEqual(Float32Array.from(row));
      }
    }
  });

  it('f16: a number that is not finite is reported, subnormals and the largest number are exact', () => {
    k.arena.reset();
    const ne00 = 8;
    const odd = Float32Array.of(65504, -65504, 2 ** -24, -(2 ** -24), 2 ** -14, 0, -0, 1);
    const { w, bad } = pack(k, 'f16', toBytes('f16', odd), ne00, 1);
    expect(bad).toBe(0);
    const y = k.arena.alloc(32);
    k.call('packed_row', TYPE.f16.id, w, ne00, 0, y, k.arena.alloc(k.call('mul_mat_packed_scratch')));
    expect(k.arena.readF32(y, ne00)).toEqual(odd);
    odd[5] = Infinity;
    expect(pack(k, 'f16', toBytes('f16', odd), ne00, 1).bad).toBe(1);
  });
});
