/**
 * Every quantiser and dequantiser compared with hashes of native ggml's results in
 * test/golden/formats.json: ordinary rows, rows that give zero scales, and rows that no model
 * should have (NaN, infinities, subnormals). The hashes come from test/golden/formats.ts, which can
 * also print the hashed bytes.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { TYPE, rowSize } from '../../src/type-traits.ts';
import type { TypeName } from '../../src/type-traits.ts';
import { BELOW_POWERS, IMATRIX, N, ROWS, SCALES_F16, oneNaN, oneNaNScale, randomBlocks, scaledBlocks } from '../golden/formats-rows.ts';
import { dequantize, vecDot } from '../reference/blocks.ts';
import { BUILDS, instantiate, quantized } from './harness.ts';

/** JSON has neither NaN nor infinities. */
type GoldenNumber = number | 'NaN' | 'Infinity' | '-Infinity';

interface Golden {
  readonly ref: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly imatrix: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly below_powers: string;
  readonly dequantize: Readonly<Record<string, string>>;
  readonly vec_dot: Readonly<Record<string, number>>;
  /**
   * For each row: hash of the dequantised bytes; products as weights with an ordinary row, as
   * activations, and with itself.
   */
  readonly hostile: Readonly<Record<string, Readonly<Record<string, readonly [string, GoldenNumber, GoldenNumber, GoldenNumber]>>>>;
  /**
   * For each of SCALES_F16: hash of the dequantised bytes, and the product with an ordinary row if
   * the type has one.
   */
  readonly scaled: Readonly<Record<string, readonly (readonly [string, GoldenNumber?])[]>>;
}

const golden = JSON.parse(readFileSync(new URL('../golden/formats.json', import.meta.url), 'utf8')) as Golden;
const hash = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex').slice(0, 16);
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex').slice(0, 400);

/**
 * Tolerance for sums in another order, as a fraction of the sum of magnitudes that the reference
 * gives.
 */
const SUM_ORDER = 64 * 2 ** -24;

const F32_MAX = (2 - 2 ** -23) * 2 ** 127;

/** Largest finite magnitude of a row. */
const largest = (type: TypeName, bytes: Uint8Array, n: number): number =>
  dequantize[type](bytes, n).reduce((m, v) => (Math.abs(v) < Infinity ? Math.max(m, Math.abs(v)) : m), 0);

const SEED = 1000;
const ELEMENTS = 1024;
const blocksOf = (type: TypeName): Uint8Array =>
  randomBlocks(type, TYPE[type].typeSize, ELEMENTS / TYPE[type].blckSize, SEED + TYPE[type].id);

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
      expect(hash(oneNaNScale(type, got)), `row "${name}", got ${hex(got)}`).toBe(want);
    }
  });

  it.each(Object.keys(golden.imatrix) as TypeName[])('quantize_chunk of %s with an imatrix', (type) => {
    for (const [name, want] of Object.entries(golden.imatrix[type])) {
      const got = quantized(type, ROWS[name], N, IMATRIX);
      expect(hash(oneNaNScale(type, got)), `row "${name}", got ${hex(got)}`).toBe(want);
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

  const quantizeRow = (type: TypeName, row: Float32Array): Uint8Array => {
    k.arena.reset();
    const y = k.arena.alloc(rowSize(TYPE[type], row.length));
    k.call(`quantize_row_${type}`, k.arena.f32(row), y, row.length, k.arena.alloc(k.call('quantize_work_size')));
    return k.arena.readBytes(y, rowSize(TYPE[type], row.length));
  };
  const dequantizeRow = (type: TypeName, bytes: Uint8Array, n: number): Uint8Array => {
    k.arena.reset();
    const y = k.arena.alloc(4 * n, 1);
    k.call('dequantize_row', TYPE[type].id, k.arena.bytes(bytes, 1), y, n);
    k.arena.checkGuards();
    return oneNaN(k.arena.readBytes(y, 4 * n));
  };
  const expectDot = (type: TypeName, x: Uint8Array, y: Uint8Array, n: number, want: GoldenNumber, where: string): void => {
    k.arena.reset();
    const got = k.call('vec_dot', TYPE[type].id, n, k.arena.bytes(x, 1), k.arena.bytes(y, 1));
    // Near the limit of f32, one order of sums overflows and another does not, in ggml from build
    // to build.
    if (largest(dotTypeOf(type), y, n) * Math.max(1, largest(type, x, n)) > F32_MAX / n) return;
    // The order also decides between NaN and the infinities.
    if (typeof want === 'string') return expect(Number.isFinite(got), `${where}: got ${got}, want ${want}`).toBe(false);
    const { abs } = vecDot(type, x, dotTypeOf(type), y, n);
    expect(Math.abs(got - want) <= SUM_ORDER * abs, `${where}: got ${got}, want ${want}, sum of magnitudes ${abs}`).toBe(true);
  };
  const dotTypeOf = (type: TypeName): TypeName => {
    const id = k.call('vec_dot_type', TYPE[type].id);
    return Object.values(TYPE).find((t) => t.id === id)!.name as TypeName;
  };

  const hasDot = (type: TypeName): boolean => TYPE[type].kernels?.vecDotType !== undefined;

  it.each(Object.keys(golden.hostile) as TypeName[])('hostile rows of %s: dequantize_row, and vec_dot on either side', (type) => {
    const other = hasDot(type) ? dotTypeOf(type) : type;
    const [w1, x1] = [type, other].map((t) => quantizeRow(t, ROWS['gaussian 1']));
    for (const [name, [bytes, asWeights, asActivations, withItself]] of Object.entries(golden.hostile[type])) {
      const [w, x] = [type, other].map((t) => quantizeRow(t, ROWS[name]));
      expect(hash(dequantizeRow(type, w, N)), name).toBe(bytes);
      if (!hasDot(type)) continue;
      expectDot(type, w, x1, N, asWeights, `"${name}" as weights`);
      expectDot(type, w1, x, N, asActivations, `"${name}" as activations`);
      expectDot(type, w, x, N, withItself, `"${name}" with itself`);
    }
  });

  it.each(Object.keys(golden.scaled) as TypeName[])('awkward scales of %s: dequantize_row and vec_dot', (type) => {
    const { blckSize, typeSize, id } = TYPE[type];
    const ordinary = ROWS['gaussian 1'].slice(0, 256);
    scaledBlocks(type, typeSize, SEED + id).forEach((x, i) => {
      const where = `scale 0x${SCALES_F16[i].toString(16)}`;
      const [bytes, want] = golden.scaled[type][i];
      expect(hash(dequantizeRow(type, x, blckSize)), where).toBe(bytes);
      if (want !== undefined && hasDot(type)) expectDot(type, x, quantizeRow(dotTypeOf(type), ordinary), blckSize, want, where);
    });
  });

  it('dequantize_row_mxfp4 for all 256 scales', () => {
    k.arena.reset();
    const blocks = Uint8Array.from({ length: 256 * 17 }, (_, i) => (i % 17 === 0 ? i / 17 : ((i * 29) % 251) + 1));
    const y = k.arena.alloc(4 * 256 * 32);
    k.call('dequantize_row_mxfp4', k.arena.bytes(blocks), y, 256 * 32);
    expect([...k.arena.readF32(y, 256 * 32)].map((v) => v + 0)).toEqual(
      [...dequantize.mxfp4(blocks, 256 * 32)].map((v) => Math.fround(v) + 0),
    );
  });

  it.each((Object.keys(golden.vec_dot) as TypeName[]).filter(hasDot))('vec_dot of random %s blocks', (type) => {
    k.arena.reset();
    expectDot(type, blocksOf(type), blocksOf(dotTypeOf(type)), ELEMENTS, golden.vec_dot[type], 'random blocks');
  });
});
