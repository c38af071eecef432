import { describe, expect, test } from 'vitest';
import type { WriteTensor, WriteValue } from '../../src/gguf/write.ts';
import { writeGGUF } from '../../src/gguf/write.ts';
import type { Imatrix } from '../../src/quantize/imatrix.ts';
import {
  joinImatrices,
  readImatrix,
  readImatrixSums,
  writeImatrix,
  writeImatrixDat,
  type ImatrixSums,
  type InputSums,
} from '../../src/quantize/imatrix.ts';
import { failure } from '../support.ts';
import { toBytes } from '../../src/io/source.ts';
import type { TypeTraits } from '../../src/type-traits.ts';
import { rowSize, TYPE } from '../../src/type-traits.ts';
import { quantletError } from '../gguf/files.ts';

const METADATA: readonly (readonly [string, WriteValue])[] = [
  ['general.type', { type: 'str', value: 'imatrix' }],
  ['imatrix.datasets', { type: 'arr[str]', value: ['some text'] }],
  ['imatrix.chunk_count', { type: 'u32', value: 5 }],
  ['imatrix.chunk_size', { type: 'u32', value: 512 }],
];

type Tensor = WriteTensor & { data: Uint8Array };
const floats = (name: string, ne: number[], values: number[], type: TypeTraits = TYPE.f32): Tensor => ({
  name,
  type,
  ne,
  data: type === TYPE.f32 ? new Uint8Array(Float32Array.from(values).buffer) : new Uint8Array(rowSize(type, ne[0])),
});

const read = (tensors: Tensor[], metadata = METADATA): Promise<Imatrix> => readImatrix(toBytes(writeGGUF(new Map(metadata), tensors)));

test('sums are divided by their counts, in f32; unused experts get equal weights', async () => {
  const imatrix = await read([
    floats('blk.0.attn_q.weight.in_sum2', [4], [1, 2, 3, 4]),
    floats('blk.0.attn_q.weight.counts', [1], [3]),
    floats('e.weight.in_sum2', [2, 3], [2, 4, 9, 9, 10, 20]),
    floats('e.weight.counts', [1, 3], [2, 0, 10]),
    floats('unrelated', [1], [7]),
  ]);
  expect([...imatrix.values.keys()]).toEqual(['blk.0.attn_q.weight', 'e.weight']);
  expect(imatrix.values.get('blk.0.attn_q.weight')).toEqual(Float32Array.of(1 / 3, 2 / 3, 1, 4 / 3));
  expect(imatrix.values.get('e.weight')).toEqual(Float32Array.of(1, 2, 1, 1, 1, 2));
  expect(imatrix).toMatchObject({ datasets: ['some text'], chunkCount: 5 });
});

describe('files that are not an importance matrix are refused', () => {
  const sums = floats('w.in_sum2', [2], [1, 2]);
  test.each<[string, () => Promise<unknown>, string, RegExp]>([
    ['a model', () => read([sums], []), 'ERR_GGUF_INVALID', /general.type of the imatrix file is "model"; expected "imatrix"/],
    ['no weights in it', () => read([]), 'ERR_GGUF_INVALID', /has no importance weights/],
    ['counts missing', () => read([sums]), 'ERR_GGUF_INVALID', /has "w.in_sum2" but no "w.counts"/],
    [
      'counts of another number',
      () => read([sums, floats('w.counts', [1, 2], [1, 1])]),
      'ERR_GGUF_INVALID',
      /has 2 counts .* expected one for each of its 1 rows/,
    ],
    [
      'counts in columns',
      () => read([floats('w.in_sum2', [2, 2], [1, 2, 3, 4]), floats('w.counts', [2], [1, 1])]),
      'ERR_GGUF_INVALID',
      /ne\[0\] 2/,
    ],
    [
      'infinity',
      () => read([floats('w.in_sum2', [2], [1, Infinity]), floats('w.counts', [1], [1])]),
      'ERR_GGUF_INVALID',
      /has Infinity for input 1 of "w"/,
    ],
    [
      'NaN',
      () => read([floats('w.in_sum2', [2], [NaN, 1]), floats('w.counts', [1], [1])]),
      'ERR_GGUF_INVALID',
      /has NaN for input 0 of "w"/,
    ],
    ['a count of NaN', () => read([sums, floats('w.counts', [1], [NaN])]), 'ERR_GGUF_INVALID', /has NaN for count 0 of "w"/],
    [
      'another type',
      () => read([floats('w.in_sum2', [2], [], TYPE.f16), floats('w.counts', [1], [1])]),
      'ERR_GGUF_INVALID',
      /is of type f16; expected f32/,
    ],
    [
      'the old format',
      () => readImatrix(toBytes(Uint8Array.of(3, 0, 0, 0, 20, 0, 0, 0, 65, 66))),
      'ERR_GGUF_MAGIC',
      /the imatrix is not a GGUF file; .* convert an old .dat file/,
    ],
  ])('%s', async (_, make, code, message) => {
    const error = await quantletError(make());
    expect(error.message).toMatch(message);
    expect(error.code).toBe(code);
  });
});

const entry = (sums: number[], counts: number[]): InputSums => ({ sums: Float32Array.from(sums), counts: Float32Array.from(counts) });
const imatrixOf = (entries: Record<string, InputSums>, datasets: string[] = []): ImatrixSums => ({
  entries: new Map(Object.entries(entries)),
  datasets,
  chunkCount: 2,
});

test('written files are read back, with experts, in order of names', async () => {
  const written = imatrixOf({ b: entry([1, 2, 3, 4, 5, 6], [8, 0, 4]), a: entry([0.5], [8]) }, ['one', 'two']);
  const got = await readImatrixSums(toBytes(writeImatrix(written, 4)));
  expect(got).toEqual(written);
  expect([...got.entries.keys()]).toEqual(['a', 'b']);
});

test('the old format: mean squares times windows, without unused tensors', () => {
  const file = writeImatrixDat(imatrixOf({ b: entry([1, 2, 3, 4], [5, 0]), a: entry([1], [0]) }, ['one', 'two']), 4);
  // 5 inputs are 2 windows of 4, the second not full. Unused experts weigh 1.
  const want = [Int32Array.of(1, 1), 'b', Int32Array.of(2, 4), Float32Array.of(0.4, 0.8, 2, 2), Int32Array.of(2, 3), 'two'];
  expect(Buffer.from(file)).toEqual(
    Buffer.concat(want.map((part) => (typeof part === 'string' ? Buffer.from(part) : Buffer.from(part.buffer)))),
  );
});

describe('several matrices joined', () => {
  test('sums and counts are added, texts concatenated, windows recounted', () => {
    const joined = joinImatrices(
      [imatrixOf({ a: entry([1, 2], [4]), b: entry([1], [4]) }, ['x']), imatrixOf({ a: entry([3, 5], [7]) }, ['y'])],
      4,
    );
    expect(joined).toEqual(imatrixOf({ a: entry([4, 7], [11]), b: entry([1], [4]) }, ['x', 'y']));
  });

  test.each<[string, InputSums, InputSums, RegExp]>([
    ['of another width', entry([1, 2], [1]), entry([1], [1]), /2 and 1 sums, 1 and 1 counts for "a"; expected the same numbers/],
    ['of other experts', entry([1, 2], [1]), entry([1, 2], [1, 1]), /2 and 2 sums, 1 and 2 counts/],
    ['too large together', entry([3e38], [1]), entry([3e38], [1]), /has Infinity for input 0 of "a"/],
  ])('%s: refused', async (_, a, b, message) => {
    const got = await failure(() => Promise.resolve(joinImatrices([imatrixOf({ a }), imatrixOf({ a: b })], 4)));
    expect([got.code, got.message]).toEqual([
      expect.stringMatching(/^ERR_(INVALID_ARGUMENT|GGUF_INVALID)$/),
      expect.stringMatching(message),
    ]);
  });
});
