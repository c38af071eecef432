import { describe, expect, test } from 'vitest';
import type { WriteTensor, WriteValue } from '../../src/gguf/write.ts';
import { writeGGUF } from '../../src/gguf/write.ts';
import type { Imatrix } from '../../src/quantize/imatrix.ts';
import { readImatrix } from '../../src/quantize/imatrix.ts';
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

test('sums are divided by their counts, in f32; unused experts weigh all alike', async () => {
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

describe('what is no importance matrix is refused', () => {
  const sums = floats('w.in_sum2', [2], [1, 2]);
  test.each<[string, () => Promise<unknown>, string, RegExp]>([
    ['a model', () => read([sums], []), 'ERR_GGUF_INVALID', /general.type of the imatrix file is "model", expected "imatrix"/],
    ['no weights in it', () => read([]), 'ERR_GGUF_INVALID', /holds no importance weights/],
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
    [
      'another type',
      () => read([floats('w.in_sum2', [2], [], TYPE.f16), floats('w.counts', [1], [1])]),
      'ERR_GGUF_INVALID',
      /is of type f16, expected f32/,
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
