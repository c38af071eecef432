/**
 * Code of a Piscina worker of `quantlet quantize`: converts rows from one type to another, in a
 * memory of its own.
 */
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

/**
 * Converts the rows of a task that threads/rows-node.ts has checked. The memory may grow, because
 * only this worker uses it. A result that is a number is the index of a row that cannot be
 * quantised.
 */
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
