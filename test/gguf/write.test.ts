import fc from 'fast-check';
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { readGGUF } from '../../src/gguf/read.ts';
import type { GGUF, GGUFType, GGUFValue } from '../../src/gguf/types.ts';
import type { WriteValue } from '../../src/gguf/write.ts';
import { layoutGGUF, writeGGUF } from '../../src/gguf/write.ts';
import { toBytes } from '../../src/io/source.ts';
import { TYPE } from '../../src/type-traits.ts';
import { shippedModel } from './files.ts';

const VALUES: readonly (readonly [type: GGUFType, value: GGUFValue])[] = [
  ['u8', 255],
  ['i8', -128],
  ['u16', 65535],
  ['i16', -32768],
  ['u32', 4294967295],
  ['i32', -2147483648],
  ['u64', 2 ** 53 - 1],
  ['u64', 2n ** 64n - 1n],
  ['i64', -5],
  ['i64', -(2n ** 63n)],
  ['f32', 0.5],
  ['f64', Math.PI],
  ['bool', true],
  ['bool', false],
  ['str', ''],
  ['str', 'ä\u0000€😀\ufeff'],
  ['arr[u8]', Uint8Array.of(1, 255)],
  ['arr[i8]', Int8Array.of(-1)],
  ['arr[u16]', Uint16Array.of(65535)],
  ['arr[i16]', Int16Array.of(-2)],
  ['arr[u32]', Uint32Array.of(4294967295)],
  ['arr[i32]', Int32Array.of()],
  ['arr[u64]', BigUint64Array.of(2n ** 64n - 1n)],
  ['arr[i64]', BigInt64Array.of(-1n)],
  ['arr[f32]', Float32Array.of(1.5, -0)],
  ['arr[f64]', Float64Array.of(Math.E)],
  ['arr[bool]', Uint8Array.of(1, 0)],
  ['arr[str]', ['', 'x', '▁the']],
  ['arr[arr[u32]]', [Uint32Array.of(1, 2), Uint32Array.of()]],
  ['arr[arr[arr[str]]]', [[['a'], []]]],
];

describe('written files are read back', () => {
  test('every type of value, v2 and v3', async () => {
    const metadata = new Map<string, WriteValue>(VALUES.map(([type, value], i) => [`key.${i}`, { type, value }]));
    for (const version of [2, 3]) {
      const gguf = await readGGUF(toBytes(writeGGUF(metadata, [], version)));
      expect(gguf.version).toBe(version);
      VALUES.forEach(([type, value], i) => {
        expect([i, gguf.metadataTypes.get(`key.${i}`), gguf.metadata.get(`key.${i}`)]).toEqual([i, type, value]);
      });
    }
  });

  test('random metadata', async () => {
    const value = fc.oneof(
      fc.record({ type: fc.constant<GGUFType>('str'), value: fc.string({ unit: 'grapheme', maxLength: 40 }) }),
      fc.record({ type: fc.constant<GGUFType>('arr[str]'), value: fc.array(fc.string({ unit: 'grapheme', maxLength: 40 })) }),
      fc.record({ type: fc.constant<GGUFType>('arr[f32]'), value: fc.float32Array() }),
      fc.record({ type: fc.constant<GGUFType>('i32'), value: fc.integer() }),
    );
    await fc.assert(
      fc.asyncProperty(fc.dictionary(fc.string({ minLength: 1, maxLength: 30 }), value), async (entries) => {
        const metadata = new Map<string, WriteValue>(Object.entries(entries).filter(([key]) => key !== 'general.alignment'));
        const gguf = await readGGUF(toBytes(writeGGUF(metadata, [])));
        expect([...gguf.metadata]).toEqual([...metadata].map(([key, entry]) => [key, (entry as { value: GGUFValue }).value]));
      }),
      { seed: 9, numRuns: 200 },
    );
  });

  test('tensors, padded to the alignment', async () => {
    const metadata = new Map<string, WriteValue>([['general.alignment', { type: 'u32', value: 128 }]]);
    const data = [new Uint8Array(18).fill(7), new Uint8Array(12).fill(8)];
    const file = writeGGUF(metadata, [
      { name: 'a', type: TYPE.q4_0, ne: [32], data: data[0] },
      { name: 'b', type: TYPE.f16, ne: [2, 1, 3], data: data[1] },
    ]);
    const gguf = await readGGUF(toBytes(file));
    expect(gguf.alignment).toBe(128);
    [...gguf.tensors.values()].forEach((t, i) => {
      expect(t.offset % 128).toBe(0);
      expect(file.subarray(t.offset, t.offset + t.byteLength)).toEqual(data[i]);
    });
    expect(gguf.tensors.get('b')).toMatchObject({ ne: [2, 1, 3, 1], nDims: 3 });
    expect(file.length % 128).toBe(0);
  });

  test('the shipped model, copied by its raw metadata, is the same file', async () => {
    const file = new Uint8Array(readFileSync(shippedModel));
    const gguf: GGUF = await readGGUF(toBytes(file));
    const metadata = new Map<string, WriteValue>(
      Array.from(gguf.metadataRanges, ([key, [start, end]]) => [key, { raw: file.subarray(start, end) }]),
    );
    const tensors = Array.from(gguf.tensors.values(), (t) => ({
      ...t,
      ne: t.ne.slice(0, t.nDims),
      data: file.subarray(t.offset, t.offset + t.byteLength),
    }));
    const copy = writeGGUF(metadata, tensors);
    expect(Buffer.compare(copy, file)).toBe(0);
    const typed = new Map<string, WriteValue>(
      Array.from(gguf.metadata, ([key, value]) => [key, { type: gguf.metadataTypes.get(key) as GGUFType, value }]),
    );
    expect(Buffer.compare(writeGGUF(typed, tensors), file)).toBe(0);
  });
});

describe('data that cannot be written is refused', () => {
  test.each<[string, () => unknown, RegExp]>([
    ['unknown type', () => layoutGGUF(new Map([['a', { type: 'u128' as GGUFType, value: 1 }]]), []), /"u128" is not a GGUF type/],
    [
      'rows',
      () => layoutGGUF(new Map(), [{ name: 'w', type: TYPE.q4_K, ne: [32] }]),
      /rows of 32 elements; expected a multiple of q4_K's block of 256/,
    ],
    [
      'data',
      () => writeGGUF(new Map(), [{ name: 'w', type: TYPE.f32, ne: [2], data: new Uint8Array(7) }]),
      /given 7 bytes of data; expected 8/,
    ],
    ['alignment', () => layoutGGUF(new Map([['general.alignment', { type: 'u32', value: 24 }]]), []), /is 24; expected a power of two/],
  ])('%s', (_, write, message) => {
    expect(write).toThrow(expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT', message: expect.stringMatching(message) }));
  });
});
