/**
 * Pieces of files that threads read (threads/loading.ts), and the addresses that they go to.
 */
import { pieceRows } from '../graph/packing.ts';
import type { Tensor } from '../graph/tensor.ts';
import type { TensorInfo } from '../gguf/types.ts';
import type { Bytes, FileIdentity } from '../io/source.ts';
import { PIECE_SIZE } from '../threads/loading.ts';
import { rowSize } from '../type-traits.ts';
import type { PackedByThreads, Weight } from './model-plan.ts';

/** Bytes that a thread reads at once of weights that are not packed. */
const PIECE_BYTES = 1 << 20;

/** Files that threads can open, if all parts are such files. */
export function filesOf(parts: readonly Bytes[]): readonly FileIdentity[] | undefined {
  const files = parts.flatMap(({ file }) => file ?? []);
  return files.length === parts.length ? files : undefined;
}

/** Record of each packed matrix, and the packing that has it. */
export const packingOf = <P extends PackedByThreads>(
  packings: readonly P[],
): ReadonlyMap<Tensor, { readonly record: number; readonly of: P }> =>
  new Map(packings.flatMap((of) => of.matrices.map(([, matrix], record) => [matrix, { record, of }] as const)));

/**
 * Numbers of all pieces (threads/loading.ts): whole row blocks of packed matrices, any bytes of
 * other weights.
 * @param headOf offset that a weight's first bytes are copied to; -1: nowhere
 */
export function piecesOf(
  inOrder: readonly Weight[],
  packings: readonly PackedByThreads[],
  headOf: (info: TensorInfo) => number = () => -1,
): number[][] {
  const packing = packingOf(packings);
  return inOrder.flatMap(([info, tensor]) => {
    const packed = packing.get(tensor);
    const row = rowSize(info.type, tensor.ne[0]);
    const most = packed ? pieceRows(tensor) * row : PIECE_BYTES;
    return Array.from({ length: Math.ceil(info.byteLength / most) }, (_, i) => {
      const from = i * most;
      const n = Math.min(most, info.byteLength - from);
      const bytes = [info.part, info.offset + from, n, i === 0 ? headOf(info) : -1];
      if (!packed) return [...bytes, tensor.data + from, -1, 0, 0, 0, 0, 0, 0];
      const { record, of } = packed;
      const at = tensor.data + (from / row) * tensor.nb[1];
      return [...bytes, at, info.type.id, tensor.type.id, tensor.ne[0], n / row, of.broken.data + 4 * record, of.scratchAt, of.scratchSize];
    });
  });
}

export function sharedPieces(rows: readonly (readonly number[])[]): Float64Array {
  const pieces = new Float64Array(new SharedArrayBuffer(8 * PIECE_SIZE * rows.length));
  pieces.set(rows.flat());
  return pieces;
}
