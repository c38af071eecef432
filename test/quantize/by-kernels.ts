/**
 * Converts rows from one type to another by the kernels alone, in one piece and without threads.
 */
import type { TypeName } from '../../src/type-traits.ts';
import type { Rows } from '../../src/threads/rows-node.ts';
import { instantiate, quantized } from '../kernel/harness.ts';

const { arena, call } = instantiate('simd', 256);

export function byKernels({ from, to, ne0, nrows, data, imatrix }: Rows): Uint8Array {
  arena.reset();
  const floats = arena.alloc(4 * ne0 * nrows);
  call('dequantize_row', from.id, arena.bytes(data), floats, ne0 * nrows);
  arena.checkGuards();
  return quantized(to.name as TypeName, arena.readF32(floats, ne0 * nrows), ne0, imatrix);
}
