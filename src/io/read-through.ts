/**
 * Random reads over a stream that arrives in order. If there is a store, the stream is saved in it.
 */
import { checkedBytes, type Bytes } from './source.ts';
import type { HttpFile } from './http.ts';

/**
 * Storage of downloaded bytes. It grows only at its end, so its size tells where an interrupted
 * download stopped.
 */
export interface Store {
  readonly size: number;
  /** Returns false if there is no room; then nothing of the chunk is stored. */
  append(chunk: Uint8Array<ArrayBuffer>): Promise<boolean> | boolean;
  read(start: number, end: number): Promise<Uint8Array> | Uint8Array;
}

/**
 * Bytes before the last read that stay in memory: a header is read in windows of up to 4 MiB that
 * go back a little.
 */
const LOOK_BACK = 8 << 20;
/** A larger gap is skipped by a new request, not read. */
const LOOK_AHEAD = 16 << 20;
/**
 * Time without reads after which a stream closes its connection. A browser has six connections to a
 * server, and a split model may have more parts.
 */
const IDLE_MS = 2000;

export interface ReadThrough {
  readonly bytes: Bytes;
  /** The store has the whole file. */
  readonly isWhole: boolean;
  /** The store ran out of room. */
  readonly isFull: boolean;
  /** Downloads the missing end if that is at most `most` bytes. */
  complete(most: number): Promise<void>;
  /**
   * Ends the connection and any read in progress. Resolves once nothing uses the store any more.
   */
  close(): Promise<void>;
}

export async function createReadThrough(file: HttpFile, store?: Store): Promise<ReadThrough> {
  let stream: AsyncGenerator<Uint8Array<ArrayBuffer>, void> | undefined;
  /** Next byte of the stream. */
  let position = store?.size ?? 0;
  let keeps = store !== undefined;
  let window: { start: number; bytes: Uint8Array }[] = [];
  let idle: ReturnType<typeof setTimeout> | undefined;
  let queue: Promise<unknown> = Promise.resolve();

  const leave = (): void => {
    void stream?.return().catch(() => {});
    stream = undefined;
  };
  /** Reads one more chunk. Returns false at the end. */
  const pull = async (): Promise<boolean> => {
    stream ??= file.chunks(position);
    try {
      const { done, value } = await stream.next();
      if (done) return false;
      keeps &&= await store!.append(value);
      if (!keeps) window.push({ start: position, bytes: value });
      position += value.length;
      return true;
    } catch (error) {
      // A failed stream would report its end. If the store failed, the stream is a chunk ahead. The
      // next read opens a new stream at `position`.
      leave();
      throw error;
    }
  };
  const stored = (): number => store?.size ?? 0;

  const gather = async (start: number, end: number): Promise<Uint8Array> => {
    const low = window[0]?.start ?? position;
    // Neither stored nor in the window: start a new request there.
    const from = Math.max(start, Math.min(stored(), end));
    if (from < end && (from < low || (!keeps && from > position + LOOK_AHEAD))) {
      leave();
      window = [];
      position = from;
      keeps = false;
    }
    while (position < end) if (!(await pull())) break;
    const kept = Math.max(start, Math.min(stored(), end));
    if (kept === end && end > start) return store!.read(start, end);
    const out = new Uint8Array(end - start);
    if (kept > start) out.set(await store!.read(start, kept));
    for (const { start: at, bytes } of window) {
      const a = Math.max(at, kept);
      const b = Math.min(at + bytes.length, end);
      if (a < b) out.set(bytes.subarray(a - at, b - at), a - start);
    }
    while (window.length && window[0].start + window[0].bytes.length < end - LOOK_BACK) window.shift();
    return out;
  };

  /** Runs reads one at a time, because they share the stream. */
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    clearTimeout(idle);
    const result = queue.then(work);
    queue = result
      .catch(() => {})
      .then(() => {
        clearTimeout(idle);
        if (stream) idle = setTimeout(leave, IDLE_MS);
      });
    return result;
  };

  let { byteLength } = file;
  if (byteLength === undefined) {
    while (await pull());
    byteLength = position;
  }
  const size = byteLength;
  return {
    bytes: checkedBytes(size, (start, end) => inTurn(() => gather(start, end))),
    get isWhole() {
      return stored() === size;
    },
    get isFull() {
      return store !== undefined && !keeps && stored() < size;
    },
    complete: (most) =>
      inTurn(async () => {
        while (keeps && position < size && size - position <= most && (await pull()));
      }),
    async close() {
      file.close();
      await queue;
      clearTimeout(idle);
      leave();
    },
  };
}
