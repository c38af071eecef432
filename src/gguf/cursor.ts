/** Sequential reader of a GGUF header, for any source of bytes. */
import { QuantletError } from '../errors.ts';
import type { Bytes } from '../io/source.ts';
import { whole } from './types.ts';
import { decodeUtf8 } from './utf8.ts';

/**
 * Sizes of the read window. The first is enough for a tiny model's header. The largest needs few
 * requests to a remote source and little memory.
 */
const FIRST_WINDOW = 64 * 1024;
const LARGEST_WINDOW = 4 * 1024 * 1024;

/**
 * Limit of a header's size. The largest known vocabularies need 20 MB. While being read, short
 * strings take up to seven times their bytes.
 */
const MAX_HEADER_BYTES = 32 * 1024 * 1024;
/**
 * Limit of arrays inside other arrays, in the whole header. Each takes far more memory than its 12
 * bytes in the file, and llama.cpp writes none.
 */
const MAX_INNER_ARRAYS = 65536;
/**
 * Limit of strings in arrays, in the whole header. Gemma's 262,144 tokens and their merges are
 * 777,000 strings. A string of two letters takes 10 bytes in the file and 56 in memory.
 */
const MAX_STRINGS = 5 * 2 ** 18;

/**
 * Reads a header front to back through a window that doubles in size. `need(n)` makes n bytes
 * available, or throws if the file ends before them. The getters do not check again.
 */
export class Cursor {
  /** Part of the header being read, for messages. */
  what = 'header';
  private buffer = new Uint8Array(0);
  private view = new DataView(this.buffer.buffer);
  private position = 0;
  private base = 0;
  private window = FIRST_WINDOW;
  private readonly counts = { arrays: 0, strings: 0 };
  private readonly bytes: Bytes;
  private readonly signal: AbortSignal | undefined;

  constructor(bytes: Bytes, signal?: AbortSignal) {
    this.bytes = bytes;
    this.signal = signal;
  }

  /** File offset of the next byte. */
  get offset(): number {
    return this.base + this.position;
  }

  /** Bytes from here to the end of the file. */
  get left(): number {
    return this.bytes.byteLength - this.offset;
  }

  /** True if n bytes are available without waiting. */
  has(n: number): boolean {
    return this.buffer.length - this.position >= n;
  }

  /**
   * Throws, before anything is read or allocated, if the next n bytes exceed the file or the
   * largest header.
   */
  fits(n: number): void {
    if (n > this.left)
      throw new QuantletError(
        'ERR_GGUF_TRUNCATED',
        `the file ends inside its ${this.what}: at least ${n} bytes are needed from offset ${this.offset}, found ${this.left} (the file has ${this.bytes.byteLength}); it was cut off or is damaged, get it again`,
      );
    if (this.offset + n > MAX_HEADER_BYTES)
      throw new QuantletError(
        'ERR_GGUF_INVALID',
        `the header has at least ${whole(this.offset + n)} bytes up to the ${this.what}; expected at most ${MAX_HEADER_BYTES} in all: the file is damaged or made to exhaust memory`,
      );
  }

  /** Counts items that take more memory than their bytes in the file, before they are made. */
  counted(kind: 'arrays' | 'strings', n: number): void {
    const count = (this.counts[kind] += n);
    const most = kind === 'arrays' ? MAX_INNER_ARRAYS : MAX_STRINGS;
    if (count > most)
      throw new QuantletError(
        'ERR_GGUF_INVALID',
        `${whole(count)} ${kind} inside arrays were found up to the ${this.what}; expected at most ${most}: the file is damaged or made to exhaust memory`,
      );
  }

  async need(n: number): Promise<void> {
    if (this.has(n)) return;
    this.fits(n);
    const start = this.offset;
    const end = Math.min(this.bytes.byteLength, start + Math.max(n, this.window));
    this.buffer = (await this.bytes.read(start, end, this.signal)) as Uint8Array<ArrayBuffer>;
    this.view = new DataView(this.buffer.buffer, this.buffer.byteOffset, this.buffer.byteLength);
    this.base = start;
    this.position = 0;
    this.window = Math.min(this.window * 2, LARGEST_WINDOW);
  }

  private advance(n: number): number {
    const at = this.position;
    this.position += n;
    return at;
  }

  u8(): number {
    return this.view.getUint8(this.advance(1));
  }
  i8(): number {
    return this.view.getInt8(this.advance(1));
  }
  u16(): number {
    return this.view.getUint16(this.advance(2), true);
  }
  i16(): number {
    return this.view.getInt16(this.advance(2), true);
  }
  u32(): number {
    return this.view.getUint32(this.advance(4), true);
  }
  i32(): number {
    return this.view.getInt32(this.advance(4), true);
  }
  f32(): number {
    return this.view.getFloat32(this.advance(4), true);
  }
  f64(): number {
    return this.view.getFloat64(this.advance(8), true);
  }
  u64(): bigint {
    return this.view.getBigUint64(this.advance(8), true);
  }
  i64(): bigint {
    return this.view.getBigInt64(this.advance(8), true);
  }

  /** A u64 count. Rounded beyond 2^53, where every limit refuses it anyway. */
  count(): number {
    const at = this.advance(8);
    return this.view.getUint32(at + 4, true) * 2 ** 32 + this.view.getUint32(at, true);
  }

  utf8(n: number): string {
    const at = this.advance(n);
    return decodeUtf8(this.buffer, at, at + n);
  }

  /** A copy of the next n bytes, aligned for any typed array. */
  copy(n: number): ArrayBuffer {
    const at = this.advance(n);
    return this.buffer.slice(at, at + n).buffer;
  }
}
