/**
 * A URL as Bytes: read from the cache, or downloaded and cached meanwhile. Runs in a worker (OPFS)
 * or in the page (Cache API).
 */
import { checkedBytes, type Bytes } from '../io/source.ts';
import { openHttp, type HttpFile, type HttpOptions } from '../io/http.ts';
import { createReadThrough, type Store } from '../io/read-through.ts';
import { sha256 } from '../sha256.ts';

/** Metadata of a cached file. `complete` is true only if the whole file is stored. */
export interface Meta {
  readonly url: string;
  readonly size: number;
  readonly version: string | undefined;
  readonly complete: boolean;
}

/**
 * A cached file, opened for writing by this load only. `append` returns false if storage is full.
 */
export interface Entry extends Store {
  clear(): Promise<void> | void;
  close(): Promise<void> | void;
}

/** Storage of files by key: OPFS, the Cache API, or memory in tests. */
export interface FileCache {
  /** Cached files, and when each was last loaded (milliseconds since 1970; 0: unknown). */
  list(): Promise<readonly (readonly [key: string, used: number])[]>;
  /**
   * Records that a file is being loaded. Not part of Meta, because a concurrent reader would find
   * Meta half written.
   */
  touch(key: string): Promise<void>;
  meta(key: string): Promise<Meta | undefined>;
  /** Bytes of a file that are stored. */
  sizeOf(key: string): Promise<number>;
  setMeta(key: string, meta: Meta): Promise<void>;
  /** Opens a complete file; undefined if it does not have `size` bytes. */
  open(key: string, size: number): Promise<Bytes | undefined>;
  /** Opens a file for writing; undefined if another load has it open. */
  write(key: string): Promise<Entry | undefined>;
  remove(key: string): Promise<void>;
}

export interface CachedOptions extends HttpOptions {
  /** Downloads the file again even if it is cached. */
  readonly reload?: boolean | undefined;
}

export interface Cached {
  readonly bytes: Bytes;
  /** `kept`: read from the cache; `stored`: downloaded and cached; `passed`: downloaded only. */
  readonly how: 'kept' | 'stored' | 'passed';
  /** `now`: the load was given up, so do not wait for missing bytes. */
  close(options?: { readonly now?: boolean }): Promise<void>;
}

/**
 * Maximum number of bytes that are still downloaded at the end of a load, so that the cached file
 * is complete. A load does not read padding.
 */
const TAIL = 1 << 20;

export const keyOf = async (url: string): Promise<string> => (await sha256(url)).slice(0, 32);

/**
 * Takes a lock, which the returned function releases; undefined if another tab has the lock.
 * Without Web Locks there is only the file's own lock.
 */
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

/**
 * Opens a URL, from the cache if possible. If the cache fails, works without it.
 * @throws ERR_DOWNLOAD, or signal.reason
 */
export async function openCached(url: string, cache: FileCache | undefined, options: CachedOptions): Promise<Cached> {
  if (cache) {
    try {
      const key = await keyOf(url);
      const cached = await patiently(
        async () => (options.reload ? undefined : await readKept(url, key, cache)) ?? (await reserve(url, key, cache, options)),
        options.signal,
      );
      if (cached) return cached;
    } catch (error) {
      options.signal?.throwIfAborted();
      if (error instanceof Error && 'code' in error && error.code === 'ERR_DOWNLOAD') throw error;
      // The cache is broken or not allowed (private windows): continue without it.
    }
  }
  const through = await createReadThrough(await openHttp(url, 0, options));
  return { bytes: through.bytes, how: 'passed', close: () => through.close() };
}

/** Milliseconds until the second try. Each later wait is twice as long; the last is 0.64 s. */
const FIRST_WAIT = 10;
const TRIES = 8;

/**
 * Retries for a short time, because another load often releases its lock a moment later: its tab
 * was just closed, or it just ended.
 */
async function patiently<T>(attempt: () => Promise<T | undefined>, signal: AbortSignal | undefined): Promise<T | undefined> {
  for (let tries = 0; ; tries++) {
    const got = await attempt();
    if (got !== undefined || tries + 1 === TRIES) return got;
    await new Promise((resolve) => setTimeout(resolve, FIRST_WAIT * 2 ** tries));
    signal?.throwIfAborted();
  }
}

/** Downloads and caches; undefined if another load is doing that. */
async function reserve(url: string, key: string, cache: FileCache, options: CachedOptions): Promise<Cached | undefined> {
  const release = await lock(key, 'exclusive');
  if (!release) return undefined;
  const entry = await cache.write(key).catch((error: unknown) => {
    release();
    throw error;
  });
  if (entry) return download(url, key, cache, entry, release, options);
  release();
  return undefined;
}

async function readKept(url: string, key: string, cache: FileCache): Promise<Cached | undefined> {
  if (!(await cache.meta(key))?.complete) return undefined;
  const release = await lock(key, 'shared');
  if (!release) return undefined;
  let bytes: Bytes | undefined;
  try {
    const meta = await cache.meta(key); // check again: another tab may have removed the file before the lock
    bytes = meta?.complete && meta.url === url ? await cache.open(key, meta.size) : undefined;
  } finally {
    if (!bytes) release();
  }
  if (!bytes) return undefined;
  const { byteLength, read } = bytes;
  await cache.touch(key).catch(() => {});
  return { bytes: checkedBytes(byteLength, read), how: 'kept', close: async () => release() };
}

async function download(
  url: string,
  key: string,
  cache: FileCache,
  entry: Entry,
  release: () => void,
  options: CachedOptions,
): Promise<Cached> {
  let file: HttpFile | undefined;
  try {
    const before = options.reload ? undefined : await cache.meta(key);
    if (before?.url !== url || entry.size > before.size) await entry.clear();
    const http: HttpOptions = { ...options, cache: 'no-store' };
    file = await openHttp(url, entry.size, http);
    if (entry.size > 0 && (file.byteLength !== before?.size || file.version !== before?.version || file.version === undefined)) {
      await entry.clear(); // the file has changed on the server, or nothing tells if it has: the stored part is of the old file
      if (file.start > 0) {
        file.close();
        file = await openHttp(url, 0, http);
      }
    }
    const meta = (complete: boolean, size: number): Meta => ({ url, size, version: file!.version, complete });
    if (file.byteLength !== undefined) await cache.setMeta(key, meta(false, file.byteLength));
    await cache.touch(key).catch(() => {});
    const through = await createReadThrough(file, makingRoom(entry, key, cache));
    let closed: Promise<void> | undefined;
    const close = async (now: boolean): Promise<void> => {
      try {
        if (!now) await through.complete(TAIL).catch(() => {});
        await through.close();
        const { isWhole, isFull } = through;
        await entry.close();
        if (isWhole) await cache.setMeta(key, meta(true, through.bytes.byteLength));
        else if (isFull) await cache.remove(key); // a part that can never be completed only takes space
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

/**
 * If storage is full, removes other models, least recently used first, except those in use
 * elsewhere.
 */
function makingRoom(entry: Entry, key: string, cache: FileCache): Store {
  return {
    get size() {
      return entry.size;
    },
    read: (start, end) => entry.read(start, end),
    async append(chunk) {
      if (await entry.append(chunk)) return true;
      const others = (await cache.list()).filter(([k]) => k !== key).sort(([, a], [, b]) => a - b);
      for (const [other] of others) {
        const release = await lock(other, 'exclusive');
        if (!release) continue;
        try {
          await cache.remove(other);
        } finally {
          release();
        }
        if (await entry.append(chunk)) return true;
      }
      return false;
    },
  };
}
