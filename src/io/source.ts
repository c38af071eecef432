/**
 * A model's bytes from any kind of source: checked reads over files, blobs, buffers and objects
 * with slice().
 */
import { QuantletError, typeName } from '../errors.ts';

/**
 * A model's bytes as users pass them: anything with a length and a `slice(start, end)` (bytes, end
 * exclusive). A Blob, a File or an ArrayBuffer fits unchanged, as does an object over a bucket, an
 * asset or a database.
 */
export interface Source {
  readonly byteLength: number;
  /** A Uint8Array, an ArrayBuffer or a Blob of these bytes, or a promise of one. */
  slice(start: number, end: number): unknown;
}

/**
 * A model's bytes as the engine reads them. A read returns exactly `end - start` bytes or rejects.
 * Never write into the result.
 */
export interface Bytes {
  readonly byteLength: number;
  read(start: number, end: number, signal?: AbortSignal): Promise<Uint8Array>;
  /**
   * Fills `target` (possibly shared memory) from `start`, if the source can do so without an
   * intermediate copy.
   */
  readInto?(target: Uint8Array, start: number, signal?: AbortSignal): Promise<void>;
  /**
   * The file of these bytes, if threads can open it themselves.
   * @internal
   */
  readonly file?: FileIdentity;
}

/** Identity of a file that threads open again, and refuse if it is no longer the same. */
export interface FileIdentity {
  readonly path: string;
  readonly ino: number;
  readonly byteLength: number;
  /** Time of the last modification. */
  readonly mtimeMs: number;
}

/** Makes the error for a file that became shorter while it was read. */
export const cutWhileRead = (path: string, at: number, missing: number): QuantletError =>
  new QuantletError('ERR_GGUF_TRUNCATED', `${path} ended at byte ${at}; expected ${missing} more: it was cut while it was read`);

/** Makes the error for a file that changed while it was read. */
export const changedWhileRead = (path: string): QuantletError =>
  new QuantletError('ERR_SOURCE', `${path} was replaced or written to while it was read; load the model again`);

/**
 * Sources that `toBytes` accepts. Paths and URLs are opened by the entry of the platform, which
 * makes a `Bytes` of them.
 */
export type SourceLike = Bytes | Source | Blob | ArrayBuffer | SharedArrayBuffer | ArrayBufferView;

type RawRead = (start: number, end: number, signal?: AbortSignal) => unknown;

const describe = (value: unknown): string => {
  if (value === null || typeof value !== 'object') return typeName(value);
  return value.constructor?.name ?? 'an object without a prototype';
};

const view = async (chunk: unknown): Promise<Uint8Array> => {
  if (chunk instanceof Uint8Array) return chunk;
  if (ArrayBuffer.isView(chunk)) return new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  if (chunk instanceof ArrayBuffer) return new Uint8Array(chunk);
  if (typeof SharedArrayBuffer !== 'undefined' && chunk instanceof SharedArrayBuffer) return new Uint8Array(chunk);
  if (chunk instanceof Blob) return new Uint8Array(await chunk.arrayBuffer());
  throw new QuantletError(
    'ERR_SOURCE',
    `the source's slice() gave ${describe(chunk)}; expected a Uint8Array, an ArrayBuffer or a Blob (or a promise of one)`,
  );
};

/** Copies a chunk in shared memory, which browsers' TextDecoder and file APIs refuse. */
const unshared = (chunk: Uint8Array): Uint8Array => (chunk.buffer instanceof ArrayBuffer ? chunk : chunk.slice());

/**
 * Wraps a raw reader so that every read is checked: range inside the source, exactly the bytes
 * asked for, abort honoured. Entries use it for files and URLs, too.
 *
 * @throws QuantletError ERR_SOURCE if `byteLength` is not a size, a range lies outside, the result
 * is short or long, or the reader fails
 */
export const checkedBytes = (byteLength: number, rawRead: RawRead): Bytes => {
  if (!Number.isSafeInteger(byteLength) || byteLength < 0) {
    throw new QuantletError(
      'ERR_SOURCE',
      `the source's byteLength is ${String(byteLength)}; expected its size in bytes, a whole number from 0`,
    );
  }
  const read = async (start: number, end: number, signal?: AbortSignal): Promise<Uint8Array> => {
    signal?.throwIfAborted();
    if (!Number.isSafeInteger(start) || !Number.isSafeInteger(end) || start < 0 || end < start || end > byteLength) {
      throw new QuantletError(
        'ERR_SOURCE',
        `bytes ${start} to ${end} of a source of ${byteLength} bytes were requested; expected 0 <= start <= end <= ${byteLength}`,
      );
    }
    let chunk: Uint8Array;
    try {
      chunk = await view(await rawRead(start, end, signal));
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof QuantletError) throw error;
      const reason = error instanceof Error ? error.message : String(error);
      throw new QuantletError('ERR_SOURCE', `reading bytes ${start} to ${end} of the source failed: ${reason}`, { cause: error });
    }
    signal?.throwIfAborted();
    if (chunk.byteLength !== end - start) {
      throw new QuantletError(
        'ERR_SOURCE',
        `the source gave ${chunk.byteLength} bytes for ${start} to ${end}; expected ${end - start}: it is shorter than its byteLength of ${byteLength}, or its slice() ignores its arguments`,
      );
    }
    return unshared(chunk);
  };
  return { byteLength, read };
};

const fromView = (bytes: Uint8Array): Bytes => checkedBytes(bytes.byteLength, (start, end) => bytes.subarray(start, end));

const has = (value: object, name: string): boolean => typeof (value as Record<string, unknown>)[name] === 'function';

/**
 * Any kind of source as checked `Bytes`. Bytes in memory are not copied.
 *
 * @throws QuantletError ERR_INVALID_ARGUMENT for anything else, ERR_SOURCE if its size is not valid
 */
export const toBytes = (source: SourceLike): Bytes => {
  const given: unknown = source;
  if (typeof given === 'object' && given !== null) {
    if (ArrayBuffer.isView(given)) return fromView(new Uint8Array(given.buffer, given.byteOffset, given.byteLength));
    if (given instanceof ArrayBuffer) return fromView(new Uint8Array(given));
    if (typeof SharedArrayBuffer !== 'undefined' && given instanceof SharedArrayBuffer) return fromView(new Uint8Array(given));
    if (given instanceof Blob) return checkedBytes(given.size, (start, end) => given.slice(start, end));
    if (has(given, 'read') && 'byteLength' in given) {
      const bytes = given as Bytes;
      return checkedBytes(bytes.byteLength, (start, end, signal) => bytes.read(start, end, signal));
    }
    if (has(given, 'slice') && 'byteLength' in given) {
      const slices = given as Source;
      return checkedBytes(slices.byteLength, (start, end) => slices.slice(start, end));
    }
  }
  throw new QuantletError(
    'ERR_INVALID_ARGUMENT',
    `bytes cannot be read from ${describe(given)}; expected a Blob, an ArrayBuffer, a typed array or { byteLength, slice(start, end) }`,
  );
};
