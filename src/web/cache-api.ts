/** Storage of models in the Cache API, in parts. For pages without workers or without OPFS. */
import { checkedBytes, type Bytes } from '../io/source.ts';
import type { Entry, Meta, Shelf } from './cached.ts';

const PART = 8 << 20;

/** Opens the storage; undefined without the Cache API (insecure contexts, some private windows). */
export async function cacheShelf(name = 'quantlet'): Promise<Shelf | undefined> {
  let cache: Cache;
  try {
    cache = await caches.open(name);
  } catch {
    return undefined;
  }
  const base = 'https://quantlet.invalid/';
  const address = (key: string, part: string | number): string => `${base}${key}/${part}`;
  const get = async (key: string, part: number): Promise<Uint8Array | undefined> => {
    const response = await cache.match(address(key, part));
    return response && new Uint8Array(await response.arrayBuffer());
  };
  const meta = async (key: string): Promise<Meta | undefined> =>
    (await cache.match(address(key, 'meta')))?.json() as Promise<Meta> | undefined;
  const reader = (key: string, tail: () => { start: number; bytes: Uint8Array } | undefined): Bytes['read'] => {
    let last: { part: number; bytes: Uint8Array } | undefined;
    return async (start, end) => {
      const out = new Uint8Array(end - start);
      for (let at = start; at < end;) {
        const part = Math.floor(at / PART);
        const pending = tail();
        const bytes = pending && pending.start === part * PART ? pending.bytes : last?.part === part ? last.bytes : await get(key, part);
        if (!bytes) return out.slice(0, at - start);
        if (bytes !== pending?.bytes) last = { part, bytes };
        const piece = bytes.subarray(at - part * PART, end - part * PART);
        if (piece.length === 0) return out.slice(0, at - start);
        out.set(piece, at - start);
        at += piece.length;
      }
      return out;
    };
  };

  return {
    meta,
    async list() {
      const keys = (await cache.keys())
        .map((r) => r.url)
        .filter((url) => url.endsWith('/meta'))
        .map((url) => url.slice(base.length, -5));
      return Promise.all(keys.map(async (key) => [key, Number((await (await cache.match(address(key, 'used')))?.text()) ?? 0)] as const));
    },
    async sizeOf(key) {
      let size = 0;
      for (let part = 0; ; part++) {
        const response = await cache.match(address(key, part));
        if (!response) return size;
        size += Number(response.headers.get('content-length'));
      }
    },
    touch: (key) => cache.put(address(key, 'used'), new Response(String(Date.now()))),
    setMeta: (key, about) => cache.put(address(key, 'meta'), Response.json(about)),
    async open(key, size) {
      for (let part = 0; part * PART < size; part++) if (!(await cache.match(address(key, part)))) return undefined;
      return checkedBytes(
        size,
        reader(key, () => undefined),
      );
    },
    async write(key) {
      const about = await meta(key);
      let parts = 0;
      // A shorter part is the end of an interrupted load. It is downloaded again.
      while (about && (await cache.match(address(key, parts)))?.headers.get('content-length') === String(PART)) parts++;
      return entry(key, parts);
    },
    async remove(key) {
      for (const { url } of await cache.keys()) if (url.startsWith(`${base}${key}/`)) await cache.delete(url);
    },
  };

  function entry(key: string, parts: number): Entry {
    let pending = new Uint8Array(0);
    let filled = 0;
    let stored = parts;
    const put = async (): Promise<boolean> => {
      try {
        await cache.put(address(key, stored), new Response(pending.slice(0, filled), { headers: { 'content-length': String(filled) } }));
        return true;
      } catch (error) {
        if (error instanceof DOMException) return false;
        throw error;
      }
    };
    const read = reader(key, () => ({ start: stored * PART, bytes: pending.subarray(0, filled) }));
    return {
      get size() {
        return stored * PART + filled;
      },
      async append(chunk) {
        if (pending.length === 0) pending = new Uint8Array(PART);
        const before = { stored, filled };
        for (let at = 0; at < chunk.length;) {
          const n = Math.min(chunk.length - at, PART - filled);
          pending.set(chunk.subarray(at, at + n), filled);
          filled += n;
          at += n;
          if (filled < PART) continue;
          if (!(await put())) {
            ({ filled } = before); // chunks are far smaller than a part, so a chunk crosses at most one boundary
            return false;
          }
          stored++;
          filled = 0;
        }
        return true;
      },
      read,
      async clear() {
        for (let part = 0; part < stored; part++) await cache.delete(address(key, part));
        stored = filled = 0;
      },
      async close() {
        if (filled > 0) await put();
      },
    };
  }
}
