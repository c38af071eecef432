/**
 * llama.cpp's own bytes: ../shared/quant-golden/quant-golden.gguf holds eight rows of 512 (weights, Gaussian, cosine, zeros with
 * outliers, ramp), each type's ggml_quantize_chunk of them, and to_float of those bytes. Where the folder is not there,
 * block-golden.test.ts checks the same kernels against the results committed with the tests.
 */
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { readGGUF } from '../../src/gguf/read.ts';
import { toBytes } from '../../src/source.ts';
import { TYPE, rowSize } from '../../src/type-traits.ts';
import type { TypeName } from '../../src/type-traits.ts';
import { BUILDS, instantiate } from './harness.ts';

const ROWS = 8;
const NE0 = 512;
const path = fileURLToPath(new URL('../../../shared/quant-golden/quant-golden.gguf', import.meta.url));
const hasShared = existsSync(path);
const file = hasShared ? new Uint8Array(readFileSync(path)) : new Uint8Array(0);
const gguf = hasShared ? await readGGUF(toBytes(file)) : undefined;

const tensor = (name: string): Uint8Array | undefined => {
  const t = gguf?.tensors.get(name);
  return t && file.slice(t.offset, t.offset + t.byteLength);
};

const TYPES: readonly TypeName[] = [
  'f16', 'bf16', 'q4_0', 'q4_1', 'q5_0', 'q5_1', 'q8_0', 'q2_K', 'q3_K', 'q4_K', 'q5_K', 'q6_K', 'iq4_nl', 'iq4_xs', 'tq1_0', 'tq2_0', 'mxfp4',
];

/** Only read: their quantisers are no part of quantlet. */
const READ_ONLY: readonly TypeName[] = ['iq1_s', 'iq1_m', 'iq2_xxs', 'iq2_xs', 'iq2_s', 'iq3_xxs', 'iq3_s'];

const firstDifference = (got: Uint8Array, want: Uint8Array): string => {
  const i = want.findIndex((w, j) => got[j] !== w);
  return i < 0 ? 'equal' : `byte ${i} of ${want.length}: got ${got[i]}, want ${want[i]}`;
};

describe.runIf(hasShared).each(BUILDS)('quant-golden.gguf on %s', (build) => {
  const k = instantiate(build);

  it.each(TYPES)('quantize_chunk of %s, without and with an imatrix', (type) => {
    for (const variant of ['', '.imat']) {
      const want = tensor(type + variant);
      if (!want) continue;
      k.arena.reset();
      const src = k.arena.bytes(tensor('src')!, 4);
      const dst = k.arena.alloc(want.length, 1);
      const imatrix = variant ? k.arena.bytes(tensor('imatrix')!, 4) : 0;
      const work = k.arena.alloc(k.call('quantize_work_size'));
      k.call('quantize_chunk', TYPE[type].id, src, dst, ROWS, NE0, imatrix, work);
      k.arena.checkGuards();
      expect(want.length).toBe(ROWS * rowSize(TYPE[type], NE0));
      expect(firstDifference(k.arena.readBytes(dst, want.length), want), type + variant).toBe('equal');
    }
  });

  it.each([...TYPES, ...READ_ONLY])('dequantize_row of %s', (type) => {
    for (const variant of ['', '.imat']) {
      const bytes = tensor(type + variant);
      if (!bytes) continue;
      k.arena.reset();
      const want = tensor(`${type}${variant}.deq`)!;
      const x = k.arena.bytes(bytes, 1);
      const y = k.arena.alloc(want.length, 3);
      k.call('dequantize_row', TYPE[type].id, x, y, ROWS * NE0);
      k.arena.checkGuards();
      expect(firstDifference(k.arena.readBytes(y, want.length), want), type + variant).toBe('equal');
    }
  });
});
