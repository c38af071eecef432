/**
 * The memories of an engine: sizes are added up first, then each is made once. (One whose weights are read before the rest is planned grows once, where V8
 * has reserved its addresses anyway.) One holds 4 GiB at most, and a model has as many as it
 * needs. To the host all are one row of addresses, memory after memory: address `a` is byte `a mod 2^32` of memory number `a / 2^32`. (Whatever takes an
 * address as 32 bits, the kernels and the words of a plan, takes it modulo 2^32, and so as one of its own memory.)
 */
import { QuantletError } from '../errors.ts';
import type { WasmMemory } from '../globals.ts';

export const PAGE = 65536;
/** wasm32 without memory64: from one memory's first address to the next one's. */
export const MEMORY_SPACE = 2 ** 32;
/** Bytes of one memory at most. */
export const MEMORY_LIMIT = MEMORY_SPACE - PAGE;
/** Behind every build's static data (kernels.heap_base(), a test compares). Here every memory that threads compute in has its sync block. */
export const ARENA_BASE = 2 * PAGE;

/** The number of the memory that an address lies in. */
export const memoryOf = (at: number): number => Math.floor(at / MEMORY_SPACE);

/** What these addresses hold, in memories that this thread sees. */
export const bytesIn = (memories: readonly WasmMemory[], at: number, length: number): Uint8Array =>
  new Uint8Array(memories[memoryOf(at)].buffer, at % MEMORY_SPACE, length);

export const mebibytes = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(bytes < 2 ** 24 ? 1 : 0)} MiB`;

/** V8 reserves addresses around a memory, so that loads need no bounds checks: a limit on address space is reached long before memory is short. */
const ADDRESS_SPACE =
  ', or lift the limit on address space (ulimit -v): a WebAssembly memory reserves about 10 GB of addresses, unless Node runs with --disable-wasm-trap-handler';

/** Only where there is a command line to lift it with. */
const addressSpace = (): string => ('process' in globalThis ? ADDRESS_SPACE : '');

/** The error to throw where an ArrayBuffer, a WebAssembly memory or an instance could not be allocated; any other cause is returned as it is. */
export const outOfMemory = (what: string, cause: unknown): unknown =>
  (cause instanceof RangeError && /allocat|grow/i.test(cause.message)) || /out of memory/i.test(String(cause))
    ? new QuantletError('ERR_OUT_OF_MEMORY', `${what} failed because memory ran out; free some${addressSpace()}`, { cause })
    : cause;

/** Whose memory it is, and what its user can do where there is not enough: parts of a message. */
export interface MemoryUse {
  readonly what: string;
  readonly remedy: string;
}

const MODEL: MemoryUse = { what: 'the model with its context', remedy: 'choose a smaller contextLength or a smaller quantisation' };

/**
 * @param all bytes that are needed with those of other memories
 * @param most bytes that reach() may make it grow to
 * @throws ERR_OUT_OF_MEMORY naming the size needed
 */
export function createMemory(bytes: number, shared: boolean, { what, remedy } = MODEL, all = bytes, most = bytes): WasmMemory {
  if (bytes > MEMORY_LIMIT) {
    throw new QuantletError(
      'ERR_OUT_OF_MEMORY',
      `${what} needs ${mebibytes(all)}${all > bytes ? `, and ${mebibytes(bytes)} of them in one place` : ''}, but one WebAssembly memory has at most 4096 MiB; ${remedy}`,
    );
  }
  const pages = Math.ceil(bytes / PAGE);
  try {
    return new WebAssembly.Memory({ initial: pages, maximum: Math.ceil(most / PAGE), shared });
  } catch (cause) {
    throw new QuantletError(
      'ERR_OUT_OF_MEMORY',
      `${what} needs ${mebibytes(all)}, which this machine cannot provide; free memory, ${remedy}${addressSpace()}`,
      { cause },
    );
  }
}

/** The memories of a model. @throws ERR_OUT_OF_MEMORY naming the size of all of them */
export function createMemories(bytes: readonly number[], shared: boolean): WasmMemory[] {
  const all = bytes.reduce((sum, n) => sum + n, 0);
  return bytes.map((n) => createMemory(n, shared, MODEL, all));
}

/** Grows a memory where it ends before `end`. Other threads see that a little later, and nothing may have been told to them of what is new until then. */
export function reach(memory: WasmMemory, end: number): void {
  const more = end - memory.buffer.byteLength;
  if (more > 0) memory.grow(Math.ceil(more / PAGE));
}
