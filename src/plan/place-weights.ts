/** Addresses of weights, the first things in a memory. */
import { alignUp } from '../align.ts';
import type { TensorInfo } from '../gguf/types.ts';
import { packedBytes, pieceRows } from '../graph/packing.ts';
import { leaf, nbytes, type Tensor } from '../graph/tensor.ts';
import { rowSize, TYPE } from '../type-traits.ts';
import { ALIGN, type Allocator } from '../wasm/allocator.ts';
import type { PackedByThreads, Weight } from './model-plan.ts';

/** Bytes of a leaf as it lies in memory. */
export const bytesOf = (l: Tensor): number => (l.layout === 'packed' ? packedBytes(l) : nbytes(l));

/** Bytes of all these leaves. */
export const totalBytes = (all: readonly Tensor[]): number => all.reduce((bytes, l) => bytes + bytesOf(l), 0);

/** Bytes of leaves one after the other, each aligned. */
export const roomFor = (all: readonly Tensor[]): number => all.reduce((bytes, l) => bytes + alignUp(bytesOf(l), ALIGN), 0);

/** Sorts weights by their order in the files. */
export const inFileOrder = <T>(weights: readonly (readonly [TensorInfo, T])[]): (readonly [TensorInfo, T])[] =>
  [...weights].sort(([a], [b]) => a.part - b.part || a.offset - b.offset);

/**
 * Places weights in the order of their files, and the scratch of `readers` threads that read and
 * pack them.
 */
export function placeWeights(memory: Allocator, resident: readonly Weight[], all: readonly Weight[], readers: number): PackedByThreads {
  for (const [, t] of inFileOrder(resident)) t.data = memory.take(bytesOf(t));
  const matrices = all.filter(([, t]) => t.layout === 'packed');
  const broken = leaf('broken matrices', TYPE.i32, [matrices.length, 1, 1, 1]);
  broken.data = memory.take(nbytes(broken));
  const scratchSize = alignUp(Math.max(0, ...matrices.map(([{ type }, m]) => pieceRows(m) * rowSize(type, m.ne[0]))), ALIGN);
  return { matrices, broken, scratchSize, scratchAt: memory.take(scratchSize * readers) };
}
