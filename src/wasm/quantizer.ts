/**
 * Quantiser of every type that llama-quantize writes (quantize.wasm, assembly/quantize/), with a
 * memory of its own.
 */
import { QuantletError } from '../errors.ts';
import type { TypeTraits } from '../type-traits.ts';
import { rowSize } from '../type-traits.ts';
import type { QuantizerExports } from './abi.ts';
import { createAllocator } from './allocator.ts';
import { reach } from './memory.ts';

/** Static data ends in the first page. */
const INITIAL_PAGES = 1;

export interface Quantizer {
  /**
   * Quantises rows of ne0 f32 as ggml_quantize_chunk does. The type has a quantizer, ne0 is a
   * multiple of its block, and imatrix has ne0 weights. Returns a row's number instead if ggml
   * would abort at that row, because its values are too large.
   * @throws ERR_OUT_OF_MEMORY
   */
  quantize(type: TypeTraits, floats: Float32Array, ne0: number, imatrix?: Float32Array): Uint8Array<ArrayBuffer> | number;
}

export function createQuantizer(module: WebAssembly.Module): Quantizer {
  const memory = new WebAssembly.Memory({ initial: INITIAL_PAGES });
  const kernels = new WebAssembly.Instance(module, { env: { memory } }).exports as unknown as QuantizerExports;
  return {
    quantize(type, floats, ne0, imatrix) {
      const nrows = floats.length / ne0;
      const bytes = nrows * rowSize(type, ne0);
      const tables = kernels.prepare(type.id) >>> 0;
      if (tables === 0)
        throw new QuantletError('ERR_OUT_OF_MEMORY', `the tables for ${type.name} need a few MiB, which are not free; free some memory`);
      const arena = createAllocator(tables);
      const source = arena.take(4 * floats.length);
      const target = arena.take(bytes);
      const weights = imatrix ? arena.take(4 * ne0) : 0;
      reach(memory, arena.end);
      new Float32Array(memory.buffer).set(floats, source / 4);
      if (imatrix) new Float32Array(memory.buffer).set(imatrix, weights / 4);
      const done = kernels.quantize_chunk(type.id, source, target, nrows, ne0, weights);
      return done === nrows ? new Uint8Array(memory.buffer, target, bytes).slice() : done;
    },
  };
}
