/** Writer of GGUF files: the header, and the offset of every tensor's data. */
import { QuantletError } from '../errors.ts';
import type { TypeTraits } from '../type-traits.ts';
import { rowSize } from '../type-traits.ts';
import type { GGUFType, GGUFValue } from './types.ts';
import { alignUp } from '../align.ts';
import { DEFAULT_ALIGNMENT, GGUF_MAGIC, isPowerOfTwo, SCALAR_TYPES } from './types.ts';

/**
 * A value to write: typed, or as bytes (type id first) from a range in a reader's `metadataRanges`.
 */
export type WriteValue = { readonly type: GGUFType; readonly value: GGUFValue } | { readonly raw: Uint8Array };

/** A tensor to write, `ne[0]` fastest. Its data is written later. */
export interface WriteTensor {
  readonly name: string;
  readonly type: TypeTraits;
  readonly ne: readonly number[];
}

/** Layout of a new file, known before any data. Gaps between tensors are zeros. */
export interface GGUFLayout {
  /** The file's first bytes, padded up to the data. */
  readonly header: Uint8Array;
  readonly tensors: readonly { readonly name: string; readonly offset: number; readonly byteLength: number }[];
  readonly byteLength: number;
}

/** Buffer that grows by doubling. */
interface Sink {
  bytes: Uint8Array;
  view: DataView;
  length: number;
}

const makeSink = (): Sink => {
  const bytes = new Uint8Array(4096);
  return { bytes, view: new DataView(bytes.buffer), length: 0 };
};

const reserve = (sink: Sink, n: number): number => {
  const at = sink.length;
  if (at + n > sink.bytes.length) {
    const bytes = new Uint8Array(Math.max(at + n, sink.bytes.length * 2));
    bytes.set(sink.bytes.subarray(0, at));
    sink.bytes = bytes;
    sink.view = new DataView(bytes.buffer);
  }
  sink.length += n;
  return at;
};

const putBytes = (sink: Sink, bytes: Uint8Array): void => {
  const at = reserve(sink, bytes.length);
  sink.bytes.set(bytes, at);
};

const encoder = new TextEncoder();

const putU32 = (sink: Sink, n: number): void => {
  const at = reserve(sink, 4);
  sink.view.setUint32(at, n, true);
};

const putU64 = (sink: Sink, n: number | bigint): void => {
  const at = reserve(sink, 8);
  sink.view.setBigUint64(at, BigInt(n), true);
};

const putString = (sink: Sink, text: string): void => {
  const bytes = encoder.encode(text);
  putU64(sink, bytes.length);
  putBytes(sink, bytes);
};

type Put = (sink: Sink, value: never) => void;

const number =
  (bytes: number, set: (view: DataView, at: number, value: number) => void): Put =>
  (sink, value) => {
    const at = reserve(sink, bytes);
    set(sink.view, at, Number(value));
  };

const PUT: Readonly<Record<string, Put>> = {
  u8: number(1, (v, at, x) => v.setUint8(at, x)),
  i8: number(1, (v, at, x) => v.setInt8(at, x)),
  u16: number(2, (v, at, x) => v.setUint16(at, x, true)),
  i16: number(2, (v, at, x) => v.setInt16(at, x, true)),
  u32: number(4, (v, at, x) => v.setUint32(at, x, true)),
  i32: number(4, (v, at, x) => v.setInt32(at, x, true)),
  f32: number(4, (v, at, x) => v.setFloat32(at, x, true)),
  f64: number(8, (v, at, x) => v.setFloat64(at, x, true)),
  u64: (sink, value: number | bigint) => putU64(sink, value),
  i64: (sink, value: number | bigint) => putU64(sink, BigInt.asUintN(64, BigInt(value))),
  bool: (sink, value: boolean) => {
    const at = reserve(sink, 1);
    sink.bytes[at] = value ? 1 : 0;
  },
  str: (sink, value: string) => putString(sink, value),
};

const typeId = (name: string): number => {
  const id = (SCALAR_TYPES as readonly string[]).indexOf(name);
  if (id < 0)
    throw new QuantletError('ERR_INVALID_ARGUMENT', `"${name}" is not a GGUF type; expected one of ${SCALAR_TYPES.join(', ')} or arr[...]`);
  return id;
};

const itemType = (type: string): string | undefined => (type.startsWith('arr[') && type.endsWith(']') ? type.slice(4, -1) : undefined);

const putValue = (sink: Sink, type: string, value: GGUFValue): void => {
  const item = itemType(type);
  if (item === undefined) {
    typeId(type);
    PUT[type](sink, value as never);
    return;
  }
  const values = value as ArrayLike<GGUFValue>;
  putU32(sink, typeId(itemType(item) === undefined ? item : 'arr'));
  putU64(sink, values.length);
  for (let i = 0; i < values.length; i++) putValue(sink, item, values[i]);
};

const alignmentOf = (metadata: ReadonlyMap<string, WriteValue>): number => {
  const entry = metadata.get('general.alignment');
  if (!entry) return DEFAULT_ALIGNMENT;
  const alignment = 'raw' in entry ? new DataView(entry.raw.buffer, entry.raw.byteOffset).getUint32(4, true) : Number(entry.value);
  if (!isPowerOfTwo(alignment))
    throw new QuantletError('ERR_INVALID_ARGUMENT', `general.alignment is ${alignment}; expected a power of two`);
  return alignment;
};

export const tensorBytes = ({ type, ne }: Pick<WriteTensor, 'type' | 'ne'>): number =>
  rowSize(type, ne[0]) * ne.slice(1).reduce((a, b) => a * b, 1);

/**
 * Header of a GGUF file and the offset of every tensor's data. Tensors keep the order given and are
 * aligned to `general.alignment` (default 32).
 *
 * @throws QuantletError ERR_INVALID_ARGUMENT for an unknown value type, a bad alignment or rows
 * that do not fill blocks
 */
export const layoutGGUF = (metadata: ReadonlyMap<string, WriteValue>, tensors: readonly WriteTensor[], version = 3): GGUFLayout => {
  const alignment = alignmentOf(metadata);
  const sink = makeSink();
  putU32(sink, GGUF_MAGIC);
  putU32(sink, version);
  putU64(sink, tensors.length);
  putU64(sink, metadata.size);
  for (const [key, entry] of metadata) {
    putString(sink, key);
    if ('raw' in entry) {
      putBytes(sink, entry.raw);
    } else {
      putU32(sink, typeId(itemType(entry.type) === undefined ? entry.type : 'arr'));
      putValue(sink, entry.type, entry.value);
    }
  }
  const relative: number[] = [];
  let end = 0;
  for (const tensor of tensors) {
    const { name, type, ne } = tensor;
    if (ne[0] % type.blckSize !== 0)
      throw new QuantletError(
        'ERR_INVALID_ARGUMENT',
        `tensor "${name}" has rows of ${ne[0]} elements; expected a multiple of ${type.name}'s block of ${type.blckSize}`,
      );
    putString(sink, name);
    putU32(sink, ne.length);
    for (const n of ne) putU64(sink, n);
    putU32(sink, type.id);
    putU64(sink, end);
    relative.push(end);
    end = alignUp(end + tensorBytes(tensor), alignment);
  }
  const dataOffset = alignUp(sink.length, alignment);
  reserve(sink, dataOffset - sink.length);
  return {
    header: sink.bytes.slice(0, dataOffset),
    tensors: tensors.map((tensor, i) => ({ name: tensor.name, offset: dataOffset + relative[i], byteLength: tensorBytes(tensor) })),
    byteLength: dataOffset + end,
  };
};

/**
 * A small GGUF file, whole in memory; `data` has each tensor's bytes. Large files are written piece
 * by piece by means of `layoutGGUF`.
 */
export const writeGGUF = (
  metadata: ReadonlyMap<string, WriteValue>,
  tensors: readonly (WriteTensor & { readonly data: Uint8Array })[],
  version = 3,
): Uint8Array => {
  const layout = layoutGGUF(metadata, tensors, version);
  const file = new Uint8Array(layout.byteLength);
  file.set(layout.header);
  tensors.forEach(({ name, data }, i) => {
    const { offset, byteLength } = layout.tensors[i];
    if (data.byteLength !== byteLength)
      throw new QuantletError(
        'ERR_INVALID_ARGUMENT',
        `tensor "${name}" was given ${data.byteLength} bytes of data; expected ${byteLength}`,
      );
    file.set(data, offset);
  });
  return file;
};
