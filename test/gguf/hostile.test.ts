import { describe, expect, test } from 'vitest';
import type { QuantletErrorCode } from '../../src/errors.ts';
import { readGGUF } from '../../src/gguf/read.ts';
import { toBytes } from '../../src/io/source.ts';
import { assemble, MAGIC, quantletError, smallFile, str, tensor, u32, u64 } from './files.ts';

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);
const key = (name: string, type: number, ...value: number[]): number[] => [...str(name), ...u32(type), ...value];
const F32 = 0;
const Q4_0 = 2;
const [U8, U32, BOOL, STR, ARR] = [0, 4, 7, 8, 9];
const nested = (depth: number): number[] =>
  Array.from({ length: depth - 1 }, () => [...u32(ARR), ...u64(1)])
    .flat()
    .concat(u32(U8), u64(0));

/** Name, file, error code, and what the message must say was found and was expected. */
const CASES: readonly (readonly [name: string, file: Uint8Array, code: QuantletErrorCode, found: RegExp, expected: RegExp])[] = [
  ['empty file', new Uint8Array(0), 'ERR_GGUF_MAGIC', /0 bytes/, /expected a GGUF file/],
  ['text', bytesOf('hello, world'), 'ERR_GGUF_MAGIC', /68 65 6c 6c/, /expected 47 47 55 46/],
  ['one wrong byte', bytesOf('x'), 'ERR_GGUF_MAGIC', /bytes 78/, /expected 47 47 55 46/],
  ['a web page', bytesOf('<!DOCTYPE html><html>'), 'ERR_GGUF_MAGIC', /web page/, /expected 47 47 55 46/],
  ['a Git LFS pointer', bytesOf('version https://git-lfs.github.com/spec/v1'), 'ERR_GGUF_MAGIC', /Git LFS pointer/, /expected 47 47 55 46/],
  ...(
    [
      ['a safetensors file', [0x3d, 0x12, 0, 0, 0, 0, 0, 0, ...bytesOf('{"__metadata__":')], /a safetensors file: convert it/],
      ['a zip archive', [...bytesOf('PK\x03\x04'), 0, 0, 8, 8], /maybe a PyTorch checkpoint: convert it/],
      ['a pickle', [0x80, 2, 0x8a, 0x0a, 0x6c], /a Python pickle/],
      ['an ONNX model', [8, 7, 0x12, 7, ...bytesOf('pytorch')], /an ONNX model/],
      ['a TensorFlow Lite model', [0x1c, 0, 0, 0, ...bytesOf('TFL3')], /TensorFlow Lite/],
      ['an HDF5 file', [0x89, ...bytesOf('HDF\r\n\x1a\n')], /HDF5/],
      ['a gzip archive', [0x1f, 0x8b, 8, 0, 0, 0, 0, 0], /a gzip archive: unpack it/],
      ['JSON', [...bytesOf('{"error":"Repository not found"}')], /\(JSON, maybe/],
      ['plain text', [...bytesOf('Entry not found')], /\(a text file\)/],
    ] as const
  ).map(([name, bytes, found]) => [name, Uint8Array.from(bytes), 'ERR_GGUF_MAGIC', found, /expected 47 47 55 46/] as const),
  ['an old GGML file', bytesOf('tjgg\x03\0\0\0'), 'ERR_GGUF_MAGIC', /old GGML/, /expected 47 47 55 46/],
  ['magic cut', bytesOf('GG'), 'ERR_GGUF_TRUNCATED', /found 2/, /8 bytes are needed/],
  ['version 1', assemble({ version: 1 }), 'ERR_GGUF_VERSION', /version 1 was found/, /expected 2 or 3/],
  ['version 0', assemble({ version: 0 }), 'ERR_GGUF_VERSION', /version 0 was found/, /expected 2 or 3/],
  ['version 4', assemble({ version: 4 }), 'ERR_GGUF_VERSION', /version 4 was found/, /expected 2 or 3/],
  [
    'big-endian',
    Uint8Array.of(...MAGIC, 0, 0, 0, 3, ...u64(0), ...u64(0)),
    'ERR_GGUF_VERSION',
    /big-endian .* version 3/,
    /expected little-endian/,
  ],
  ['cut in the version', Uint8Array.of(...MAGIC, 3, 0), 'ERR_GGUF_TRUNCATED', /found 6/, /8 bytes are needed/],
  ['cut in the counts', Uint8Array.of(...MAGIC, ...u32(3), ...u64(0), 1, 0), 'ERR_GGUF_TRUNCATED', /found 10/, /16 bytes are needed/],

  ['2^60 tensors', assemble({ nTensors: 2n ** 60n }), 'ERR_GGUF_INVALID', /1152921504606846976 tensors/, /at most/],
  ['2^60 metadata entries', assemble({ nMetadata: 2n ** 60n }), 'ERR_GGUF_INVALID', /1152921504606846976 metadata/, /at most/],
  ['2^17 + 1 tensors', assemble({ nTensors: 2 ** 17 + 1 }), 'ERR_GGUF_INVALID', /131073 tensors/, /at most 131072/],
  ['2^16 + 1 metadata entries', assemble({ nMetadata: 2 ** 16 + 1 }), 'ERR_GGUF_INVALID', /65537 metadata entries/, /at most 65536/],
  ['2^17 tensors', assemble({ nTensors: 2 ** 17 }), 'ERR_GGUF_TRUNCATED', /found 0/, /at least 4325376 bytes are needed/],
  ['one metadata entry more than there is', assemble({ nMetadata: 1 }), 'ERR_GGUF_TRUNCATED', /found 0/, /14 bytes are needed/],
  [
    'one tensor more than there is',
    assemble({ nTensors: 2, tensors: [tensor('a', [1])], data: 0 }),
    'ERR_GGUF_TRUNCATED',
    /found 33/,
    /66 bytes are needed/,
  ],

  [
    'key of 2^60 bytes',
    assemble({ metadata: [[...u64(2n ** 60n), ...Array<number>(20).fill(65)]] }),
    'ERR_GGUF_INVALID',
    /1152921504606846976 bytes/,
    /at most 65535/,
  ],
  [
    'key longer than the file',
    assemble({ metadata: [[...u64(500), ...Array<number>(20).fill(65)]] }),
    'ERR_GGUF_TRUNCATED',
    /found 20/,
    /500 bytes are needed/,
  ],
  [
    'empty key',
    assemble({ metadata: [key('', U32, ...u32(1)), key('a', U32, ...u32(1))] }),
    'ERR_GGUF_INVALID',
    /empty name/,
    /expected 1 to/,
  ],
  [
    'duplicate key',
    assemble({ metadata: [key('a', U32, ...u32(1)), key('a', U32, ...u32(1))] }),
    'ERR_GGUF_INVALID',
    /"a" was found twice/,
    /unique/,
  ],
  ['value type 13', assemble({ metadata: [key('a', 13, ...u32(1))] }), 'ERR_GGUF_INVALID', /value type 13/, /expected 0 to 12/],
  [
    'cut in a value',
    assemble({ metadata: [key('long.key', U32, 1, 0)] }),
    'ERR_GGUF_TRUNCATED',
    /"long.key".*found 2/,
    /4 bytes are needed/,
  ],
  [
    'string of 2^60 bytes',
    assemble({ metadata: [key('a', STR, ...u64(2n ** 60n))] }),
    'ERR_GGUF_INVALID',
    /1152921504606846976 bytes/,
    /at most/,
  ],
  [
    'string longer than the file',
    assemble({ metadata: [key('a', STR, ...u64(100), 65)] }),
    'ERR_GGUF_TRUNCATED',
    /found 1 /,
    /100 bytes are needed/,
  ],
  ['bool of 2', assemble({ metadata: [key('some.flag', BOOL, 2)] }), 'ERR_GGUF_INVALID', /bool of 2 .*"some.flag"/, /expected 0 or 1/],
  [
    'bool of 255 in an array',
    assemble({ metadata: [key('a', ARR, ...u32(BOOL), ...u64(3), 0, 1, 255)] }),
    'ERR_GGUF_INVALID',
    /bool of 255/,
    /expected 0 or 1/,
  ],
  [
    'array of 2^60 numbers',
    assemble({ metadata: [key('a', ARR, ...u32(U32), ...u64(2n ** 60n))] }),
    'ERR_GGUF_INVALID',
    /4611686018427387904 bytes/,
    /at most/,
  ],
  [
    'array of 2^60 strings',
    assemble({ metadata: [key('a', ARR, ...u32(STR), ...u64(2n ** 60n))] }),
    'ERR_GGUF_INVALID',
    /9223372036854775808 bytes/,
    /at most/,
  ],
  [
    'array of numbers longer than the file',
    assemble({ metadata: [key('a', ARR, ...u32(U32), ...u64(10), 1, 2)] }),
    'ERR_GGUF_TRUNCATED',
    /found 2/,
    /40 bytes are needed/,
  ],
  [
    'array of strings longer than the file',
    assemble({ metadata: [key('a', ARR, ...u32(STR), ...u64(10), ...str('x'))] }),
    'ERR_GGUF_TRUNCATED',
    /found 9/,
    /80 bytes are needed/,
  ],
  [
    'string in an array longer than the file',
    assemble({ metadata: [key('a', ARR, ...u32(STR), ...u64(1), ...u64(77), 65)] }),
    'ERR_GGUF_TRUNCATED',
    /found 1 /,
    /77 bytes are needed/,
  ],
  [
    'string of 2^60 bytes in an array',
    assemble({ metadata: [key('a', ARR, ...u32(STR), ...u64(1), ...u64(2n ** 60n))] }),
    'ERR_GGUF_INVALID',
    /1152921504606846976 bytes/,
    /at most/,
  ],
  ['arrays nested too deep', assemble({ metadata: [key('a', ARR, ...nested(5))] }), 'ERR_GGUF_INVALID', /nested 5 deep/, /at most 4/],
  [
    '2^60 nested arrays',
    assemble({ metadata: [key('a', ARR, ...u32(ARR), ...u64(2n ** 60n))] }),
    'ERR_GGUF_INVALID',
    /bytes was found/,
    /at most/,
  ],
  ['alignment 0', assemble({ metadata: [key('general.alignment', U32, ...u32(0))] }), 'ERR_GGUF_INVALID', /alignment is 0/, /power of two/],
  [
    'alignment 48',
    assemble({ metadata: [key('general.alignment', U32, ...u32(48))] }),
    'ERR_GGUF_INVALID',
    /alignment is 48/,
    /power of two/,
  ],
  [
    'alignment as text',
    assemble({ metadata: [key('general.alignment', STR, ...str('32'))] }),
    'ERR_GGUF_INVALID',
    /alignment is 32 \(str\)/,
    /power of two \(u32\)/,
  ],

  [
    '0 dimensions',
    assemble({ tensors: [[...tensor('w', []), ...u64(0)]], data: 32 }),
    'ERR_GGUF_INVALID',
    /"w" has 0 dimensions/,
    /expected 1 to 4/,
  ],
  [
    '5 dimensions',
    assemble({ tensors: [tensor('w', [1, 1, 1, 1, 1])], data: 32 }),
    'ERR_GGUF_INVALID',
    /"w" has 5 dimensions/,
    /expected 1 to 4/,
  ],
  [
    '2^32 - 1 dimensions',
    assemble({ tensors: [[...str('w'), ...u32(0xffffffff), ...u64(1), ...u32(0), ...u64(0)]], data: 32 }),
    'ERR_GGUF_INVALID',
    /4294967295 dimensions/,
    /expected 1 to 4/,
  ],
  ['ne of 0', assemble({ tensors: [tensor('w', [32, 0])], data: 32 }), 'ERR_GGUF_INVALID', /ne\[1\] = 0/, /at least 1/],
  ['negative ne', assemble({ tensors: [tensor('w', [-1n, 2])], data: 32 }), 'ERR_GGUF_INVALID', /ne\[0\] = -1/, /at least 1/],
  [
    '2^60 elements',
    assemble({ tensors: [tensor('w', [2n ** 60n])], data: 32 }),
    'ERR_GGUF_INVALID',
    /"w" has 1152921504606846976 elements/,
    /fewer than 2\^53/,
  ],
  [
    'a product that wraps to 0',
    assemble({ tensors: [tensor('w', [2 ** 32, 2 ** 32])], data: 32 }),
    'ERR_GGUF_INVALID',
    /18446744073709551616 elements/,
    /fewer than 2\^53/,
  ],
  [
    'a product that overflows',
    assemble({ tensors: [tensor('w', [2n ** 62n, 2n ** 62n, 2n ** 62n, 2n ** 62n])], data: 32 }),
    'ERR_GGUF_INVALID',
    /elements/,
    /fewer than 2\^53/,
  ],
  [
    'bytes beyond 2^53',
    assemble({ tensors: [tensor('w', [2 ** 52])], data: 32 }),
    'ERR_GGUF_INVALID',
    /takes 18014398509481984 bytes/,
    /fewer than 2\^53/,
  ],
  [
    '2^50 elements in a small file',
    assemble({ tensors: [tensor('w', [2 ** 50])], data: 32 }),
    'ERR_GGUF_TRUNCATED',
    /the file has 96/,
    /needs bytes 64 to 4503599627370560/,
  ],
  [
    'rows that do not fill blocks',
    assemble({ tensors: [tensor('w', [33], Q4_0)], data: 64 }),
    'ERR_GGUF_INVALID',
    /rows of 33/,
    /q4_0's block of 32/,
  ],
  [
    'unknown tensor type',
    assemble({ tensors: [tensor('blk.7.odd', [32], 4242)], data: 64 }),
    'ERR_UNSUPPORTED_TYPE',
    /"blk.7.odd" has type 4242/,
    /expected a type of ggml/,
  ],
  [
    'retired tensor type',
    assemble({ tensors: [tensor('w', [32], 4)], data: 64 }),
    'ERR_UNSUPPORTED_TYPE',
    /type 4,/,
    /expected a type of ggml/,
  ],
  [
    'name longer than the file',
    assemble({ tensors: [[...u64(300), ...Array<number>(40).fill(65)]] }),
    'ERR_GGUF_TRUNCATED',
    /found 40/,
    /300 bytes are needed/,
  ],
  [
    'duplicate tensor',
    assemble({ tensors: [tensor('w', [8], F32, 0), tensor('w', [8], F32, 32)], data: 64 }),
    'ERR_GGUF_INVALID',
    /two tensors are named "w"/,
    /unique/,
  ],
  [
    'offset not aligned',
    assemble({ tensors: [tensor('w', [1], F32, 8)], data: 64 }),
    'ERR_GGUF_INVALID',
    /"w" begins at offset 8/,
    /multiple of the alignment 32/,
  ],
  [
    'offset beyond the file',
    assemble({ tensors: [tensor('w', [1], F32, 4096)], data: 64 }),
    'ERR_GGUF_TRUNCATED',
    /the file has 128/,
    /needs bytes 4160 to 4164/,
  ],
  [
    'offset of 2^64 - 32',
    assemble({ tensors: [tensor('w', [1], F32, 2n ** 64n - 32n)], data: 64 }),
    'ERR_GGUF_TRUNCATED',
    /the file has 128/,
    /needs bytes 184467440737095516\d\d/,
  ],
  [
    'overlap',
    assemble({ tensors: [tensor('a', [16], F32, 0), tensor('b', [1], F32, 32)], data: 64 }),
    'ERR_GGUF_INVALID',
    /"a" and "b" overlap: the first ends at 160, the second begins at 128/,
    /bytes of its own/,
  ],
  [
    'one byte of data missing',
    smallFile().subarray(0, smallFile().length - 13),
    'ERR_GGUF_TRUNCATED',
    /1 are missing/,
    /"b.weight" needs bytes/,
  ],
  ['no data at all', assemble({ tensors: [tensor('w', [1])] }), 'ERR_GGUF_TRUNCATED', /the file has 57/, /needs bytes 64 to 68/],
];

describe('hostile files are refused', () => {
  test.each(CASES.map((c) => [c[0], c] as const))('%s', async (_, [, file, code, found, expected]) => {
    const error = await quantletError(readGGUF(toBytes(file)));
    expect(error.message).toMatch(found);
    expect(error.message).toMatch(expected);
    expect(error.code).toBe(code);
    expect(error.message).not.toContain('\n');
  });
});

describe('odd files that are fine', () => {
  test('no metadata and no tensors, data offset beyond the end', async () => {
    const gguf = await readGGUF(toBytes(assemble({})));
    expect(gguf).toMatchObject({ version: 3, dataOffset: 32, byteLength: 24, alignment: 32 });
  });

  test('version 2', async () => {
    expect((await readGGUF(toBytes(assemble({ version: 2, metadata: [key('a', U8, 7)] })))).metadata.get('a')).toBe(7);
  });

  test('tensors out of order and with gaps, alignment 64', async () => {
    const metadata = [key('general.alignment', U32, ...u32(64))];
    const file = assemble({ metadata, tensors: [tensor('late', [4], F32, 256), tensor('early', [4], F32, 0)], data: 320, alignment: 64 });
    const gguf = await readGGUF(toBytes(file));
    expect(gguf.alignment).toBe(64);
    expect([...gguf.tensors.keys()]).toEqual(['late', 'early']);
    expect(gguf.tensors.get('late')?.offset).toBe(gguf.dataOffset + 256);
  });

  test('text that is not UTF-8 becomes U+FFFD and keeps its bytes in reach', async () => {
    const file = assemble({
      metadata: [key('a', STR, ...u64(3), 0x61, 0xc3, 0x28), key('b', ARR, ...u32(STR), ...u64(2), ...u64(1), 0xff, ...u64(2), 0xc3, 0xa4)],
    });
    const gguf = await readGGUF(toBytes(file));
    expect(gguf.metadata.get('a')).toBe('a\ufffd(');
    expect(gguf.metadata.get('b')).toEqual(['\ufffd', 'ä']);
    const [start, end] = gguf.metadataRanges.get('a') as readonly [number, number];
    expect(Array.from(file.subarray(start, end))).toEqual([...u32(STR), ...u64(3), 0x61, 0xc3, 0x28]);
  });
});
