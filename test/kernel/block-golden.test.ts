/**
 * Every quantiser and dequantiser against the hashes that native ggml's results left in test/golden/formats.json: ordinary rows,
 * rows that end in zero scales, and rows that no model should have (NaN, infinities, subnormals). How they were made, and how to
 * see the bytes behind a hash: test/golden/formats.mjs.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { TYPE, rowSize } from '../../src/type-traits.ts';
import type { TypeName } from '../../src/type-traits.ts';
import { BELOW_POWERS, IMATRIX, N, ROWS, randomBlocks } from '../golden/formats-rows.mjs';
import { dequantize, vecDot } from '../reference/blocks.ts';
import { BUILDS, instantiate } from './harness.ts';

interface Golden {
  readonly ref: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly imatrix: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly below_powers: string;
  readonly dequantize: Readonly<Record<string, string>>;
  readonly vec_dot: Readonly<Record<string, number>>;
}

const golden = JSON.parse(readFileSync(new URL('../golden/formats.json', import.meta.url), 'utf8')) as Golden;
const hash = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex').slice(0, 16);
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex').slice(0, 400);

/** Results of a product in any order differ by roundings of the sum of magnitudes; the reference measures that sum. */
const SUM_ORDER = 64 * 2 ** -24;

const SEED = 1000;
const ELEMENTS = 1024;
const blocksOf = (type: TypeName): Uint8Array => randomBlocks(type, TYPE[type].typeSize, ELEMENTS / TYPE[type].blckSize, SEED + TYPE[type].id);

describe.each(BUILDS)("native ggml's results on %s", (build) => {
  const k = instantiate(build);

  it.each(Object.keys(golden.ref) as TypeName[])('quantize_row_%s as its _ref', (type) => {
    for (const [name, want] of Object.entries(golden.ref[type])) {
      k.arena.reset();
      const x = k.arena.f32(ROWS[name], 1);
      const y = k.arena.alloc(rowSize(TYPE[type], N), 1);
      k.call(`quantize_row_${type}`, x, y, N, k.arena.alloc(k.call('quantize_work_size')));
      k.arena.checkGuards();
      const got = k.arena.readBytes(y, rowSize(TYPE[type], N));
      expect(hash(got), `row "${name}", got ${hex(got)}`).toBe(want);
    }
  });

  it.each(Object.keys(golden.imatrix) as TypeName[])('quantize_chunk of %s with an imatrix', (type) => {
    for (const [name, want] of Object.entries(golden.imatrix[type])) {
      k.arena.reset();
      const x = k.arena.f32(ROWS[name], 1);
      const y = k.arena.alloc(rowSize(TYPE[type], N), 1);
      k.call('quantize_chunk', TYPE[type].id, x, y, 1, N, k.arena.f32(IMATRIX, 2), k.arena.alloc(k.call('quantize_work_size')));
      k.arena.checkGuards();
      const got = k.arena.readBytes(y, rowSize(TYPE[type], N));
      expect(hash(got), `row "${name}", got ${hex(got)}`).toBe(want);
    }
  });

  it('quantize_row_mxfp4 where log2f rounds up to the next power of two', () => {
    k.arena.reset();
    const bytes = rowSize(TYPE.mxfp4, BELOW_POWERS.length);
    const x = k.arena.f32(BELOW_POWERS);
    const y = k.arena.alloc(bytes);
    k.call('quantize_row_mxfp4', x, y, BELOW_POWERS.length);
    expect(hash(k.arena.readBytes(y, bytes))).toBe(golden.below_powers);
  });

  it.each(Object.keys(golden.dequantize) as TypeName[])('dequantize_row of random %s blocks', (type) => {
    k.arena.reset();
    const x = k.arena.bytes(blocksOf(type), 1);
    const y = k.arena.alloc(4 * ELEMENTS, 1);
    k.call('dequantize_row', TYPE[type].id, x, y, ELEMENTS);
    k.arena.checkGuards();
    expect(hash(k.arena.readBytes(y, 4 * ELEMENTS)), `starts with ${k.arena.readF32(y, 8).join(' ')}`).toBe(golden.dequantize[type]);
  });

  it('dequantize_row_mxfp4 for all 256 scales', () => {
    k.arena.reset();
    const blocks = Uint8Array.from({ length: 256 * 17 }, (_, i) => (i % 17 === 0 ? i / 17 : ((i * 29) % 251) + 1));
    const y = k.arena.alloc(4 * 256 * 32);
    k.call('dequantize_row_mxfp4', k.arena.bytes(blocks), y, 256 * 32);
    expect([...k.arena.readF32(y, 256 * 32)].map((v) => v + 0)).toEqual([...dequantize.mxfp4(blocks, 256 * 32)].map((v) => Math.fround(v) + 0));
  });

  it.each(Object.keys(golden.vec_dot) as TypeName[])('vec_dot of random %s blocks', (type) => {
    k.arena.reset();
    const dotId = k.call('vec_dot_type', TYPE[type].id);
    const dotType = Object.values(TYPE).find((t) => t.id === dotId)!.name as TypeName;
    const x = blocksOf(type);
    const y = blocksOf(dotType);
    const got = k.call('vec_dot', TYPE[type].id, ELEMENTS, k.arena.bytes(x, 1), k.arena.bytes(y, 1));
    const { abs } = vecDot(type, x, dotType, y, ELEMENTS);
    const want = golden.vec_dot[type];
    expect(Math.abs(got - want) <= SUM_ORDER * abs, `got ${got}, want ${want}, sum of magnitudes ${abs}`).toBe(true);
  });
});
