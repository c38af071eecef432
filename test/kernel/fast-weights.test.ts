/**
 * Weights packed as a faster type (`fast` in src/type-traits.ts) give the same bits as in their
 * compact form: grid entries as levels, and base-3 codes as 2-bit codes. packed.test.ts and its
 * neighbours compare the compact form with f64.
 */
import { describe, expect, it } from 'vitest';
import { isThreaded } from '../../src/wasm/load.ts';
import { TYPE, namesOf, typesWith, type TypeKernels, type TypeTraits } from '../../src/type-traits.ts';
import { SCALES_F16, scaledBlocks } from '../golden/formats-rows.ts';
import { BUILDS, gaussian, instantiate } from './harness.ts';
import { CASES, weights } from './packed-blocks.ts';
import { pack, product } from './packed-ways.ts';

const FASTER = CASES.flatMap((c) => {
  const { fast } = TYPE[c.type].kernels as TypeKernels;
  return fast ? [{ ...c, as: fast }] : [];
});
const N = 768;

it('the types with a faster form are those of grids and of base 3', () => {
  expect(FASTER.map(({ type }) => type)).toEqual([...namesOf(typesWith((k) => k.gridQuantizer)), 'tq1_0']);
});

// Builds with threads have the same products: self-test.test.ts compares their checksums.
describe.each(BUILDS.filter((build) => !isThreaded(build)))('on %s', (build) => {
  const k = instantiate(build, 128);

  const expectSame = (c: (typeof FASTER)[number], plain: Uint8Array, ne00: number, nrows: number, x: readonly Float32Array[]): void => {
    k.arena.reset();
    const compact = pack(k, c.type, plain, ne00, nrows);
    const fast = pack(k, c.type, plain, ne00, nrows, c.as);
    expect(fast.bad).toBe(compact.bad);
    for (const n of [1, 2, 3, 4, 5, 8, x.length]) {
      const [want, got] = [compact, fast].map((w) => new Uint32Array(product(k, w, x.slice(0, n)).buffer));
      expect(got, `${n} columns`).toEqual(want);
    }
    const part = product(k, fast, x, 16, nrows, 16);
    const all = product(k, compact, x);
    for (let i = 0; i < x.length; i++)
      expect(part.subarray(i * (nrows - 16), (i + 1) * (nrows - 16)), `column ${i}`).toEqual(all.subarray(i * nrows + 16, (i + 1) * nrows));
  };

  it.each(FASTER)('$type: products of one column and many, of all rows and some', (c) => {
    for (const ne00 of [256, N])
      expectSame(
        c,
        weights(c, ne00, 37, 61),
        ne00,
        37,
        Array.from({ length: 21 }, (_, i) => gaussian(ne00, 600 + i)),
      );
  });

  it.each(FASTER)('$type: extreme codes and activations, including NaN', (c) => {
    const most = [127, -127].flatMap((v) => [() => v, (i: number) => (i & 1 ? v : -v), (i: number) => (i & 4 ? v : -v)]);
    const x = [...most, (i: number) => (i === 3 ? NaN : i), (i: number) => (i === 300 ? Infinity : 1)].map((f) =>
      Float32Array.from({ length: N }, (_, i) => f(i)),
    );
    for (const fill of [0x00, 0xff, 0x80, 0x0f, 0xf0]) expectSame(c, weights(c, N, 21, 3, 1, fill), N, 21, x);
  });

  it.each(FASTER)('$type: awkward scales; those that are not finite are reported', (c) => {
    const { typeSize } = TYPE[c.type];
    scaledBlocks(c.type, typeSize, 7).forEach((block, i) => {
      k.arena.reset();
      expect(pack(k, c.type, block, 256, 1, c.as).bad, `scale 0x${SCALES_F16[i].toString(16)}`).toBe(
        (SCALES_F16[i] & 0x7c00) === 0x7c00 ? 1 : 0,
      );
    });
    const finite = scaledBlocks(c.type, typeSize, 7).filter((_, i) => (SCALES_F16[i] & 0x7c00) !== 0x7c00);
    if (finite.length > 16)
      expectSame(c, Uint8Array.from(finite.flatMap((b) => [...b])), 256, finite.length, [gaussian(256, 1), gaussian(256, 2)]);
  });

  it.each(FASTER)('$type: packed_row gives the same bits', (c) => {
    k.arena.reset();
    const plain = weights(c, N, 21, 41);
    const y = k.arena.alloc(4 * N, 4);
    const scratch = k.arena.alloc(k.call('mul_mat_packed_scratch'));
    const rows = (as?: TypeTraits): Float32Array[] => {
      const w = pack(k, c.type, plain, N, 21, as);
      return Array.from({ length: 21 }, (_, r) => {
        k.call('packed_row', w.type.id, w.w, N, r, y, scratch);
        return k.arena.readF32(y, N);
      });
    };
    expect(rows(c.as)).toEqual(rows());
    k.arena.checkGuards();
  });
});
