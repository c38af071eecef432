import { existsSync, readdirSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { QuantletError } from '../../src/errors.ts';
import type { WriteTensor, WriteValue } from '../../src/gguf/write.ts';
import { writeGGUF } from '../../src/gguf/write.ts';
import type { Bytes } from '../../src/io/source.ts';
import { checkedBytes } from '../../src/io/source.ts';
import { TYPE } from '../../src/type-traits.ts';

const root = new URL('../../', import.meta.url);

export const shippedModel = fileURLToPath(new URL('models/tiny-stories-q4_0.gguf', root));

const sharedFolder = new URL('../shared/', root);
export const hasShared = existsSync(sharedFolder);

/** Paths of the .gguf files in a folder of ../shared; empty without it. */
export const sharedFiles = (folder: string): string[] => {
  const at = new URL(folder, sharedFolder);
  return existsSync(at)
    ? readdirSync(at)
        .filter((name) => name.endsWith('.gguf'))
        .map((name) => fileURLToPath(new URL(name, at)))
    : [];
};

export interface CountedFile extends Bytes, AsyncDisposable {
  /** Bytes that were read so far. */
  readonly bytesRead: number;
}

/** A file that is read in pieces and counts the bytes read. */
export const openFile = async (path: string): Promise<CountedFile> => {
  const file = await open(path);
  let bytesRead = 0;
  const bytes = checkedBytes((await file.stat()).size, async (start, end) => {
    const buffer = new Uint8Array(end - start);
    const got = await file.read(buffer, 0, end - start, start);
    bytesRead += got.bytesRead;
    return buffer.subarray(0, got.bytesRead);
  });
  return {
    byteLength: bytes.byteLength,
    read: bytes.read,
    get bytesRead() {
      return bytesRead;
    },
    [Symbol.asyncDispose]: () => file.close(),
  };
};

/** Returns the QuantletError that a promise rejects with; anything else fails the test. */
export const quantletError = async (promise: Promise<unknown>): Promise<QuantletError> => {
  const error = await promise.then(
    () => new Error('it did not reject'),
    (e: unknown) => e,
  );
  if (error instanceof QuantletError) return error;
  throw error;
};

export const u32 = (n: number): number[] => [n & 255, (n >>> 8) & 255, (n >>> 16) & 255, n >>> 24];
export const u64 = (n: bigint | number): number[] =>
  Array.from({ length: 8 }, (_, i) => Number((BigInt.asUintN(64, BigInt(n)) >> BigInt(8 * i)) & 255n));
export const str = (text: string): number[] => {
  const bytes = new TextEncoder().encode(text);
  return [...u64(bytes.length), ...bytes];
};

export const MAGIC = [0x47, 0x47, 0x55, 0x46];

/** Assembles a file from its parts, followed by `data` zero bytes. */
export const assemble = (parts: {
  version?: number;
  tensors?: number[][];
  nTensors?: number | bigint;
  metadata?: number[][];
  nMetadata?: number | bigint;
  data?: number;
  alignment?: number;
}): Uint8Array => {
  const {
    version = 3,
    tensors = [],
    metadata = [],
    nTensors = tensors.length,
    nMetadata = metadata.length,
    data = 0,
    alignment = 32,
  } = parts;
  const header = [...MAGIC, ...u32(version), ...u64(nTensors), ...u64(nMetadata), ...metadata.flat(), ...tensors.flat()];
  const start = data > 0 ? Math.ceil(header.length / alignment) * alignment : header.length;
  const file = new Uint8Array(start + data);
  file.set(header);
  return file;
};

/** An entry of the tensor table. */
export const tensor = (name: string, ne: readonly (number | bigint)[], type = 0, offset: number | bigint = 0): number[] => [
  ...str(name),
  ...u32(ne.length),
  ...ne.flatMap(u64),
  ...u32(type),
  ...u64(offset),
];

/** A small valid model: metadata of every type and two tensors. */
export const smallFile = (): Uint8Array => {
  const metadata = new Map<string, WriteValue>([
    ['general.architecture', { type: 'str', value: 'llama' }],
    ['llama.block_count', { type: 'u32', value: 2 }],
    ['some.tokens', { type: 'arr[str]', value: ['a', 'bc', ''] }],
    ['some.scores', { type: 'arr[f32]', value: Float32Array.of(1, -2.5) }],
  ]);
  const tensors: (WriteTensor & { data: Uint8Array })[] = [
    { name: 'a.weight', type: TYPE.q4_0, ne: [64, 3], data: new Uint8Array(108).fill(1) },
    { name: 'b.weight', type: TYPE.f32, ne: [5], data: new Uint8Array(20).fill(2) },
  ];
  return writeGGUF(metadata, tensors);
};
