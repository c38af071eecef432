/**
 * A format may state its codes in either of two ways (assembly/matmul/format/format.ts); most state
 * vectors of nibbles or bytes. Here, formats of the package state the same bytes by half_codes.
 * Every loop that takes them must give the same bits.
 */
import { readFileSync } from 'node:fs';
import asc from 'assemblyscript/asc';
import { beforeAll, describe, expect, it } from 'vitest';
import { byType } from '../../scripts/format-dispatch.ts';
import { TYPE, type TypeName } from '../../src/type-traits.ts';
import { BUILDS, gaussian, instantiate, over, type Kernels } from './harness.ts';
import { CASES, weights } from './packed-blocks.ts';
import { pack, product } from './packed-ways.ts';

const source = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

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

/** The exports that test/kernel/packed-ways.ts calls. */
const ENTRY = `
import { grids_end } from './type/block/iq_grids';
export { act_row_size, quantize_act } from './matmul/act';
export { mul_mat_packed, mul_mat_packed_scratch, packed_act_type, packed_row, packed_rows, repack } from './matmul/packed';
export function heap_base(): usize {
  return grids_end();
}`;

/**
 * Sources that replace the package's, by path. Only the formats that state half_codes are built.
 */
const SOURCES = new Map([
  ['assembly/half_codes.ts', ENTRY],
  ['assembly/matmul/by_type.ts', byType(TYPES.map((type) => TYPE[type]))],
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

async function compile(build: string): Promise<WebAssembly.Module> {
  let binary: Uint8Array<ArrayBuffer> | undefined;
  const { error, stderr } = await asc.main(
    ['assembly/half_codes.ts', '--config', 'asconfig.json', '--target', build, '--optimizeLevel', '1'],
    {
      readFile(name) {
        try {
          return SOURCES.get(name) ?? source(name);
        } catch {
          return null;
        }
      },
      writeFile(name, contents) {
        if (name.endsWith('.wasm')) binary = contents as Uint8Array<ArrayBuffer>;
      },
    },
  );
  if (error || !binary) throw new Error(stderr.toString(), { cause: error });
  return new WebAssembly.Module(binary);
}

describe.each(BUILDS.filter((build) => build.endsWith('-threads')))('%s', (build) => {
  const own = instantiate(build);
  let twins: Kernels;
  beforeAll(async () => {
    twins = over(await compile(build), build);
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
});
