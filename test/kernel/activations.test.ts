/**
 * NaN, Inf and very large activations: one rule for plain and packed products, one column and many,
 * on every build.
 */
import { describe, expect, it } from 'vitest';
import { isThreaded } from '../../src/wasm/load.ts';
import { vecDotType } from '../../src/graph/vec-dot-type.ts';
import { TYPE, rowSize } from '../../src/type-traits.ts';
import type { TypeName } from '../../src/type-traits.ts';
import { dequantizeRows, dotPacked, quantizeAct } from '../reference/packed.ts';
import { BUILDS, gaussian, instantiate } from './harness.ts';
import { CASES, ROUNDINGS, weights } from './packed-blocks.ts';
import { pack, product } from './packed-ways.ts';

const N = 512;
const ROWS = 21;
/** Products of one column, of a few, of whole tiles, and of tiles with a remainder. */
const COLUMNS = [1, 2, 3, 5, 8, 16, 17, 21];
/** Positions of a value that is not finite; some columns have two. */
const PLACES = [0, 1, 31, 32, 255, 256, 300, N - 1];
const NOT_FINITE = [NaN, Infinity, -Infinity];

// Builds with threads have the same products: self-test.test.ts compares their checksums.
describe.each(BUILDS.filter((build) => !isThreaded(build)))('activations on %s', (build) => {
  const k = instantiate(build, 128);

  it.each(CASES)('$type packed: NaN or Inf makes every output of its column NaN, and no other', (c) => {
    // The first row's weights are 0, and NaN must show even there.
    const plain = weights(c, N, ROWS, 31);
    const zero = rowSize(TYPE[c.type], N);
    plain.fill(0, 0, zero);
    const bad = Array.from({ length: 21 }, (_, i) => {
      const x = gaussian(N, 300 + i);
      if (i % 3 !== 2) x[PLACES[i % PLACES.length]] = NOT_FINITE[i % 3];
      if (i % 6 === 1) x.set([-Infinity, NaN], N - 2 - i);
      return x;
    });
    for (const n of COLUMNS) {
      k.arena.reset();
      const p = pack(k, c.type, plain, N, ROWS);
      const got = product(k, p, bad.slice(0, n));
      for (let i = 0; i < n; i++) {
        const alone = product(k, p, [bad[i]]);
        for (let r = 0; r < ROWS; r++) {
          const where = `${n} columns, column ${i}, row ${r}: ${got[i * ROWS + r]}, alone ${alone[r]}`;
          expect(Number.isNaN(got[i * ROWS + r]), where).toBe(i % 3 !== 2);
          expect(Object.is(got[i * ROWS + r], alone[r]) || (got[i * ROWS + r] === 0 && alone[r] === 0), where).toBe(true);
        }
      }
    }
  });

  const plainTypes = Object.values(TYPE)
    .filter((t) => t.blckSize > 1 && vecDotType(t))
    .map((t) => t.name as TypeName);
  it.each(plainTypes)('%s plain: NaN or Inf makes every output NaN; finite activations are the bytes that ggml makes', (name) => {
    const type = TYPE[name];
    const act = vecDotType(type)!;
    const bytes = rowSize(act, N);
    const places = [0, 31, 255, 256, N - 1];
    const c = CASES.find(({ type }) => type === name);
    k.arena.reset();
    // Zeros for types without a packed form, which CASES does not have (none at present).
    const w = k.arena.bytes(c ? weights(c, N, 2, 41) : new Uint8Array(2 * rowSize(type, N)));
    const y = k.arena.alloc(bytes, 1);
    const other = k.arena.alloc(bytes, 1);
    const x = gaussian(N, 51, 3);
    k.call('quantize_activations', act.id, k.arena.f32(x), y, N);
    k.call('quantize_row', act.id, k.arena.f32(x), other, N);
    k.arena.checkGuards();
    expect(k.arena.readBytes(y, bytes)).toEqual(k.arena.readBytes(other, bytes));
    for (const at of places) {
      for (const value of NOT_FINITE) {
        const odd = x.slice();
        odd[at] = value;
        k.call('quantize_activations', act.id, k.arena.f32(odd), y, N);
        k.arena.checkGuards();
        for (const row of [0, 1])
          expect(k.call('vec_dot', type.id, N, w + row * rowSize(type, N), y), `${value} at ${at}, row ${row}`).toBeNaN();
      }
    }
  });

  it.each(CASES)('$type packed: activations up to the largest f32 agree with f64 if the sum of magnitudes fits in f32', (c) => {
    let judged = 0;
    for (const largest of [1e30, 1e34, 1e36, 1e37, 1e38, 3.4e38]) {
      for (const scale of [2 ** -24, 2 ** -14, 2 ** -6, 1, 2 ** 10]) {
        k.arena.reset();
        const plain = weights(c, N, ROWS, 61, scale);
        const p = pack(k, c.type, plain, N, ROWS);
        const rows = dequantizeRows(c.type, plain, N, ROWS);
        // Columns of one sign, which have the largest sums, and of both signs.
        const x = [1, 2, 3, 4].map((i) =>
          gaussian(N, 70 + i).map((v) => Math.min(1, Math.max(-1, i & 1 ? v / 6 : 1 - Math.abs(v) / 100)) * largest),
        );
        const together = product(k, p, x);
        for (const [i, column] of x.entries()) {
          const q = quantizeAct(column, c.type);
          const alone = product(k, p, [column]);
          for (let r = 0; r < ROWS; r++) {
            const want = dotPacked(rows[r], q);
            const where = `activations up to ${largest}, scale ${scale}, column ${i}, row ${r}: ${together[i * ROWS + r]}, want ${want.dot}`;
            expect(together[i * ROWS + r], where).toBe(alone[r]);
            if (want.abs >= 2 ** 127) continue;
            judged++;
            if (!(Math.abs(alone[r] - want.dot) <= ROUNDINGS * (N / 32) * want.abs)) expect.fail(where);
          }
        }
      }
    }
    expect(judged).toBeGreaterThan(300);
  });
});
