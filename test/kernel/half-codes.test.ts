/**
 * Formats as their authors may write them, though the package has none like these.
 *
 * A format may state its codes in either of two ways (assembly/matmul/format/format.ts); most state
 * vectors of nibbles or bytes. Here, formats of the package state the same bytes by half_codes.
 * Every loop that takes them must give the same bits. Another format has a centre that is neither a
 * power of two nor 12.
 */
import { beforeAll, describe, expect, it } from 'vitest';
import { byType } from '../../scripts/format-dispatch.ts';
import { CODES, packedBy } from '../../src/packed-format.ts';
import { TYPE, type TypeName, type TypeTraits } from '../../src/type-traits.ts';
import { dequantize } from '../reference/blocks.ts';
import { compileKernels, source } from './compile.ts';
import { BUILDS, gaussian, instantiate, over, random, type Kernels } from './harness.ts';
import { CASES, weights } from './packed-blocks.ts';
import { pack, product } from './packed-ways.ts';

/** half_codes for blocks of 32 and of 256, with codes below 8 bits and of 8. */
const HALF_CODES = {
  q4_0: `const v = v128.load(q + (<usize>t << 6), offsetof<G>());
    return v128.and(half == 0 ? v : i16x8.shr_u(v, 4), i8x16.splat(15));`,
  q8_0: 'return v128.load(q + (<usize>t << 7) + (<usize>half << 6), offsetof<G>());',
  q5_K: `const v = v128.load(q + (<usize>t << 6), offsetof<G>());
    const rests = i16x8.shr_u(v128.load(q - 64, offsetof<G>()), 2 * t);
    return v128.and(half == 0 ? v : v128.xor(i16x8.shr_u(v, 3), rests), i8x16.splat(31));`,
};
const TYPES = Object.keys(HALF_CODES) as (keyof typeof HALF_CODES & TypeName)[];

/** q5_0 with the centre 15 instead of 16. */
const CENTRE = 15;
const { q5_0 } = TYPE;
const centred: TypeTraits = { ...q5_0, kernels: { ...q5_0.kernels, packed: packedBy(CODES, { width: 5, centre: CENTRE }) } };

/** The exports that test/kernel/packed-ways.ts calls. */
const ENTRY = `
import { grids_end } from './type/block/iq_grids';
export { act_row_size, quantize_act } from './matmul/act';
export { mul_mat_packed, mul_mat_packed_scratch, packed_act_type, packed_row, packed_rows, repack } from './matmul/packed';
export function heap_base(): usize {
  return grids_end();
}`;

const FACTS = 'assembly/matmul/format/facts.ts';
const withCentre = (facts: string): string => facts.replace(/(class Q5_0_Facts \{.*?centre\(\): i32 \{\s*return )16;/s, `$1${CENTRE};`);

/** Sources that replace the package's, by path. Only the formats under test are built. */
const SOURCES = new Map([
  ['assembly/half_codes.ts', ENTRY],
  ['assembly/matmul/by_type.ts', byType([...TYPES.map((type) => TYPE[type]), centred])],
  [FACTS, withCentre(source(FACTS))],
  ...TYPES.map((type): [string, string] => {
    const path = `assembly/matmul/format/${type}.ts`;
    const own = source(path);
    const twin = own.replace(
      new RegExp(`export class ${type.toUpperCase()}\\b.* \\{`),
      `$&\n@inline half_codes<G>(q: usize, half: i32, t: i32): v128 { ${HALF_CODES[type]} }`,
    );
    if (twin === own) throw new Error(`${path} has no class of the format`);
    return [path, twin];
  }),
]);

describe.each(BUILDS.filter((build) => build.endsWith('-threads')))('%s', (build) => {
  const own = instantiate(build);
  let twins: Kernels;
  beforeAll(async () => {
    twins = over(await compileKernels('assembly/half_codes.ts', build, SOURCES), build);
  }, 120_000);

  it.each(TYPES)('%s: rows read back and products have the same bits', (type) => {
    const [ne00, nrows] = [512 + 256, 40];
    const plain = weights(
      CASES.find((c) => c.type === type)!,
      ne00,
      nrows,
      3,
    );
    const columns = Array.from({ length: 13 }, (_, i) => gaussian(ne00, 20 + i));
    const [want, got] = [own, twins].map((k) => {
      k.arena.reset();
      const p = pack(k, type, plain, ne00, nrows);
      const y = k.arena.alloc(ne00 * 4);
      const scratch = k.arena.alloc(k.call('mul_mat_packed_scratch'));
      const rows = [0, 21, 39].map((row) => {
        k.call('packed_row', TYPE[type].id, p.w, ne00, row, y, scratch);
        return k.arena.readBytes(y, ne00 * 4);
      });
      // One column, a few, tiles of four with one left over, and more.
      const products = [1, 3, 6, 13].map((n) => new Uint8Array(product(k, p, columns.slice(0, n)).buffer));
      return { packed: k.arena.readBytes(p.w, plain.length), rows, products };
    });
    expect(got).toEqual(want);
  });

  it('a format with the centre 15: rows and sums of integers are exact', () => {
    const [ne00, nrows] = [512 + 32, 40];
    const plain = weights({ type: 'q5_0', scales: [0] }, ne00, nrows, 4, 1);
    const next = random(5);
    // A 127 in every block makes the activations' scale 1.
    const columns = Array.from({ length: 13 }, () =>
      Float32Array.from({ length: ne00 }, (_, i) => (i % 32 === 0 ? 127 : Math.round(next() * 254) - 127)),
    );
    const codes = dequantize.q5_0(plain, ne00 * nrows).map((w) => w + 16 - CENTRE);
    twins.arena.reset();
    const p = pack(twins, 'q5_0', plain, ne00, nrows);
    const y = twins.arena.alloc(ne00 * 4);
    twins.call('packed_row', q5_0.id, p.w, ne00, 21, y, twins.arena.alloc(twins.call('mul_mat_packed_scratch')));
    expect([...twins.arena.readF32(y, ne00)]).toEqual([...codes.subarray(21 * ne00, 22 * ne00)]);
    for (const n of [1, 3, 6, 13]) {
      const want = columns
        .slice(0, n)
        .flatMap((x) => Array.from({ length: nrows }, (_, row) => x.reduce((sum, v, i) => sum + v * codes[row * ne00 + i], 0)));
      expect([...product(twins, p, columns.slice(0, n))]).toEqual(want);
    }
  });
});
