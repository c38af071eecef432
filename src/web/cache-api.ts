/** Storage of models in the Cache API, in parts. For pages without workers or without OPFS. */
import { checkedBytes, type Bytes } from '../io/source.ts';
import type { Entry, Meta, FileCache } from './cached.ts';

const PART = 8 << 20;
const BASE = 'https://quantlet.invalid/';

/** Opens the storage; undefined without the Cache API (insecure contexts, some private windows). */
export async function cacheApiFiles(name = 'quantlet'): Promise<FileCache | undefined> {
  try {
    return new CacheApiFiles(await caches.open(name));
  } catch {
    return undefined;
  }
}

/**
 * Addresses and contents of the entries of a cache: a file has numbered parts, `meta`, and `used`.
 */
class CachedParts {
  readonly cache: Cache;

  constructor(cache: Cache) {
    this.cache = cache;
  }

  match(key: string, part: string | number): Promise<Response | undefined> {
    return this.cache.match(address(key, part));
  }

  put(key: string, part: string | number, response: Response): Promise<void> {
    return this.cache.put(address(key, part), response);
  }

  delete(key: string, part: string | number): Promise<boolean> {
    return this.cache.delete(address(key, part));
  }

  async bytes(key: string, part: number): Promise<Uint8Array | undefined> {
    const response = await this.match(key, part);
    return response && new Uint8Array(await response.arrayBuffer());
  }

  async isWhole(key: string, part: number): Promise<boolean> {
    return (await this.match(key, part))?.headers.get('content-length') === String(PART);
  }
}

const address = (key: string, part: string | number): string => `${BASE}${key}/${part}`;

/** The part of an entry that is not stored yet. */
interface Pending {
  readonly start: number;
  readonly bytes: Uint8Array;
}

/** Reads bytes of a file. The last part that was read stays in memory. */
class PartReader {
  readonly #parts: CachedParts;
  readonly #key: string;
  readonly #pending: () => Pending | undefined;
  #last: { readonly part: number; readonly bytes: Uint8Array } | undefined;

  constructor(parts: CachedParts, key: string, pending: () => Pending | undefined = () => undefined) {
    this.#parts = parts;
    this.#key = key;
    this.#pending = pending;
  }

  /** Bytes from `start` to `end`, or fewer if the file ends before. */
  async read(start: number, end: number): Promise<Uint8Array> {
    const out = new Uint8Array(end - start);
    for (let at = start; at < end;) {
      const part = Math.floor(at / PART);
      const bytes = await this.#part(part);
      const piece = bytes?.subarray(at - part * PART, end - part * PART);
      if (!piece || piece.length === 0) return out.slice(0, at - start);
      out.set(piece, at - start);
      at += piece.length;
    }
    return out;
  }

  async #part(part: number): Promise<Uint8Array | undefined> {
    const pending = this.#pending();
    if (pending && pending.start === part * PART) return pending.bytes;
    if (this.#last?.part === part) return this.#last.bytes;
    const bytes = await this.#parts.bytes(this.#key, part);
    if (bytes) this.#last = { part, bytes };
    return bytes;
  }
}

class CacheApiFiles implements FileCache {
  readonly #parts: CachedParts;

  constructor(cache: Cache) {
    this.#parts = new CachedParts(cache);
  }

  async meta(key: string): Promise<Meta | undefined> {
    return (await this.#parts.match(key, 'meta'))?.json() as Promise<Meta> | undefined;
  }

  setMeta(key: string, about: Meta): Promise<void> {
    return this.#parts.put(key, 'meta', Response.json(about));
  }

  touch(key: string): Promise<void> {
    return this.#parts.put(key, 'used', new Response(String(Date.now())));
  }

  async list(): Promise<readonly (readonly [key: string, used: number])[]> {
    const urls = (await this.#parts.cache.keys()).map(({ url }) => url).filter((url) => url.endsWith('/meta'));
    const keys = urls.map((url) => url.slice(BASE.length, -'/meta'.length));
    return Promise.all(keys.map(async (key) => [key, Number((await (await this.#parts.match(key, 'used'))?.text()) ?? 0)] as const));
  }

  async sizeOf(key: string): Promise<number> {
    let size = 0;
    for (let part = 0; ; part++) {
      const response = await this.#parts.match(key, part);
      if (!response) return size;
      size += Number(response.headers.get('content-length'));
    }
  }

  async open(key: string, size: number): Promise<Bytes | undefined> {
    for (let part = 0; part * PART < size; part++) if (!(await this.#parts.match(key, part))) return undefined;
    const reader = new PartReader(this.#parts, key);
    return checkedBytes(size, (start, end) => reader.read(start, end));
  }

  async write(key: string): Promise<Entry> {
    const about = await this.meta(key);
    let whole = 0;
    // A shorter part is the end of an interrupted load. It is downloaded again.
    while (about && (await this.#parts.isWhole(key, whole))) whole++;
    return new CacheEntry(this.#parts, key, whole);
  }

  async remove(key: string): Promise<void> {
    const { cache } = this.#parts;
    for (const { url } of await cache.keys()) if (url.startsWith(address(key, ''))) await cache.delete(url);
  }
}

/** A file that is being written: whole parts are stored, the last one is pending. */
class CacheEntry implements Entry {
  readonly #parts: CachedParts;
  readonly #key: string;
  readonly #reader: PartReader;
  /** Parts that are stored. */
  #stored: number;
  #pending = new Uint8Array(0);
  /** Bytes of the pending part. */
  #filled = 0;

  constructor(parts: CachedParts, key: string, stored: number) {
    this.#parts = parts;
    this.#key = key;
    this.#stored = stored;
    this.#reader = new PartReader(parts, key, () => ({ start: this.#stored * PART, bytes: this.#pending.subarray(0, this.#filled) }));
  }

  get size(): number {
    return this.#stored * PART + this.#filled;
  }

  read(start: number, end: number): Promise<Uint8Array> {
    return this.#reader.read(start, end);
  }

  /** Adds a chunk. Returns false if there is no room for it. */
  async append(chunk: Uint8Array): Promise<boolean> {
    if (this.#pending.length === 0) this.#pending = new Uint8Array(PART);
    const filledBefore = this.#filled;
    for (let at = 0; at < chunk.length;) {
      const n = Math.min(chunk.length - at, PART - this.#filled);
      this.#pending.set(chunk.subarray(at, at + n), this.#filled);
      this.#filled += n;
      at += n;
      if (this.#filled < PART) continue;
      if (!(await this.#put())) {
        this.#filled = filledBefore; // chunks are far smaller than a part, so a chunk crosses at most one boundary
        return false;
      }
      this.#stored++;
      this.#filled = 0;
    }
    return true;
  }

  /** Stores the pending part. Returns false if there is no room for it. */
  async #put(): Promise<boolean> {
    const headers = { 'content-length': String(this.#filled) };
    try {
      await this.#parts.put(this.#key, this.#stored, new Response(this.#pending.slice(0, this.#filled), { headers }));
      return true;
    } catch (error) {
      if (error instanceof DOMException) return false;
      throw error;
    }
  }

  async clear(): Promise<void> {
    for (let part = 0; part < this.#stored; part++) await this.#parts.delete(this.#key, part);
    this.#stored = this.#filled = 0;
  }

  async close(): Promise<void> {
    if (this.#filled > 0) await this.#put();
  }
}
