import { describe, expect, test } from 'vitest';
import { firstInvalidBlock } from '../../src/quantize/validate.ts';
import type { TypeName } from '../../src/type-traits.ts';
import { TYPE } from '../../src/type-traits.ts';

/** Offset of numbers in each format that may fail to be finite, and bytes that make them so. */
const CASES: readonly (readonly [type: TypeName, at: number, bytes: readonly number[]])[] = [
  ['f32', 0, [0, 0, 0x80, 0x7f]],
  ['f32', 0, [1, 0, 0xc0, 0xff]],
  ['f16', 0, [0, 0x7c]],
  ['f16', 0, [0, 0xfe]],
  ['bf16', 0, [0x80, 0xff]],
  ['q4_0', 0, [0, 0x7c]],
  ['q4_1', 0, [0, 0xfc]],
  ['q4_1', 2, [0, 0x7c]],
  ['q5_0', 0, [1, 0x7c]],
  ['q5_1', 2, [0, 0x7e]],
  ['q8_0', 0, [0, 0x7c]],
  ['q2_K', 80, [0, 0x7c]],
  ['q2_K', 82, [0, 0x7c]],
  ['q3_K', 108, [0, 0x7c]],
  ['q4_K', 0, [0, 0x7c]],
  ['q4_K', 2, [0, 0x7c]],
  ['q5_K', 2, [0, 0x7c]],
  ['q6_K', 208, [0, 0x7c]],
  ['iq4_nl', 0, [0, 0x7c]],
  ['iq4_xs', 0, [0, 0x7c]],
  ['tq1_0', 52, [0, 0x7c]],
  ['tq2_0', 64, [0, 0x7c]],
  ['mxfp4', 0, [255]],
  ['iq1_m', 52, [0, 0xc0, 0, 0x70]],
  ['iq2_xxs', 0, [0, 0x7c]],
];

describe('blocks whose scales are not finite are found', () => {
  test.each(CASES)('%s at byte %i', (name, at, bytes) => {
    const { typeSize } = TYPE[name];
    const data = new Uint8Array(typeSize * 5).fill(0x3b);
    expect(firstInvalidBlock(TYPE[name], data)).toBe(-1);
    data.set(bytes, 3 * typeSize + at);
    data.set(bytes, 4 * typeSize + at);
    expect(firstInvalidBlock(TYPE[name], data)).toBe(3);
  });

  test('quants may be any bytes', () => {
    const data = new Uint8Array(34 * 2).fill(0xff);
    data.set([0, 0x3c]);
    data.set([0, 0x3c], 34);
    expect(firstInvalidBlock(TYPE.q8_0, data)).toBe(-1);
  });
});
