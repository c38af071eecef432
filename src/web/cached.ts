/** A URL as Bytes: out of the cache, or downloaded and kept on the way. Runs in a worker (OPFS) or in the page (Cache API). */
import { checkedBytes, type Bytes } from '../io/source.ts';
import { openHttp, type HttpFile, type HttpOptions } from '../io/http.ts';
import { createReadThrough, type Store } from '../io/read-through.ts';

/** What is known of a kept file; complete only when all of it is there. */
export interface Meta {
  readonly url: string;
  readonly size: number;
  readonly version: string | undefined;
  readonly complete: boolean;
}

/** One kept file, open for writing by us alone. `append` is false where there is no room. */
export interface Entry extends Store {
  clear(): Promise<void> | void;
  close(): Promise<void> | void;
}

/** A place that keeps files by key: OPFS, the Cache API, or memory in tests. */
export interface Shelf {
  /** The kept files, and when each was last loaded (milliseconds since 1970; 0: not known). */
  list(): Promise<readonly (readonly [key: string, used: number])[]>;
  /** Notes that a file is being loaded. Not in its Meta: whoever reads that at the same moment would find it half written. */
  touch(key: string): Promise<void>;
  meta(key: string): Promise<Meta | undefined>;
  /** Bytes of a file that are there. */
  sizeOf(key: string): Promise<number>;
  setMeta(key: string, meta: Meta): Promise<void>;
  /** A file that is complete; undefined where it does not have `size` bytes. */
  open(key: string, size: number): Promise<Bytes | undefined>;
  /** Undefined where another has it open. */
  write(key: string): Promise<Entry | undefined>;
  remove(key: string): Promise<void>;
}

export interface CachedOptions extends HttpOptions {
  /** Get it again even if it is there. */
  readonly reload?: boolean | undefined;
}

export interface Cached {
  readonly bytes: Bytes;
  /** `kept`: read from the cache; `stored`: downloaded and kept; `passed`: downloaded only. */
  readonly how: 'kept' | 'stored' | 'passed';
  /** `now`: the load was given up, so what is missing is not worth waiting for. */
  close(options?: { readonly now?: boolean }): Promise<void>;
}

/** At the end of a load so much may be missing still (padding): it is worth getting, so that the file counts as whole. */
const TAIL = 1 << 20;

export async function keyOf(url: string): Promise<string> {
  const hash = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(url));
  return Array.from(new Uint8Array(hash, 0, 16), (b) => b.toString(16).padStart(2, '0')).join('');
}

/** Holds a lock until the returned function is called; undefined where another tab holds it. Without Web Locks the file's own lock must do. */
export async function lock(key: string, mode: LockMode): Promise<(() => void) | undefined> {
  const locks = globalThis.navigator?.locks;
  if (!locks) return () => {};
  return new Promise((resolve, reject) => {
    locks
      .request(`quantlet:${key}`, { mode, ifAvailable: true }, (held) => {
        if (!held) return resolve(undefined);
        return new Promise<void>((release) => resolve(release));
      })
      .catch(reject);
  });
}

/** @throws ERR_DOWNLOAD, or signal.reason; what the cache cannot do is done without it */
export async function openCached(url: string, shelf: Shelf | undefined, options: CachedOptions): Promise<Cached> {
  if (shelf) {
    try {
      const key = await keyOf(url);
      const cached = await patiently(
        async () => (options.reload ? undefined : await readKept(url, key, shelf)) ?? (await claim(url, key, shelf, options)),
        options.signal,
      );
      if (cached) return cached;
    } catch (error) {
      options.signal?.throwIfAborted();
      if (error instanceof Error && 'code' in error && error.code === 'ERR_DOWNLOAD') throw error;
      // The cache is broken or forbidden (private windows): do without.
    }
  }
  const through = await createReadThrough(await openHttp(url, 0, options));
  return { bytes: through.bytes, how: 'passed', close: () => through.close() };
}

/** Milliseconds until the second try; each further one comes after twice as long, the last after 0.64 s. */
const FIRST_WAIT = 10;
const TRIES = 8;

/** What another load holds is often let go of a moment later: its tab was just closed, or it has just ended. Whoever goes on holding it is not waited for. */
async function patiently<T>(attempt: () => Promise<T | undefined>, signal: AbortSignal | undefined): Promise<T | undefined> {
  for (let tries = 0; ; tries++) {
    const got = await attempt();
    if (got !== undefined || tries + 1 === TRIES) return got;
    await new Promise((resolve) => setTimeout(resolve, FIRST_WAIT * 2 ** tries));
    signal?.throwIfAborted();
  }
}

/** Downloads and keeps; undefined where another load is at it. */
async function claim(url: string, key: string, shelf: Shelf, options: CachedOptions): Promise<Cached | undefined> {
  const release = await lock(key, 'exclusive');
  if (!release) return undefined;
  const entry = await shelf.write(key).catch((error: unknown) => {
    release();
    throw error;
  });
  if (entry) return download(url, key, shelf, entry, release, options);
  release();
  return undefined;
}

async function readKept(url: string, key: string, shelf: Shelf): Promise<Cached | undefined> {
  if (!(await shelf.meta(key))?.complete) return undefined;
  const release = await lock(key, 'shared');
  if (!release) return undefined;
  let bytes: Bytes | undefined;
  try {
    const meta = await shelf.meta(key); // again: another tab may have removed it before the lock
    bytes = meta?.complete && meta.url === url ? await shelf.open(key, meta.size) : undefined;
  } finally {
    if (!bytes) release();
  }
  if (!bytes) return undefined;
  const { byteLength, read } = bytes;
  await shelf.touch(key).catch(() => {});
  return { bytes: checkedBytes(byteLength, read), how: 'kept', close: async () => release() };
}

async function download(
  url: string,
  key: string,
  shelf: Shelf,
  entry: Entry,
  release: () => void,
  options: CachedOptions,
): Promise<Cached> {
  let file: HttpFile | undefined;
  try {
    const before = options.reload ? undefined : await shelf.meta(key);
    if (before?.url !== url || entry.size > before.size) await entry.clear();
    const http: HttpOptions = { ...options, cache: 'no-store' };
    file = await openHttp(url, entry.size, http);
    if (entry.size > 0 && (file.byteLength !== before?.size || file.version !== before?.version || file.version === undefined)) {
      await entry.clear(); // the file has changed on the server, or nothing tells whether it has: what is kept is of the old one
      if (file.start > 0) {
        file.close();
        file = await openHttp(url, 0, http);
      }
    }
    const meta = (complete: boolean, size: number): Meta => ({ url, size, version: file!.version, complete });
    if (file.byteLength !== undefined) await shelf.setMeta(key, meta(false, file.byteLength));
    await shelf.touch(key).catch(() => {});
    const through = await createReadThrough(file, makingRoom(entry, key, shelf));
    let closed: Promise<void> | undefined;
    const close = async (now: boolean): Promise<void> => {
      try {
        if (!now) await through.complete(TAIL).catch(() => {});
        await through.close();
        const { isWhole, isFull } = through;
        await entry.close();
        if (isWhole) await shelf.setMeta(key, meta(true, through.bytes.byteLength));
        else if (isFull) await shelf.remove(key); // a part that can never become whole only takes the room
      } finally {
        release();
      }
    };
    return { bytes: through.bytes, how: 'stored', close: ({ now = false } = {}) => (closed ??= close(now)) };
  } catch (error) {
    file?.close();
    try {
      await entry.close();
    } finally {
      release();
    }
    throw error;
  }
}

/** Where there is no room, other models go, the longest unused first; those in use elsewhere stay. */
function makingRoom(entry: Entry, key: string, shelf: Shelf): Store {
  return {
    get size() {
      return entry.size;
    },
    read: (start, end) => entry.read(start, end),
    async append(chunk) {
      if (await entry.append(chunk)) return true;
      const others = (await shelf.list()).filter(([k]) => k !== key).sort(([, a], [, b]) => a - b);
      for (const [other] of others) {
        const release = await lock(other, 'exclusive');
        if (!release) continue;
        try {
          await shelf.remove(other);
        } finally {
          release();
        }
        if (await entry.append(chunk)) return true;
      }
      return false;
    },
  };
}
