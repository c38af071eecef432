/** Rows from one type to another by the kernels alone, in one piece and without threads. */
import { rowSize } from '../../src/type-traits.ts';
import { createQuantizer } from '../../src/wasm/quantizer.ts';
import type { Rows } from '../../src/threads/rows-node.ts';
import { instantiate, quantizerModule } from '../kernel/harness.ts';

const { arena, call } = instantiate('simd', 256);
const quantizer = createQuantizer(quantizerModule);

export function byKernels({ from, to, ne0, nrows, data, imatrix }: Rows): Uint8Array {
  const bytes = nrows * rowSize(to, ne0);
  arena.reset();
  const floats = arena.alloc(4 * ne0 * nrows);
  const target = arena.alloc(bytes);
  call('dequantize_row', from.id, arena.bytes(data), floats, ne0 * nrows);
  if (to.kernels?.gridQuantizer) {
    const result = quantizer.quantize(to, arena.readF32(floats, ne0 * nrows), ne0, imatrix);
    if (typeof result === 'number') throw new Error(`${to.name}: row ${result} was refused`);
    return result;
  }
  call('quantize_chunk', to.id, floats, target, nrows, ne0, imatrix ? arena.f32(imatrix) : 0, arena.alloc(call('quantize_work_size')));
  arena.checkGuards();
  return arena.readBytes(target, bytes);
}
