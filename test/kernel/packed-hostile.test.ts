/**
 * Packed products of rows that no model should have: zeros, -0, outliers, subnormals, the largest
 * negative number, and awkward or infinite scales.
 */
import { describe, expect, it } from 'vitest';
import { firstInvalidBlock } from '../../src/quantize/validate.ts';
import { TYPE, rowSize } from '../../src/type-traits.ts';
import type { TypeName } from '../../src/type-traits.ts';
import { HOSTILE, N, ROWS, SCALES_F16, scaledBlocks } from '../golden/formats-rows.ts';
import { dequantizeRows, dotPacked, quantizeAct } from '../reference/packed.ts';
import { BUILDS, instantiate, type Kernels } from './harness.ts';
import { CASES } from './packed-blocks.ts';
import { pack, product, type Packed } from './packed-ways.ts';

/** Types that the kernels can quantise rows to. Grids have a module of their own for that. */
const TYPES = CASES.map(({ type }) => type).filter((type) => TYPE[type].kernels!.quantizer);
/**
 * Tolerance per block, as a fraction of the sum of magnitudes: product of scales, sum. Below the
 * normal numbers a rounding is a step of 2^-149.
 */
const ROUNDINGS = 4 * 2 ** -24;
const STEP = 2 ** -149;
/** Above this, sums of 32 codes of up to 7 bits times a scale may overflow f32. */
const LARGEST = 2 ** (128 - 12);
const largest = (x: ArrayLike<number>): number =>
  Array.prototype.reduce.call(x, (m, v) => Math.max(m as number, Math.abs(v as number)), 0) as number;
const ACTIVATIONS = ['gaussian 1', ...HOSTILE.filter((name) => ROWS[name].every(Number.isFinite))];

const join = (parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> => Uint8Array.from(parts.flatMap((p) => [...p]));

describe.each(BUILDS)('%s', (build) => {
  const k = instantiate(build, 128);

  const quantizeRow = (type: TypeName, row: Float32Array): Uint8Array => {
    k.arena.reset();
    const y = k.arena.alloc(rowSize(TYPE[type], N));
    k.call(`quantize_row_${type}`, k.arena.f32(row), y, N, k.arena.alloc(k.call('quantize_work_size')));
    return k.arena.readBytes(y, rowSize(TYPE[type], N));
  };

  /** Compares products of every row and activation with f64, one column at a time and together. */
  const expectProducts = (type: TypeName, plain: Uint8Array, ne00: number, names: readonly string[]): void => {
    k.arena.reset();
    const packed: Packed = pack(k, type, plain, ne00, names.length);
    const x = ACTIVATIONS.map((name) => ROWS[name].slice(0, ne00));
    const together = product(k, packed, x);
    const rows = dequantizeRows(type, plain, ne00, names.length);
    for (const [i, row] of x.entries()) {
      const alone = product(k, packed, [row]);
      const q = quantizeAct(row, type);
      names.forEach((name, r) => {
        const want = dotPacked(rows[r], q);
        const where = `${name} by ${ACTIVATIONS[i]}: got ${alone[r]}, want ${want.dot}`;
        expect(together[i * names.length + r], where).toBe(alone[r]);
        const w = largest(rows[r]);
        const a = largest(row);
        if (a < LARGEST && w < LARGEST && a * w < LARGEST)
          expect(Math.abs(alone[r] - want.dot) <= (ne00 / 32) * (ROUNDINGS * want.abs + STEP), where).toBe(true);
      });
    }
  };

  it.each(TYPES)('%s: rows', (type) => {
    const rows = HOSTILE.map((name) => ({ name, bytes: quantizeRow(type, ROWS[name]) })).filter(
      ({ bytes }) => firstInvalidBlock(TYPE[type], bytes) < 0,
    );
    expect(rows.length).toBeGreaterThan(8);
    expectProducts(
      type,
      join(rows.map((r) => r.bytes)),
      N,
      rows.map((r) => r.name),
    );
  });

  it.each(TYPES)('%s: repack reports scales that are not finite, as the check of files does', (type) => {
    for (const name of HOSTILE) {
      const bytes = quantizeRow(type, ROWS[name]);
      expect(told(k, type, bytes), name).toBe(firstInvalidBlock(TYPE[type], bytes) >= 0);
    }
  });

  it.each(CASES.filter(({ scales }) => Array.isArray(scales)).map(({ type }) => type))('%s: awkward scales', (type) => {
    const { blckSize, typeSize } = TYPE[type];
    const blocks = scaledBlocks(type, typeSize, 7);
    const names = SCALES_F16.map((scale) => `scale 0x${scale.toString(16)}`);
    const finite = SCALES_F16.map((scale) => (scale & 0x7c00) !== 0x7c00);
    blocks.forEach((bytes, i) => expect(told(k, type, bytes), names[i]).toBe(!finite[i]));
    expectProducts(
      type,
      join(blocks.filter((_, i) => finite[i])),
      blckSize,
      names.filter((_, i) => finite[i]),
    );
  });
});

/** Tells if repack reports a scale that is not finite. */
function told(k: Kernels, type: TypeName, bytes: Uint8Array): boolean {
  k.arena.reset();
  const [src, w] = [0, 1].map(() => k.arena.alloc(bytes.length * k.call('packed_rows')));
  new Uint8Array(k.memory.buffer).set(bytes, src);
  return k.call('repack', TYPE[type].id, TYPE[type].id, src, w, (bytes.length / TYPE[type].typeSize) * TYPE[type].blckSize, 1) > 0;
}
