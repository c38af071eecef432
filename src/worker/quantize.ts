/** What a Piscina worker of `quantlet quantize` runs: rows of one type to rows of another, in a memory of its own. */
import { move, workerData } from 'piscina';
import type { RowsModules, RowsTask } from '../threads/rows-node.ts';
import { TYPE } from '../type-traits.ts';
import { instantiate } from '../wasm/load.ts';
import { createAllocator } from '../wasm/allocator.ts';
import { ARENA_BASE, MEMORY_LIMIT, PAGE, reach } from '../wasm/memory.ts';
import { createQuantizer } from '../wasm/quantizer.ts';

const modules = workerData as RowsModules;
const memory = new WebAssembly.Memory({ initial: ARENA_BASE / PAGE, maximum: MEMORY_LIMIT / PAGE });
const kernels = instantiate(modules.kernels, memory);
const quantizer = createQuantizer(modules.quantize);

/** threads/rows-node.ts has checked the task. Nothing else sees this worker's memory, so it may grow. A number is the row that cannot be quantised. */
export function quantize({ from, to, ne0, nrows, data, imatrix }: RowsTask): unknown {
  const arena = createAllocator(ARENA_BASE);
  const source = arena.take(data.length);
  const floats = from === 'f32' ? source : arena.take(4 * ne0 * nrows);
  reach(memory, arena.end);
  new Uint8Array(memory.buffer).set(data, source);
  if (floats !== source) kernels.dequantize_row(TYPE[from].id, source, floats, ne0 * nrows);
  const result = quantizer.quantize(TYPE[to], new Float32Array(memory.buffer, floats, ne0 * nrows), ne0, imatrix);
  return typeof result === 'number' ? result : move(result);
}
