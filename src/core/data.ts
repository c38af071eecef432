/**
 * Elements of tensors as typed arrays: the array of each type, conversions on the way in and out,
 * and copies of strided elements into one array.
 */
import { QuantletError, tell } from '../errors.ts';
import { arrayName, flatten, type Numbers } from '../graph/operands.ts';
import { contiguousNb, isContiguous, nbytes, nelements, refuse, shape, type Tensor } from '../graph/tensor.ts';
import { toBf16, fromBf16, fromF16, toF16 } from './float16.ts';

/**
 * Float16Array if the runtime has it (Node 24, browsers of 2025; TypeScript knows it from lib
 * esnext.float16), else the bits as Uint16Array.
 */
export type Halves = (typeof globalThis extends { Float16Array: { prototype: infer A } } ? A : never) | Uint16Array;

/**
 * Array type of each tensor type. bf16: the bits as Uint16Array. Quantised types: their blocks as
 * Uint8Array.
 */
export interface DataByType {
  f32: Float32Array;
  f64: Float64Array;
  f16: Halves;
  bf16: Uint16Array;
  i8: Int8Array;
  i16: Int16Array;
  i32: Int32Array;
  i64: BigInt64Array;
}

export type TensorData = DataByType[keyof DataByType] | Uint8Array;

/** Array type of a tensor of type T, if TypeScript can tell the type. */
export type DataOf<T extends string> = string extends T ? TensorData : T extends keyof DataByType ? DataByType[T] : Uint8Array;

/**
 * Data to fill a tensor with: an array of the tensor's own type, or its bytes as Uint8Array.
 * Numbers may be one list of all elements in ne order, lists of lists (the innermost is
 * dimension 0), or one number for all elements. Float16Array, Float32Array and Float64Array are
 * rounded to any float type.
 */
export type Data = Numbers | BigInt64Array | readonly bigint[];

/** Floats that numbers are read as, whatever the tensor's type. */
export type ReadAs = 'f32' | 'f64';

interface ArrayType {
  new (buffer: ArrayBufferLike, byteOffset: number, length: number): TensorData;
  readonly name: string;
  readonly BYTES_PER_ELEMENT: number;
}

const Float16 = (globalThis as { readonly Float16Array?: unknown }).Float16Array as ArrayType | undefined;
const ARRAYS: { readonly [type: string]: ArrayType } = {
  f32: Float32Array,
  f64: Float64Array,
  f16: Float16 ?? Uint16Array,
  bf16: Uint16Array,
  i8: Int8Array,
  i16: Int16Array,
  i32: Int32Array,
  i64: BigInt64Array,
};
const arrayOf = (t: Tensor): ArrayType => ARRAYS[t.type.name] ?? Uint8Array;

const FLOAT_ARRAYS = ['Float16Array', 'Float32Array', 'Float64Array'];
/**
 * Names of arrays that hold a type's elements unchanged, even if this runtime reads the type as
 * another array.
 */
const OWN: { readonly [type: string]: readonly string[] } = { f16: ['Float16Array', 'Uint16Array'] };

const BITS: { readonly [type: string]: number } = { i8: 8, i16: 16, i32: 32, i64: 64 };
const isFloatType = (type: string): boolean => type in ARRAYS && !(type in BITS);

/**
 * Encodes numbers as elements of t.
 * @throws ERR_INVALID_ARGUMENT for a number that an integer type cannot hold
 */
function encode(t: Tensor, values: ArrayLike<number | bigint>): Uint8Array {
  const type = t.type.name;
  const n = values.length;
  const bits = BITS[type];
  if (bits) {
    const low = -(2n ** BigInt(bits - 1));
    const high = -low - 1n;
    const at = Array.prototype.findIndex.call(
      values,
      (v: number | bigint) => (typeof v === 'number' && !Number.isInteger(v)) || v < low || v > high,
    );
    if (at >= 0)
      throw new QuantletError(
        'ERR_INVALID_ARGUMENT',
        `write: element ${at} is ${tell(values[at])}; ${shape(t)} takes whole numbers from ${low} to ${high}`,
      );
  }
  const bytes = new Uint8Array(n * t.type.typeSize);
  const out = new ARRAYS[type === 'f16' ? 'bf16' : type](bytes.buffer, 0, n) as unknown as (number | bigint)[];
  const as =
    type === 'i64'
      ? BigInt
      : type === 'f16'
        ? (v: number | bigint) => toF16(Number(v))
        : type === 'bf16'
          ? (v: number | bigint) => toBf16(Number(v))
          : Number;
  for (let i = 0; i < n; i++) out[i] = as(values[i]);
  return bytes;
}

const sameBytes = (data: ArrayBufferView): Uint8Array => new Uint8Array(data.buffer, data.byteOffset, data.byteLength);

/**
 * Bytes to write into t.
 * @throws ERR_INVALID_ARGUMENT for data of another kind, shape or length, ERR_TENSOR_SHAPE for a
 * view with gaps
 */
export function bytesFor(t: Tensor, data: unknown): Uint8Array {
  if (!isContiguous(t)) refuse('write', 'is not contiguous; write to the tensor that it is a view of', t);
  const type = t.type.name;
  const name = arrayName(data);
  const want = nbytes(t);
  if (name === 'Uint8Array' || (name !== undefined && (OWN[type] ?? [arrayOf(t).name]).includes(name))) {
    const bytes = sameBytes(data as ArrayBufferView);
    if (bytes.length !== want)
      throw new QuantletError('ERR_INVALID_ARGUMENT', `write: ${shape(t)} takes ${want} bytes, got ${bytes.length}`);
    return bytes;
  }
  const numbers = type in ARRAYS && (typeof data === 'number' || typeof data === 'bigint' || Array.isArray(data));
  if (!numbers && !(isFloatType(type) && FLOAT_ARRAYS.includes(name!))) {
    const more = type in ARRAYS ? `${isFloatType(type) ? ', another array of floats' : ''}, a list of numbers` : '';
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `write: ${shape(t)} takes ${arrayOf(t).name}${more} or its bytes as Uint8Array, got ${name ?? tell(data)}; cpy converts between types`,
    );
  }
  const { ne, values } = flatten('write', data);
  if (!Array.isArray(data) && name === undefined) {
    const one = encode(t, values);
    const all = new Uint8Array(want);
    for (let at = 0; at < want; at += one.length) all.set(one, at);
    return all;
  }
  if (ne.some((n, i) => i > 0 && n !== 1) && ne.some((n, i) => n !== t.ne[i]))
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `write: ${shape(t)}, got lists of ne [${ne.join(', ')}]; the innermost list is dimension 0`,
    );
  if (values.length !== nelements(t))
    throw new QuantletError('ERR_INVALID_ARGUMENT', `write: ${shape(t)} takes ${nelements(t)} numbers, got ${values.length}`);
  return encode(t, values);
}

/** A typed array over contiguous bytes. */
export function arrayOver(t: Tensor, bytes: Uint8Array): TensorData {
  const Wanted = arrayOf(t);
  return new Wanted(bytes.buffer, bytes.byteOffset, bytes.byteLength / Wanted.BYTES_PER_ELEMENT);
}

/** Bytes of t's elements in ne order, without gaps, from the nbytes(t) bytes that t spans. */
export function gather(t: Tensor, bytes: Uint8Array): Uint8Array {
  const size = t.type.typeSize;
  const perRow = t.ne[0] / t.type.blckSize;
  const out = new Uint8Array((nelements(t) / t.type.blckSize) * size);
  if (isContiguous(t)) out.set(bytes);
  else {
    let at = 0;
    for (let i3 = 0; i3 < t.ne[3]; i3++)
      for (let i2 = 0; i2 < t.ne[2]; i2++)
        for (let i1 = 0; i1 < t.ne[1]; i1++)
          for (let i0 = 0; i0 < perRow; i0++) {
            const from = i0 * t.nb[0] + i1 * t.nb[1] + i2 * t.nb[2] + i3 * t.nb[3];
            out.set(bytes.subarray(from, from + size), at);
            at += size;
          }
  }
  return out;
}

/** Elements from gather(), of a type without blocks, as floats. */
export function floats(t: Tensor, bytes: Uint8Array, as: ReadAs): Float32Array | Float64Array {
  const type = t.type.name;
  const out = as === 'f32' ? new Float32Array(nelements(t)) : new Float64Array(nelements(t));
  const halves = type === 'f16' ? fromF16 : type === 'bf16' ? fromBf16 : undefined;
  const values = halves ? new Uint16Array(bytes.buffer, bytes.byteOffset, out.length) : (arrayOver(t, bytes) as ArrayLike<number | bigint>);
  for (let i = 0; i < out.length; i++) out[i] = halves ? halves(values[i] as number) : Number(values[i]);
  return out;
}

/** True if a type's elements are plain numbers, not blocks. */
export const isPlainType = (t: Tensor): boolean => t.type.name in ARRAYS;

/** Bytes of a row of t if rows are contiguous. */
export const rowBytes = (t: Tensor): number => contiguousNb(t.type, t.ne)[1];
