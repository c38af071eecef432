/** Tensor table of a GGUF file: its entries, and the offsets of their data. */
import { QuantletError } from '../errors.ts';
import { rowSize, typeById } from '../type-traits.ts';
import type { Cursor } from './cursor.ts';
import type { TensorInfo } from './types.ts';
import { whole } from './types.ts';
import { invalid, readName } from './value.ts';

const MAX_DIMS = 4;

const readDims = async (cursor: Cursor, name: string): Promise<{ ne: [number, number, number, number]; nDims: number }> => {
  await cursor.need(4);
  const nDims = cursor.u32();
  if (nDims === 0 || nDims > MAX_DIMS) throw invalid(`tensor "${name}" has ${nDims} dimensions; expected 1 to ${MAX_DIMS}`);
  await cursor.need(nDims * 8);
  const ne: [number, number, number, number] = [1, 1, 1, 1];
  let elements = 1;
  for (let i = 0; i < nDims; i++) {
    const n = cursor.i64();
    if (n <= 0n) throw invalid(`tensor "${name}" has ne[${i}] = ${n}; expected at least 1`);
    ne[i] = Number(n);
    elements *= ne[i];
    if (elements > Number.MAX_SAFE_INTEGER)
      throw invalid(`tensor "${name}" has ${whole(elements)} elements or more; expected fewer than 2^53`);
  }
  return { ne, nDims };
};

/** Reads one entry of the tensor table. Its `offset` is relative to the start of the data. */
export const readTensorInfo = async (cursor: Cursor): Promise<TensorInfo> => {
  const name = await readName(cursor);
  const { ne, nDims } = await readDims(cursor, name);
  await cursor.need(12);
  const typeId = cursor.u32();
  const offset = cursor.count();
  const type = typeById(typeId);
  if (!type)
    throw new QuantletError(
      'ERR_UNSUPPORTED_TYPE',
      `tensor "${name}" has type ${typeId}, which quantlet does not know; expected a type of ggml: use a newer version, or requantise the model`,
    );
  if (ne[0] % type.blckSize !== 0)
    throw invalid(`tensor "${name}" has rows of ${ne[0]} elements; expected a multiple of ${type.name}'s block of ${type.blckSize}`);
  const byteLength = rowSize(type, ne[0]) * ne[1] * ne[2] * ne[3];
  if (byteLength > Number.MAX_SAFE_INTEGER) throw invalid(`tensor "${name}" takes ${whole(byteLength)} bytes; expected fewer than 2^53`);
  return { name, type, ne, nDims, offset, byteLength, part: 0 };
};

/**
 * Makes offsets relative to the start of the file. Keeps the file's order.
 *
 * @throws QuantletError ERR_GGUF_TRUNCATED if a tensor ends beyond the file; ERR_GGUF_INVALID if
 * one is not aligned or two overlap
 */
export const placeTensors = (
  infos: readonly TensorInfo[],
  dataOffset: number,
  alignment: number,
  byteLength: number,
): Map<string, TensorInfo> => {
  const tensors = new Map<string, TensorInfo>();
  for (const info of infos) {
    const { name } = info;
    if (info.offset % alignment !== 0)
      throw invalid(
        `tensor "${name}" begins at offset ${whole(info.offset)} of the data; expected a multiple of the alignment ${alignment}`,
      );
    const offset = dataOffset + info.offset;
    const end = offset + info.byteLength;
    if (end > byteLength) {
      throw new QuantletError(
        'ERR_GGUF_TRUNCATED',
        `tensor "${name}" needs bytes ${whole(offset)} to ${whole(end)}, but the file has ${byteLength}: ${whole(end - byteLength)} are missing; it was cut off or is damaged, get it again`,
      );
    }
    if (tensors.has(name)) throw invalid(`two tensors are named "${name}"; expected names to be unique`);
    tensors.set(name, { ...info, offset });
  }
  const byOffset = [...tensors.values()].sort((a, b) => a.offset - b.offset);
  for (let i = 1; i < byOffset.length; i++) {
    const [a, b] = [byOffset[i - 1], byOffset[i]];
    if (a.offset + a.byteLength > b.offset)
      throw invalid(
        `tensors "${a.name}" and "${b.name}" overlap: the first ends at ${a.offset + a.byteLength}, the second begins at ${b.offset}; expected every tensor to have bytes of its own`,
      );
  }
  return tensors;
};
