/** The one memory of an engine: sizes are added up first, then the memory is made once and never grown. */
import { QuantletError } from '../errors.ts';
import { alignUp } from '../gguf/types.ts';

/** wasm32 without memory64. */
export const MEMORY_LIMIT = 2 ** 32;
const PAGE = 65536;
/** Behind every build's static data (kernels.heap_base(), a test compares). */
export const ARENA_BASE = 2 * PAGE;

export interface Layout {
  /** Reserves `bytes` and returns their address. */
  reserve(bytes: number, align?: number): number;
  readonly byteLength: number;
}

export function createLayout(base = ARENA_BASE): Layout {
  let end = base;
  return {
    reserve(bytes, align = 64) {
      const at = alignUp(end, align);
      end = at + bytes;
      return at;
    },
    get byteLength() {
      return end;
    },
  };
}

export const mebibytes = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(bytes < 2 ** 24 ? 1 : 0)} MiB`;

/** V8 reserves addresses around a memory, so that its loads need no checks: a limit on them is met long before memory is short. */
const ADDRESS_SPACE = 'lift a limit on address space (ulimit -v): a WebAssembly memory reserves some 10 GB of addresses, unless Node runs with --disable-wasm-trap-handler';

/** What fails for want of memory, of an ArrayBuffer, a WebAssembly memory or an instance. @returns the error to throw instead; any other as it is */
export const outOfMemory = (what: string, cause: unknown): unknown =>
  (cause instanceof RangeError && /allocat/i.test(cause.message)) || /out of memory/i.test(String(cause)) ? new QuantletError('ERR_OUT_OF_MEMORY', `${what} failed for want of memory; free some, or ${ADDRESS_SPACE}`, { cause }) : cause;

/** Whose memory it is, and what its user can do where there is not enough. */
export interface MemoryUse {
  readonly what: string;
  readonly remedy: string;
}

const MODEL: MemoryUse = { what: 'the model with its context', remedy: 'choose a smaller contextLength or a smaller quantisation' };

/** @throws ERR_OUT_OF_MEMORY naming the size needed */
export function createMemory(bytes: number, shared: boolean, { what, remedy } = MODEL): WebAssembly.Memory {
  if (bytes > MEMORY_LIMIT - PAGE) {
    throw new QuantletError('ERR_OUT_OF_MEMORY', `${what} needs ${mebibytes(bytes)}, one WebAssembly memory has 4096 MiB at most; ${remedy}`);
  }
  const pages = Math.ceil(bytes / PAGE);
  try {
    return new WebAssembly.Memory({ initial: pages, maximum: pages, shared });
  } catch (cause) {
    throw new QuantletError('ERR_OUT_OF_MEMORY', `${what} needs ${mebibytes(bytes)}, which this machine does not give; free memory, ${remedy}, or ${ADDRESS_SPACE}`, { cause });
  }
}
