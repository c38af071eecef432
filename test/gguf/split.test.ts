import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { readGGUF } from '../../src/gguf/read.ts';
import { openSplitGGUF, readSplitGGUF, splitNames } from '../../src/gguf/split.ts';
import type { GGUF } from '../../src/gguf/types.ts';
import type { WriteValue } from '../../src/gguf/write.ts';
import { writeGGUF } from '../../src/gguf/write.ts';
import type { Bytes } from '../../src/io/source.ts';
import { toBytes } from '../../src/io/source.ts';
import { quantletError, shippedModel } from './files.ts';

const shipped = new Uint8Array(readFileSync(shippedModel));
const whole: GGUF = await readGGUF(toBytes(shipped));

interface Overrides {
  readonly no?: number;
  readonly count?: number;
  readonly total?: number;
  readonly extra?: Map<string, WriteValue>;
}

/**
 * Part `i` of the shipped model split into `count` files, as gguf-split does: the first part has
 * the model's metadata.
 */
const cut = (i: number, count: number, overrides: Overrides = {}): Uint8Array => {
  const { no = i, count: said = count, total = whole.tensors.size, extra = new Map<string, WriteValue>() } = overrides;
  const metadata = new Map<string, WriteValue>(
    i === 0 ? Array.from(whole.metadataRanges, ([key, [start, end]]) => [key, { raw: shipped.subarray(start, end) }]) : [],
  );
  metadata.set('split.no', { type: 'u16', value: no });
  metadata.set('split.count', { type: 'u16', value: said });
  metadata.set('split.tensors.count', { type: 'i32', value: total });
  for (const [key, value] of extra) metadata.set(key, value);
  const infos = [...whole.tensors.values()];
  const from = Math.floor((infos.length * i) / count);
  const to = Math.floor((infos.length * (i + 1)) / count);
  return writeGGUF(
    metadata,
    infos.slice(from, to).map((t) => ({ ...t, ne: t.ne.slice(0, t.nDims), data: shipped.subarray(t.offset, t.offset + t.byteLength) })),
  );
};

const parts = (count: number): Bytes[] => Array.from({ length: count }, (_, i) => toBytes(cut(i, count)));

test('names', () => {
  expect(splitNames('dir-00009-of-00009/a b-00001-of-00003.gguf')).toEqual(
    [1, 2, 3].map((i) => `dir-00009-of-00009/a b-0000${i}-of-00003.gguf`),
  );
  expect(splitNames('x-00002-of-00002.gguf')?.[0]).toBe('x-00001-of-00002.gguf');
  expect(splitNames('x.gguf')).toBeUndefined();
  expect(splitNames('x-1-of-3.gguf')).toBeUndefined();
});

describe('a split model', () => {
  test.each([1, 2, 3, 38])('of %i parts reads as the whole one', async (count) => {
    const files = parts(count);
    const gguf = await readSplitGGUF(files);
    expect([...gguf.tensors.keys()]).toEqual([...whole.tensors.keys()]);
    expect(gguf.metadata.get('llama.embedding_length')).toBe(256);
    expect(gguf.byteLength).toBe(files.reduce((sum, f) => sum + f.byteLength, 0));
    for (const [name, t] of gguf.tensors) {
      const original = whole.tensors.get(name);
      const bytes = await files[t.part].read(t.offset, t.offset + t.byteLength);
      expect(Buffer.compare(bytes, shipped.subarray(original?.offset, (original?.offset ?? 0) + t.byteLength)), name).toBe(0);
    }
    expect(Math.max(...Array.from(gguf.tensors.values(), (t) => t.part))).toBe(count - 1);
  });

  test('from its first file, the others by name', async () => {
    const opened: string[] = [];
    const result = await openSplitGGUF(toBytes(cut(0, 3)), 'm/x-00001-of-00003.gguf', async (name) => {
      opened.push(name);
      return toBytes(cut(Number(name.slice(6, 9)) - 1, 3));
    });
    expect(opened).toEqual(['m/x-00002-of-00003.gguf', 'm/x-00003-of-00003.gguf']);
    expect(result.gguf.tensors.size).toBe(38);
    expect(result.parts.length).toBe(3);
  });

  test('a single file opens nothing else', async () => {
    const result = await openSplitGGUF(toBytes(shipped), 'x.gguf', () => Promise.reject(new Error('not asked for')));
    expect(result.parts.length).toBe(1);
    expect(result.gguf.tensors.size).toBe(38);
  });
});

describe('parts that do not fit', () => {
  const of = (...files: Uint8Array[]): Promise<unknown> => readSplitGGUF(files.map((f) => toBytes(f)));
  test.each<[string, () => Promise<unknown>, string, RegExp]>([
    ['none', () => of(), 'ERR_INVALID_ARGUMENT', /no files were given/],
    ['one missing', () => of(cut(0, 3), cut(1, 3)), 'ERR_SOURCE', /has 3 parts, but 2 were given/],
    ['only the first', () => of(cut(0, 3)), 'ERR_SOURCE', /has 3 parts, but 1 were given/],
    ['too many', () => of(shipped, shipped), 'ERR_SOURCE', /has 1 part, but 2 were given/],
    ['swapped', () => of(cut(0, 3), cut(2, 3), cut(1, 3)), 'ERR_GGUF_INVALID', /file 2 is part 3 of 3; expected part 2/],
    ['the first not first', () => of(cut(1, 2), cut(0, 2)), 'ERR_GGUF_INVALID', /file 1 is part 2 of 2; expected part 1/],
    ['twice the same', () => of(cut(0, 2), cut(0, 2)), 'ERR_GGUF_INVALID', /file 2 is part 1 of 2; expected part 2/],
    ['not split', () => of(cut(0, 2), shipped), 'ERR_GGUF_INVALID', /file 2 says that its model has 1 parts, the first file says 2/],
    [
      'of a model in more parts',
      () => of(cut(0, 2), cut(1, 2, { count: 5 })),
      'ERR_GGUF_INVALID',
      /has 5 parts, the first file says 2: it is a part of another model/,
    ],
    [
      'of a model of other size',
      () => of(cut(0, 2), cut(1, 2, { total: 77 })),
      'ERR_GGUF_INVALID',
      /model of 77 tensors, the first file to one of 38/,
    ],
    [
      'of another architecture',
      () => of(cut(0, 2), cut(1, 2, { extra: new Map([['general.architecture', { type: 'str', value: 'gemma' }]]) })),
      'ERR_GGUF_INVALID',
      /architecture gemma, the first file of llama/,
    ],
    ['the same tensors again', () => of(cut(0, 2), cut(0, 2, { no: 1 })), 'ERR_GGUF_INVALID', /tensor ".*" is in file 1 and in file 2/],
    ['tensors missing', () => of(cut(0, 2), cut(2, 3, { no: 1, count: 2 })), 'ERR_GGUF_INVALID', /have 32 tensors; expected 38/],
    [
      'a count that is no number',
      () => of(cut(0, 2, { extra: new Map([['split.count', { type: 'str', value: '2' }]]) }), cut(1, 2)),
      'ERR_GGUF_INVALID',
      /"split.count" is "2"; expected a whole number/,
    ],
    ['truncated', () => of(cut(0, 2), cut(1, 2).subarray(0, 2000)), 'ERR_GGUF_TRUNCATED', /missing|needed/],
  ])('%s', async (_, read, code, message) => {
    const error = await quantletError(read());
    expect(error.message).toMatch(message);
    expect(error.code).toBe(code);
  });

  const open = (file: Uint8Array, name: string): Promise<unknown> =>
    openSplitGGUF(toBytes(file), name, () => Promise.reject(new Error('no such file')));
  test.each<[string, () => Promise<unknown>, RegExp]>([
    ['a later part was given', () => open(cut(1, 2), 'x-00002-of-00002.gguf'), /part 2 of 2 .* give x-00001-of-00002.gguf/],
    ['renamed', () => open(cut(0, 2), 'renamed.gguf'), /first of 2 parts .* expected NAME-00001-of-00002.gguf/],
    ['a name of another count', () => open(cut(0, 2), 'x-00001-of-00003.gguf'), /first of 2 parts/],
    [
      'a part is not there',
      () => open(cut(0, 2), 'x-00001-of-00002.gguf'),
      /part 2 of 2 of the model, "x-00002-of-00002.gguf", cannot be opened: no such file/,
    ],
  ])('by name: %s', async (_, read, message) => {
    const error = await quantletError(read());
    expect(error.message).toMatch(message);
    expect(error.code).toBe('ERR_SOURCE');
  });
});
