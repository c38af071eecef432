/** Reader of a GGUF file's header. */
import { QuantletError } from '../errors.ts';
import type { Bytes } from '../io/source.ts';
import { Cursor } from './cursor.ts';
import { notGGUF } from './not-gguf.ts';
import { placeTensors, readTensorInfo } from './tensor-info.ts';
import type { GGUF, GGUFType, GGUFValue, TensorInfo } from './types.ts';
import { alignUp } from '../align.ts';
import { DEFAULT_ALIGNMENT, isPowerOfTwo, MAGICS, whole } from './types.ts';
import { invalid, readName, readValue } from './value.ts';

/** Minimum number of bytes of a metadata entry: a name of one byte, a type, a value of one byte. */
const LEAST_METADATA_BYTES = 8 + 1 + 4 + 1;
/**
 * Minimum number of bytes of a tensor's entry: a name of one byte, n_dims, one dimension, type and
 * offset.
 */
const LEAST_TENSOR_BYTES = 8 + 1 + 4 + 8 + 4 + 8;
/**
 * Limits far above any model's numbers (some thousand tensors, a hundred entries). An entry takes
 * more memory than its bytes in the file.
 */
const MAX_TENSORS = 2 ** 17;
const MAX_METADATA = 2 ** 16;

const wrongMagic = (bytes: Uint8Array): QuantletError => {
  const mistake = notGGUF(bytes);
  const hex = Array.from(bytes.subarray(0, 4), (b) => b.toString(16).padStart(2, '0')).join(' ');
  return new QuantletError(
    'ERR_GGUF_MAGIC',
    `not a GGUF file: it begins with the bytes ${hex}${mistake ? ` (${mistake})` : ''}; expected 47 47 55 46 ("GGUF")`,
  );
};

const swapBytes = (n: number): number => ((n & 0xff) << 24) | ((n & 0xff00) << 8) | ((n >>> 8) & 0xff00) | (n >>> 24);

const checkVersion = (version: number): void => {
  if (version === 2 || version === 3) return;
  const swapped = swapBytes(version);
  if (version !== 0 && swapped >= 1 && swapped <= 3)
    throw new QuantletError(
      'ERR_GGUF_VERSION',
      `this is a big-endian GGUF file of version ${swapped}; expected little-endian: convert it with gguf_convert_endian.py of llama.cpp`,
    );
  const hint = version === 1 ? 'convert the original model again' : 'a newer quantlet may read it, or the file is damaged';
  throw new QuantletError('ERR_GGUF_VERSION', `GGUF version ${version} was found; expected 2 or 3: ${hint}`);
};

const readStart = async (cursor: Cursor, bytes: Bytes, signal?: AbortSignal): Promise<number> => {
  if (bytes.byteLength === 0) throw new QuantletError('ERR_GGUF_MAGIC', 'the file is empty: 0 bytes were found; expected a GGUF file');
  const start = await bytes.read(0, Math.min(bytes.byteLength, 32), signal);
  const magic = String.fromCharCode(...start.subarray(0, 4));
  if (!MAGICS.some((known) => known.startsWith(magic))) throw wrongMagic(start);
  await cursor.need(8);
  cursor.u32();
  const version = cursor.u32();
  checkVersion(version);
  return version;
};

const readCount = (cursor: Cursor, what: string, most: number): number => {
  const n = cursor.count();
  if (n > most) throw invalid(`the header announces ${whole(n)} ${what}; expected at most ${most}: the file is damaged`);
  return n;
};

const alignmentOf = (metadata: ReadonlyMap<string, GGUFValue>, types: ReadonlyMap<string, GGUFType>): number => {
  const alignment = metadata.get('general.alignment');
  if (alignment === undefined) return DEFAULT_ALIGNMENT;
  if (types.get('general.alignment') !== 'u32' || !isPowerOfTwo(alignment as number)) {
    throw invalid(`general.alignment is ${String(alignment)} (${types.get('general.alignment')}); expected a power of two (u32)`);
  }
  return alignment as number;
};

/**
 * Reads and checks the header of a GGUF file, version 2 or 3, little-endian, through a small
 * window, without reading the weights. Nothing in the file is trusted: counts, lengths, dimensions,
 * offsets and sizes are compared with the file's size before anything is allocated for them.
 *
 * Source: the GGUF specification, docs/gguf.md of ggml.
 *
 * @throws QuantletError ERR_GGUF_MAGIC, ERR_GGUF_VERSION, ERR_GGUF_TRUNCATED, ERR_GGUF_INVALID,
 * ERR_UNSUPPORTED_TYPE, ERR_SOURCE; `signal.reason` if aborted
 */
export const readGGUF = async (bytes: Bytes, options: { readonly signal?: AbortSignal } = {}): Promise<GGUF> => {
  const cursor = new Cursor(bytes, options.signal);
  const version = await readStart(cursor, bytes, options.signal);
  await cursor.need(16);
  const tensorCount = readCount(cursor, 'tensors', MAX_TENSORS);
  const metadataCount = readCount(cursor, 'metadata entries', MAX_METADATA);
  cursor.what = `header, which counts ${metadataCount} metadata entries and ${tensorCount} tensors`;
  cursor.fits(metadataCount * LEAST_METADATA_BYTES + tensorCount * LEAST_TENSOR_BYTES);

  const metadata = new Map<string, GGUFValue>();
  const metadataTypes = new Map<string, GGUFType>();
  const metadataRanges = new Map<string, readonly [number, number]>();
  for (let i = 0; i < metadataCount; i++) {
    cursor.what = `metadata, in the key of entry ${i} of ${metadataCount}`;
    const key = await readName(cursor);
    if (metadata.has(key)) throw invalid(`metadata key "${key}" was found twice; expected keys to be unique`);
    cursor.what = `metadata, in the value of "${key}"`;
    const start = cursor.offset;
    const { type, value } = await readValue(cursor);
    metadata.set(key, value);
    metadataTypes.set(key, type);
    metadataRanges.set(key, [start, cursor.offset]);
  }
  const alignment = alignmentOf(metadata, metadataTypes);

  const infos: TensorInfo[] = [];
  for (let i = 0; i < tensorCount; i++) {
    cursor.what = `tensor table, in entry ${i} of ${tensorCount}`;
    infos.push(await readTensorInfo(cursor));
  }
  const dataOffset = alignUp(cursor.offset, alignment);
  const tensors = placeTensors(infos, dataOffset, alignment, bytes.byteLength);
  return { version, metadata, metadataTypes, metadataRanges, tensors, alignment, dataOffset, byteLength: bytes.byteLength };
};
