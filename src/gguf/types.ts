/** What a GGUF file holds: values, tensors, the header as a whole. */
import type { TypeTraits } from '../type-traits.ts';

/** GGUF's types of metadata values, spelled as llama.cpp prints them; the position is the id in the file. */
export const SCALAR_TYPES = ['u8', 'i8', 'u16', 'i16', 'u32', 'i32', 'f32', 'bool', 'str', 'arr', 'u64', 'i64', 'f64'] as const;

export type GGUFScalarType = Exclude<(typeof SCALAR_TYPES)[number], 'arr'>;

/** `u32`, `str` ... or `arr[u32]`, `arr[arr[str]]`; `arr[arr]` where nothing or different types are inside. */
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

/** u64 and i64 are numbers while they are exact (|x| < 2^53) and bigints beyond; arrays of numbers are typed arrays of their own width, of bools bytes (0 and 1). */
export type GGUFValue = number | bigint | boolean | string | GGUFNumbers | readonly string[] | readonly GGUFValue[];

export interface TensorInfo {
  readonly name: string;
  readonly type: TypeTraits;
  /** Elements per dimension, ne[0] fastest; 1 beyond `nDims`. */
  readonly ne: readonly [number, number, number, number];
  readonly nDims: number;
  /** Where its bytes begin, counted from the start of the file. */
  readonly offset: number;
  readonly byteLength: number;
  /** Which file of a split model holds it; 0 where there is one file. */
  readonly part: number;
}

/** The checked header of a GGUF file: every tensor lies inside the file, aligned, and overlaps no other. */
export interface GGUF {
  readonly version: number;
  readonly metadata: ReadonlyMap<string, GGUFValue>;
  readonly metadataTypes: ReadonlyMap<string, GGUFType>;
  /** Bytes of the file, [start, end), that hold a key's type id and value: to copy them as they are, bad UTF-8 and all. */
  readonly metadataRanges: ReadonlyMap<string, readonly [number, number]>;
  readonly tensors: ReadonlyMap<string, TensorInfo>;
  readonly alignment: number;
  /** Where the tensors' data begins. In a file without tensors it may lie beyond the end. */
  readonly dataOffset: number;
  readonly byteLength: number;
}

export const GGUF_MAGIC = 0x46554747;
/** What files begin with: "PWRI" those of PowerInfer, which are GGUF otherwise. */
export const MAGICS: readonly string[] = ['GGUF', 'PWRI'];
export const DEFAULT_ALIGNMENT = 32;

export const alignUp = (offset: number, alignment: number): number => Math.ceil(offset / alignment) * alignment;

export const isPowerOfTwo = (n: number): boolean => Number.isInteger(n) && n > 0 && n <= 2 ** 31 && Number.isInteger(Math.log2(n));

/** A whole number in full, where JavaScript would round its digits for reading. */
export const whole = (n: number): string => (Number.isInteger(n) ? BigInt(n).toString() : String(n));
