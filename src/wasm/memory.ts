/** The one memory of an engine: sizes are added up first, then the memory is made once and never grown. */
import { QuantletError } from '../errors.ts';

/** wasm32 without memory64. */
export const MEMORY_LIMIT = 2 ** 32;
export const PAGE = 65536;
/** Behind every build's static data (kernels.heap_base(), a test compares). */
export const ARENA_BASE = 2 * PAGE;

export const mebibytes = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(bytes < 2 ** 24 ? 1 : 0)} MiB`;

/** V8 reserves addresses around a memory, so that loads need no bounds checks: a limit on address space is reached long before memory is short. */
const ADDRESS_SPACE =
  ', or lift the limit on address space (ulimit -v): a WebAssembly memory reserves about 10 GB of addresses, unless Node runs with --disable-wasm-trap-handler';

/** Only where there is a command line to lift it with. */
const addressSpace = (): string => ('process' in globalThis ? ADDRESS_SPACE : '');

/** The error to throw where an ArrayBuffer, a WebAssembly memory or an instance could not be allocated; any other cause is returned as it is. */
export const outOfMemory = (what: string, cause: unknown): unknown =>
  (cause instanceof RangeError && /allocat/i.test(cause.message)) || /out of memory/i.test(String(cause))
    ? new QuantletError('ERR_OUT_OF_MEMORY', `${what} failed because memory ran out; free some${addressSpace()}`, { cause })
    : cause;

/** Whose memory it is, and what its user can do where there is not enough: parts of a message. */
export interface MemoryUse {
  readonly what: string;
  readonly remedy: string;
}

const MODEL: MemoryUse = { what: 'the model with its context', remedy: 'choose a smaller contextLength or a smaller quantisation' };

/** @throws ERR_OUT_OF_MEMORY naming the size needed */
export function createMemory(bytes: number, shared: boolean, { what, remedy } = MODEL): WebAssembly.Memory {
  if (bytes > MEMORY_LIMIT - PAGE) {
    throw new QuantletError(
      'ERR_OUT_OF_MEMORY',
      `${what} needs ${mebibytes(bytes)}, but one WebAssembly memory has at most 4096 MiB; ${remedy}`,
    );
  }
  const pages = Math.ceil(bytes / PAGE);
  try {
    return new WebAssembly.Memory({ initial: pages, maximum: pages, shared });
  } catch (cause) {
    throw new QuantletError(
      'ERR_OUT_OF_MEMORY',
      `${what} needs ${mebibytes(bytes)}, which this machine cannot provide; free memory, ${remedy}${addressSpace()}`,
      { cause },
    );
  }
}

/** Grows a memory that nobody else sees where it ends before `end`. */
export function reach(memory: WebAssembly.Memory, end: number): void {
  const more = end - memory.buffer.byteLength;
  if (more > 0) memory.grow(Math.ceil(more / PAGE));
}
