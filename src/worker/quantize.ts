/** What a Piscina worker of `quantlet quantize` runs: rows of one type to rows of another, in a memory of its own. */
import { move, workerData } from 'piscina';
import type { RowsTask } from '../threads/rows-node.ts';
import { TYPE } from '../type-traits.ts';
import { instantiate } from '../wasm/load.ts';
import { createAllocator } from '../wasm/allocator.ts';
import { ARENA_BASE } from '../wasm/memory.ts';

const { module } = workerData as { module: WebAssembly.Module };
const PAGE = 65536;
const memory = new WebAssembly.Memory({ initial: ARENA_BASE / PAGE });
const kernels = instantiate(module, memory);

/** threads/rows-node.ts has checked the task. Nothing else sees this worker's memory, so it may grow. */
export function quantize({ from, to, ne0, nrows, data, targetBytes, imatrix }: RowsTask): unknown {
  const arena = createAllocator(ARENA_BASE);
  const source = arena.take(data.length);
  const floats = from === 'f32' ? source : arena.take(4 * ne0 * nrows);
  const target = arena.take(targetBytes);
  const weights = imatrix ? arena.take(4 * ne0) : 0;
  const work = arena.take(kernels.quantize_work_size());
  const more = arena.end - memory.buffer.byteLength;
  if (more > 0) memory.grow(Math.ceil(more / PAGE));
  new Uint8Array(memory.buffer).set(data, source);
  if (imatrix) new Float32Array(memory.buffer).set(imatrix, weights / 4);
  if (floats !== source) kernels.dequantize_row(TYPE[from].id, source, floats, ne0 * nrows);
  kernels.quantize_chunk(TYPE[to].id, floats, target, nrows, ne0, weights, work);
  return move(new Uint8Array(memory.buffer, target, targetBytes).slice());
}
