/** Reader of GGUF's names and metadata values. */
import { QuantletError } from '../errors.ts';
import type { Cursor } from './cursor.ts';
import type { GGUFNumbers, GGUFScalarType, GGUFType, GGUFValue } from './types.ts';
import { SCALAR_TYPES, whole } from './types.ts';

/** The specification's limit for keys; applied to tensor names as well. */
const MAX_NAME_BYTES = 65535;
/**
 * Limit of one value. The largest known vocabularies take about 10 MB; more than this is a damaged
 * length. (The cursor limits all values together.)
 */
const MAX_VALUE_BYTES = 64 * 1024 * 1024;
/** Limit of nested arrays. llama.cpp writes none at all. */
const MAX_DEPTH = 4;

export const invalid = (message: string): QuantletError => new QuantletError('ERR_GGUF_INVALID', message);

type ScalarReader = {
  readonly bytes: number;
  readonly get: (cursor: Cursor) => GGUFValue;
  readonly array: (data: ArrayBuffer) => GGUFNumbers;
};

const exact = (x: bigint): number | bigint => (x >= -9007199254740991n && x <= 9007199254740991n ? Number(x) : x);

const NUMBERS: Readonly<Record<Exclude<GGUFScalarType, 'bool' | 'str'>, ScalarReader>> = {
  u8: { bytes: 1, get: (c) => c.u8(), array: (d) => new Uint8Array(d) },
  i8: { bytes: 1, get: (c) => c.i8(), array: (d) => new Int8Array(d) },
  u16: { bytes: 2, get: (c) => c.u16(), array: (d) => new Uint16Array(d) },
  i16: { bytes: 2, get: (c) => c.i16(), array: (d) => new Int16Array(d) },
  u32: { bytes: 4, get: (c) => c.u32(), array: (d) => new Uint32Array(d) },
  i32: { bytes: 4, get: (c) => c.i32(), array: (d) => new Int32Array(d) },
  f32: { bytes: 4, get: (c) => c.f32(), array: (d) => new Float32Array(d) },
  u64: { bytes: 8, get: (c) => exact(c.u64()), array: (d) => new BigUint64Array(d) },
  i64: { bytes: 8, get: (c) => exact(c.i64()), array: (d) => new BigInt64Array(d) },
  f64: { bytes: 8, get: (c) => c.f64(), array: (d) => new Float64Array(d) },
};

const checkLength = (cursor: Cursor, bytes: number, limit: number): void => {
  if (bytes > limit)
    throw invalid(`a length of ${whole(bytes)} bytes was found in the ${cursor.what}; expected at most ${limit}: the file is damaged`);
  cursor.fits(bytes);
};

/** A key or a tensor's name. */
export const readName = async (cursor: Cursor): Promise<string> => {
  if (!cursor.has(8)) await cursor.need(8);
  const length = cursor.count();
  if (length === 0) throw invalid(`an empty name was found in the ${cursor.what}; expected 1 to ${MAX_NAME_BYTES} bytes`);
  checkLength(cursor, length, MAX_NAME_BYTES);
  if (!cursor.has(length)) await cursor.need(length);
  return cursor.utf8(length);
};

const readString = async (cursor: Cursor): Promise<string> => {
  await cursor.need(8);
  const length = cursor.count();
  checkLength(cursor, length, MAX_VALUE_BYTES);
  await cursor.need(length);
  return cursor.utf8(length);
};

/**
 * Awaits only at the end of the window, because a vocabulary has hundreds of thousands of strings.
 */
const readStrings = async (cursor: Cursor, n: number): Promise<string[]> => {
  checkLength(cursor, n * 8, MAX_VALUE_BYTES);
  cursor.counted('strings', n);
  const strings: string[] = [];
  for (let i = 0; i < n; i++) {
    if (!cursor.has(8)) await cursor.need(8);
    const length = cursor.count();
    if (!cursor.has(length)) {
      checkLength(cursor, length, MAX_VALUE_BYTES);
      await cursor.need(length);
    }
    strings.push(cursor.utf8(length));
  }
  return strings;
};

const checkBool = (cursor: Cursor, byte: number): number => {
  if (byte > 1) throw invalid(`a bool of ${byte} was found in the ${cursor.what}; expected 0 or 1`);
  return byte;
};

/** Reads bools as bytes, 0 or 1. A JavaScript boolean takes eight bytes in an array. */
const readBools = async (cursor: Cursor, n: number): Promise<Uint8Array> => {
  checkLength(cursor, n, MAX_VALUE_BYTES);
  await cursor.need(n);
  const bytes = new Uint8Array(cursor.copy(n));
  for (const byte of bytes) checkBool(cursor, byte);
  return bytes;
};

const readType = async (cursor: Cursor): Promise<(typeof SCALAR_TYPES)[number]> => {
  await cursor.need(4);
  const id = cursor.u32();
  if (id >= SCALAR_TYPES.length)
    throw invalid(`value type ${id} was found in the ${cursor.what}; expected 0 to ${SCALAR_TYPES.length - 1}`);
  return SCALAR_TYPES[id];
};

export interface TypedValue {
  readonly type: GGUFType;
  readonly value: GGUFValue;
}

const readArray = async (cursor: Cursor, depth: number): Promise<TypedValue> => {
  if (depth > MAX_DEPTH) throw invalid(`arrays nested ${depth} deep were found in the ${cursor.what}; expected at most ${MAX_DEPTH}`);
  const item = await readType(cursor);
  await cursor.need(8);
  const n = cursor.count();
  if (item === 'str') return { type: 'arr[str]', value: await readStrings(cursor, n) };
  if (item === 'bool') return { type: 'arr[bool]', value: await readBools(cursor, n) };
  if (item === 'arr') {
    // An inner array takes at least its type and its count.
    checkLength(cursor, n * 12, MAX_VALUE_BYTES);
    cursor.counted('arrays', n);
    const values: GGUFValue[] = [];
    const types = new Set<GGUFType>();
    for (let i = 0; i < n; i++) {
      const inner = await readArray(cursor, depth + 1);
      values.push(inner.value);
      types.add(inner.type);
    }
    const [type] = types;
    return { type: types.size === 1 ? `arr[${type}]` : 'arr[arr]', value: values };
  }
  const numbers = NUMBERS[item];
  checkLength(cursor, n * numbers.bytes, MAX_VALUE_BYTES);
  await cursor.need(n * numbers.bytes);
  return { type: `arr[${item}]`, value: numbers.array(cursor.copy(n * numbers.bytes)) };
};

/** A metadata value, preceded by its type id. */
export const readValue = async (cursor: Cursor): Promise<TypedValue> => {
  const type = await readType(cursor);
  if (type === 'arr') return readArray(cursor, 1);
  if (type === 'str') return { type, value: await readString(cursor) };
  if (type === 'bool') {
    await cursor.need(1);
    return { type, value: checkBool(cursor, cursor.u8()) === 1 };
  }
  await cursor.need(NUMBERS[type].bytes);
  return { type, value: NUMBERS[type].get(cursor) };
};
