/**
 * Several rows in one call. The bytes must be those of the rows one by one, which
 * block-golden.test.ts compares with llama.cpp's.
 *
 * With ../shared they are compared with llama.cpp's own. The file quant-golden.gguf has eight rows
 * of 512 (weights, Gaussian, cosine, zeros with outliers, ramp), each type's ggml_quantize_chunk of
 * them, and to_float of those bytes. The file quant-golden-lowbit.gguf has sixteen rows with two
 * imatrices, and blocks that no quantiser made (.rnd).
 */
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { readGGUF } from '../../src/gguf/read.ts';
import { toBytes } from '../../src/io/source.ts';
import { TYPE, namesOf, rowSize, typesWith } from '../../src/type-traits.ts';
import type { TypeKernels, TypeName } from '../../src/type-traits.ts';
import { IMATRIX, N, ROWS as KINDS } from '../golden/formats-rows.ts';
import { BUILDS, instantiate, quantized } from './harness.ts';

const NE0 = 512;
const FILES = ['quant-golden.gguf', 'quant-golden-lowbit.gguf']
  .map((name) => ({ name, path: fileURLToPath(new URL(`../../../shared/quant-golden/${name}`, import.meta.url)) }))
  .filter(({ path }) => existsSync(path));
const FILES_BY_BUILD = await Promise.all(
  FILES.flatMap(({ name, path }) => {
    const file = new Uint8Array(readFileSync(path));
    return BUILDS.map(async (build) => ({ name, build, file, gguf: await readGGUF(toBytes(file)) }));
  }),
);
/** Suffixes of a type's name: the importance weights used, or .rnd. */
const VARIANTS = ['', '.imat', '.imat2', '.rnd'] as const;

const firstDifference = (got: Uint8Array, want: Uint8Array): string => {
  const i = want.findIndex((w, j) => got[j] !== w);
  return i < 0 ? 'equal' : `byte ${i} of ${want.length}: got ${got[i]}, want ${want[i]}`;
};

describe.each(BUILDS)('rows of one call are the rows alone, on %s', (build) => {
  const k = instantiate(build);
  const rows = Object.values(KINDS).filter((row) => row.every(Number.isFinite));

  /** Bytes of quantize_chunk, and of dequantize_row applied to them. */
  const both = (type: TypeName, of: readonly Float32Array[], imatrix: boolean): [Uint8Array, Uint8Array] => {
    k.arena.reset();
    const bytes = quantized(type, Float32Array.from(of.flatMap((row) => [...row])), N, imatrix ? IMATRIX : undefined);
    const chunk = k.arena.bytes(bytes, 1);
    const floats = k.arena.alloc(4 * of.length * N, 3);
    k.call('dequantize_row', TYPE[type].id, chunk, floats, of.length * N);
    k.arena.checkGuards();
    return [bytes, k.arena.readBytes(floats, 4 * of.length * N)];
  };

  it.each(namesOf(typesWith((k) => k.quantizer)))('%s, without and with an imatrix', (type) => {
    for (const imatrix of [false, true]) {
      const alone = rows.map((row) => both(type, [row], imatrix));
      both(type, rows, imatrix).forEach((got, what) => {
        const want = Uint8Array.from(alone.flatMap((pair) => [...pair[what]]));
        expect(firstDifference(got, want), `${['quantize_chunk', 'dequantize_row'][what]}, imatrix ${imatrix}`).toBe('equal');
      });
    }
  });
});

describe.each(FILES_BY_BUILD)('$name on $build', ({ build, file, gguf }) => {
  const k = instantiate(build);

  const tensor = (name: string): Uint8Array | undefined => {
    const t = gguf.tensors.get(name);
    return t && file.slice(t.offset, t.offset + t.byteLength);
  };
  /** Types that satisfy `is` and that the file has. */
  const typesOf = (is: (kernels: TypeKernels) => unknown): readonly TypeName[] =>
    namesOf(typesWith((k, { name }) => is(k) && [...gguf.tensors.keys()].some((key) => key.split('.')[0] === name)));

  it.each(typesOf((k) => k.quantizer))('quantize_chunk of %s, without and with an imatrix', (type) => {
    for (const variant of VARIANTS.filter((v) => v !== '.rnd')) {
      const want = tensor(type + variant);
      if (!want) continue;
      const floats = (name: string): Float32Array => new Float32Array(tensor(name)!.slice().buffer);
      const got = quantized(type, floats('src'), NE0, variant ? floats(variant.replace('.imat', 'imatrix')) : undefined);
      expect(got.length).toBe(gguf.tensors.get('src')!.ne[1] * rowSize(TYPE[type], NE0));
      expect(firstDifference(got, want), type + variant).toBe('equal');
    }
  });

  it.each(typesOf(() => true))('dequantize_row of %s', (type) => {
    for (const variant of VARIANTS) {
      const bytes = tensor(type + variant);
      if (!bytes) continue;
      k.arena.reset();
      const want = tensor(`${type}${variant}.deq`)!;
      const x = k.arena.bytes(bytes, 1);
      const y = k.arena.alloc(want.length, 3);
      k.call('dequantize_row', TYPE[type].id, x, y, want.length / 4);
      k.arena.checkGuards();
      expect(firstDifference(k.arena.readBytes(y, want.length), want), type + variant).toBe('equal');
    }
  });
});
