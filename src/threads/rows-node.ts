/**
 * Node's threads for quantising a file: a private Piscina pool, whose workers each have kernels
 * over a small memory of their own.
 */
import { readFileSync } from 'node:fs';
import { QuantletError } from '../errors.ts';
import { QUANTIZERS } from '../quantize/ftype.ts';
import { rowSize, typesWith, type TypeName, type TypeTraits } from '../type-traits.ts';
import { createPool } from './node.ts';
import { packageFile } from './package-files.ts';

const WORKER_URL = import.meta.url ? new URL('../../dist/worker/quantize.cjs', import.meta.url) : undefined;
const worker = (): string => packageFile(WORKER_URL, 'dist/worker/quantize.cjs');
const QUANTIZER_URL = import.meta.url ? new URL('../../dist/wasm/quantize.wasm', import.meta.url) : undefined;
const quantizer = (): string => packageFile(QUANTIZER_URL, 'dist/wasm/quantize.wasm');

/** Compiled modules for every worker: the kernels, and quantize.wasm. */
export interface RowsModules {
  readonly kernels: WebAssembly.Module;
  readonly quantize: WebAssembly.Module;
}

/** Message to a worker. Types go by name, since objects lose their identity on the way. */
export interface RowsTask {
  readonly from: TypeName;
  readonly to: TypeName;
  readonly ne0: number;
  readonly nrows: number;
  readonly data: Uint8Array;
  readonly imatrix: Float32Array | undefined;
}

/**
 * `nrows` rows of `ne0` elements of type `from`, to be converted to type `to`. `imatrix` weighs the
 * columns (ne0 floats).
 */
export interface Rows {
  readonly from: TypeTraits;
  readonly to: TypeTraits;
  readonly ne0: number;
  readonly nrows: number;
  readonly data: Uint8Array;
  readonly imatrix?: Float32Array;
}

export interface RowsPool {
  /**
   * Converts any readable type to any type that quantlet writes, with the bits of
   * ggml_quantize_chunk. Calls may overlap.
   *
   * @throws ERR_INVALID_ARGUMENT for rows that are not whole blocks of both types, data or weights
   * of another length, a type without a quantiser, numbers too large for the searches of IQ1, IQ2
   * and IQ3; ERR_WORKER_LOST
   */
  quantizeRows(rows: Rows): Promise<Uint8Array>;
  dispose(): Promise<void>;
}

const TARGETS: ReadonlySet<TypeTraits> = new Set(QUANTIZERS);
/** Types with dequantize_row. */
const SOURCES: ReadonlySet<TypeTraits> = new Set(typesWith(() => true));

/** Most workers: more than a file can use on any machine, and few enough to start. */
const MOST_THREADS = 64;

const bad = (message: string): QuantletError => new QuantletError('ERR_INVALID_ARGUMENT', message);

/** Checks the assumptions of the kernels. */
export function checkRows({ from, to, ne0, nrows, data, imatrix }: Rows): void {
  if (!Number.isSafeInteger(ne0) || ne0 < 1 || !Number.isSafeInteger(nrows) || nrows < 0)
    throw bad(`${nrows} rows of ${ne0} elements; expected whole numbers, at least one element a row`);
  if (!SOURCES.has(from))
    throw bad(`rows of type ${from.name} cannot be read; expected one of ${[...SOURCES].map((t) => t.name).join(', ')}`);
  if (!TARGETS.has(to)) throw bad(`rows cannot be quantised to ${to.name}; expected one of ${[...TARGETS].map((t) => t.name).join(', ')}`);
  for (const type of [from, to]) {
    if (ne0 % type.blckSize !== 0)
      throw bad(
        `rows have ${ne0} elements; expected a multiple of ${type.blckSize}: ${type.name} is made of blocks of ${type.blckSize}; choose a type with smaller blocks`,
      );
  }
  if (data.length !== nrows * rowSize(from, ne0))
    throw bad(`${nrows} rows of ${ne0} elements came as ${data.length} bytes; expected ${nrows * rowSize(from, ne0)} of ${from.name}`);
  if (to.kernels?.gridQuantizer === 'imatrix' && !imatrix) throw bad(`rows of ${to.name} need importance weights; expected some`);
  if (imatrix && imatrix.length !== ne0)
    throw bad(`there are ${imatrix.length} importance weights for rows of ${ne0} elements; expected one for each`);
}

/** Starts `nthreads` workers, at most MOST_THREADS. */
export function createRowsPool(kernels: WebAssembly.Module, nthreads: number): RowsPool {
  const modules: RowsModules = { kernels, quantize: new WebAssembly.Module(readFileSync(quantizer())) };
  const pool = createPool(worker(), 'quantize', Math.min(nthreads, MOST_THREADS), modules);
  return {
    async quantizeRows(rows) {
      checkRows(rows);
      const { from, to, ne0, nrows, data, imatrix } = rows;
      const task: RowsTask = {
        from: from.name as TypeName,
        to: to.name as TypeName,
        ne0,
        nrows,
        data,
        imatrix,
      };
      const quantised = await (pool.run(task) as Promise<Uint8Array | number>).catch((cause: Error) => {
        throw new QuantletError('ERR_WORKER_LOST', `a thread ended while it quantised: ${cause.message}`, { cause });
      });
      if (typeof quantised !== 'number') return quantised;
      throw bad(
        `row ${quantised} of ${nrows} cannot become ${to.name}: its numbers or importance weights are too large; expected finite products in f32: choose another type`,
      );
    },
    dispose: () => pool.destroy(),
  };
}
