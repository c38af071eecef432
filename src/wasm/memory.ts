/**
 * Memories of an engine. Their sizes are planned first, then each memory is made once.
 *
 * A memory has at most 4 GiB, and a model has as many memories as it needs. The host addresses them
 * as one row: address `a` is byte `a mod 2^32` of memory number `a / 2^32`. Kernels and plans take
 * addresses as 32 bits, so they see the address within their own memory.
 */
import { QuantletError } from '../errors.ts';
import type { WasmMemory } from '../globals.ts';

export const PAGE = 65536;
/** wasm32 without memory64: distance between the first addresses of two memories. */
export const MEMORY_SPACE = 2 ** 32;
/** Maximum number of bytes of one memory. */
export const MEMORY_LIMIT = MEMORY_SPACE - PAGE;
/**
 * Above every build's static data (kernels.heap_base(); a test compares). In every memory in which
 * threads compute, the sync block is here.
 */
export const ARENA_BASE = 2 * PAGE;

/** Number of the memory in which an address lies. */
export const memoryOf = (at: number): number => Math.floor(at / MEMORY_SPACE);

/** Bytes at these addresses, in memories that this thread has. */
export const bytesIn = (memories: readonly WasmMemory[], at: number, length: number): Uint8Array =>
  new Uint8Array(memories[memoryOf(at)].buffer, at % MEMORY_SPACE, length);

export const mebibytes = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(bytes < 2 ** 24 ? 1 : 0)} MiB`;

/**
 * V8 reserves addresses around a memory, so that loads need no bounds checks. So a limit on address
 * space is reached long before memory is short.
 */
const ADDRESS_SPACE =
  ', or lift the limit on address space (ulimit -v): a WebAssembly memory reserves about 10 GB of addresses, unless Node runs with --disable-wasm-trap-handler';

/** Empty if there is no command line on which to lift the limit. */
const addressSpace = (): string => ('process' in globalThis ? ADDRESS_SPACE : '');

/**
 * Error to throw after an ArrayBuffer, a WebAssembly memory or an instance could not be allocated.
 * Any other cause is returned unchanged.
 */
export const outOfMemory = (what: string, cause: unknown): unknown =>
  (cause instanceof RangeError && /allocat|grow/i.test(cause.message)) || /out of memory/i.test(String(cause))
    ? new QuantletError('ERR_OUT_OF_MEMORY', `${what} failed because memory ran out; free some${addressSpace()}`, { cause })
    : cause;

/** Parts of an error message: owner of a memory, and remedy for its user if memory is short. */
export interface MemoryUse {
  readonly what: string;
  readonly remedy: string;
}

const MODEL: MemoryUse = { what: 'the model with its context', remedy: 'choose a smaller contextLength or a smaller quantisation' };

/**
 * Makes a memory.
 * @param all bytes needed together with those of other memories
 * @throws ERR_OUT_OF_MEMORY naming the size needed
 */
export function createMemory(bytes: number, shared: boolean, { what, remedy } = MODEL, all = bytes): WasmMemory {
  if (bytes > MEMORY_LIMIT) {
    throw new QuantletError(
      'ERR_OUT_OF_MEMORY',
      `${what} needs ${mebibytes(all)}${all > bytes ? `, and ${mebibytes(bytes)} of them in one place` : ''}, but one WebAssembly memory has at most 4096 MiB; ${remedy}`,
    );
  }
  const pages = Math.ceil(bytes / PAGE);
  try {
    return new WebAssembly.Memory({ initial: pages, maximum: pages, shared });
  } catch (cause) {
    throw new QuantletError(
      'ERR_OUT_OF_MEMORY',
      `${what} needs ${mebibytes(all)}, which this machine cannot provide; free memory, ${remedy}${addressSpace()}`,
      { cause },
    );
  }
}

/**
 * Makes the memories of a model.
 * @throws ERR_OUT_OF_MEMORY naming the size of all of them
 */
export function createMemories(bytes: readonly number[], shared: boolean): WasmMemory[] {
  const all = bytes.reduce((sum, n) => sum + n, 0);
  return bytes.map((n) => createMemory(n, shared, MODEL, all));
}

/**
 * Grows a memory that ends before `end`. Other threads see that a little later, so addresses of the
 * new part must not be passed to them before.
 */
export function reach(memory: WasmMemory, end: number): void {
  const more = end - memory.buffer.byteLength;
  if (more > 0) memory.grow(Math.ceil(more / PAGE));
}
