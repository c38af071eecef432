/** Random reads over a stream that comes in order, kept in a store on the way where there is one. */
import { checkedBytes, type Bytes } from './source.ts';
import type { HttpFile } from './http.ts';

/** Where downloaded bytes are kept: grows at its end, so that its size says how far a broken download came. */
export interface Store {
  readonly size: number;
  /** False where there is no room, after nothing of the chunk was kept. */
  append(chunk: Uint8Array<ArrayBuffer>): Promise<boolean> | boolean;
  read(start: number, end: number): Promise<Uint8Array> | Uint8Array;
}

/** Bytes behind the last read that are kept: a header is read in windows of up to 4 MiB that go back a little. */
const LOOK_BACK = 8 << 20;
/** A gap larger than this is asked for anew, not read over. */
const LOOK_AHEAD = 16 << 20;
/** A stream nobody reads from for so long gives its connection back: a browser has six for a server, a split model more parts. */
const IDLE_MS = 2000;

export interface ReadThrough {
  readonly bytes: Bytes;
  /** Whether the store has the whole file. */
  readonly isWhole: boolean;
  /** Whether the store ran out of room. */
  readonly isFull: boolean;
  /** Gets what is still missing if it is no more than `most` bytes. */
  complete(most: number): Promise<void>;
  /** Ends the connection, and with it a read that is under way; resolves once nothing touches the store any more. */
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
  /** One chunk further. False at the end. */
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
      leave(); // a failed stream would say that it is at its end, and where the store failed it is a chunk ahead: the next read opens another at `position`
      throw error;
    }
  };
  const stored = (): number => store?.size ?? 0;

  const gather = async (start: number, end: number): Promise<Uint8Array> => {
    const low = window[0]?.start ?? position;
    // Neither kept nor in the window: begin there.
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

  /** One read at a time: they share the stream. */
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
