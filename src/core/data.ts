/** A tensor's elements as typed arrays: which array a type takes, and how elements with strides become one. */
import { QuantletError } from '../errors.ts';
import { isContiguous, nbytes, nelements, refuse, shape, type Tensor } from '../graph/tensor.ts';
import type { TypeName } from '../type-traits.ts';

/** f32: Float32Array, i32: Int32Array, i64: BigInt64Array; f16 and bf16: their bits as Uint16Array; quantised types: their blocks as Uint8Array. */
export type TensorData = Float32Array | Int32Array | BigInt64Array | Uint16Array | Uint8Array;

type ArrayType = Float32ArrayConstructor | Int32ArrayConstructor | BigInt64ArrayConstructor | Uint16ArrayConstructor | Uint8ArrayConstructor;
const ARRAYS: Partial<Record<TypeName, ArrayType>> = { f32: Float32Array, i32: Int32Array, i64: BigInt64Array, f16: Uint16Array, bf16: Uint16Array };

const arrayOf = (t: Tensor): ArrayType => ARRAYS[t.type.name as TypeName] ?? Uint8Array;

/** The bytes to write into t. @throws ERR_INVALID_ARGUMENT for another array or another length */
export function bytesFor(t: Tensor, data: TensorData): Uint8Array {
  const Wanted = arrayOf(t);
  if (!(data instanceof Wanted) && !(data instanceof Uint8Array)) {
    throw new QuantletError('ERR_INVALID_ARGUMENT', `write: ${shape(t)} takes ${Wanted.name} or its bytes as Uint8Array, got ${data.constructor.name}; cpy converts between types`);
  }
  if (!isContiguous(t)) refuse('write', 'is not contiguous; write the tensor it is a view of', t);
  if (data.byteLength !== nbytes(t)) throw new QuantletError('ERR_INVALID_ARGUMENT', `write: ${shape(t)} takes ${nbytes(t)} bytes, got ${data.byteLength}`);
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

/** A typed array over contiguous bytes. */
export function arrayOver(t: Tensor, bytes: Uint8Array): TensorData {
  const Wanted = arrayOf(t);
  return new Wanted(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.byteLength / Wanted.BYTES_PER_ELEMENT);
}

/** The elements of t in ne order, gaps and permutations resolved, from the nbytes(t) bytes it spans. */
export function gather(t: Tensor, bytes: Uint8Array): TensorData {
  const size = t.type.typeSize, perRow = t.ne[0] / t.type.blckSize, out = new Uint8Array((nelements(t) / t.type.blckSize) * size);
  if (isContiguous(t)) out.set(bytes);
  else {
    let at = 0;
    for (let i3 = 0; i3 < t.ne[3]; i3++) for (let i2 = 0; i2 < t.ne[2]; i2++) for (let i1 = 0; i1 < t.ne[1]; i1++) for (let i0 = 0; i0 < perRow; i0++) {
      const from = i0 * t.nb[0] + i1 * t.nb[1] + i2 * t.nb[2] + i3 * t.nb[3];
      out.set(bytes.subarray(from, from + size), at);
      at += size;
    }
  }
  return arrayOver(t, out);
}
