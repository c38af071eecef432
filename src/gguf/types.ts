/** Types of a GGUF file's parts: values, tensors, the header. */
import type { TypeTraits } from '../type-traits.ts';

/**
 * GGUF's types of metadata values, spelled as llama.cpp prints them. The index is the id in the
 * file.
 */
export const SCALAR_TYPES = ['u8', 'i8', 'u16', 'i16', 'u32', 'i32', 'f32', 'bool', 'str', 'arr', 'u64', 'i64', 'f64'] as const;

export type GGUFScalarType = Exclude<(typeof SCALAR_TYPES)[number], 'arr'>;

/**
 * `u32`, `str` ... or `arr[u32]`, `arr[arr[str]]`; `arr[arr]` if the inner arrays are absent or of
 * different types.
 */
export type GGUFType = GGUFScalarType | 'arr' | `arr[${string}]`;

export type GGUFNumbers =
  | Uint8Array
  | Int8Array
  | Uint16Array
  | Int16Array
  | Uint32Array
  | Int32Array
  | Float32Array
  | BigUint64Array
  | BigInt64Array
  | Float64Array;

/**
 * u64 and i64 are numbers if exact (|x| < 2^53), else bigints. Arrays of numbers are typed arrays
 * of the same width; arrays of bools are bytes (0 and 1).
 */
export type GGUFValue = number | bigint | boolean | string | GGUFNumbers | readonly string[] | readonly GGUFValue[];

export interface TensorInfo {
  readonly name: string;
  readonly type: TypeTraits;
  /** Elements per dimension, ne[0] fastest; 1 beyond `nDims`. */
  readonly ne: readonly [number, number, number, number];
  readonly nDims: number;
  /** Offset of its first byte from the start of the file. */
  readonly offset: number;
  readonly byteLength: number;
  /** Index of the file of a split model that contains it; 0 if there is one file. */
  readonly part: number;
}

/**
 * Checked header of a GGUF file: every tensor lies inside the file, is aligned, and overlaps no
 * other.
 */
export interface GGUF {
  readonly version: number;
  readonly metadata: ReadonlyMap<string, GGUFValue>;
  readonly metadataTypes: ReadonlyMap<string, GGUFType>;
  /**
   * Range of file bytes, [start, end), of each key's type id and value. For copying them unchanged,
   * even if they are not valid UTF-8.
   */
  readonly metadataRanges: ReadonlyMap<string, readonly [number, number]>;
  readonly tensors: ReadonlyMap<string, TensorInfo>;
  readonly alignment: number;
  /** Offset of the tensors' data. Without tensors it may lie beyond the end of the file. */
  readonly dataOffset: number;
  readonly byteLength: number;
}

export const GGUF_MAGIC = 0x46554747;
/** First bytes of files. "PWRI" is PowerInfer's, whose files are otherwise GGUF. */
export const MAGICS: readonly string[] = ['GGUF', 'PWRI'];
export const DEFAULT_ALIGNMENT = 32;

export const isPowerOfTwo = (n: number): boolean => Number.isInteger(n) && n > 0 && n <= 2 ** 31 && Number.isInteger(Math.log2(n));

/** A whole number with all its digits, which String() would round. */
export const whole = (n: number): string => (Number.isInteger(n) ? BigInt(n).toString() : String(n));
