/** What a page loads models from: URLs through the cache's worker, everything else as it is. */
import { QuantletError } from '../errors.ts';
import type { OpenedFile } from '../platform.ts';
import { checkedBytes, toBytes, type SourceLike } from '../source.ts';
import { cacheShelf } from './cache-api.ts';
import { openCached, type Cached } from './cached.ts';
import type { WebOptions } from './options.ts';
import type { Channel } from './rpc.ts';

export interface OpenInit {
  readonly role: 'open';
  readonly url: string;
  readonly headers: Readonly<Record<string, string>> | undefined;
  readonly cache: boolean;
  readonly reload: boolean;
}
export interface Opened { readonly byteLength: number; readonly how: Cached['how'] }
export type OpenRequest = { readonly start: number; readonly end: number } | { readonly close: true };

export interface OpenOptions extends Pick<WebOptions, 'headers' | 'cache'> {
  readonly signal: AbortSignal | undefined;
  /** Starts a worker; undefined where there is none to be had: then the page itself downloads. */
  readonly start: (() => Promise<Channel>) | undefined;
}

/** @throws ERR_SOURCE, ERR_DOWNLOAD, ERR_INVALID_ARGUMENT, or signal.reason */
export async function openSource(source: string | URL | SourceLike, options: OpenOptions): Promise<OpenedFile> {
  if (typeof source !== 'string' && !(source instanceof URL)) {
    return { bytes: toBytes(source), name: typeof File === 'function' && source instanceof File ? source.name : undefined, close: async () => {} };
  }
  const url = absolute(source);
  const name = { name: url.origin + url.pathname, sibling: (part: string) => Object.assign(new URL(part), { search: url.search }) };
  if (url.protocol === 'blob:' || url.protocol === 'data:') return { bytes: toBytes(await fetchBlob(url.href)), close: async () => {} };
  return { ...(await openUrl(url.href, options)), ...name };
}

function absolute(source: string | URL): URL {
  try {
    return new URL(source, globalThis.location?.href);
  } catch (cause) {
    throw new QuantletError('ERR_SOURCE', `"${String(source)}" is no URL that this page can load from; expected an absolute URL, or one relative to the page`, { cause });
  }
}

async function fetchBlob(url: string): Promise<Blob> {
  try {
    return await (await fetch(url)).blob();
  } catch (cause) {
    throw new QuantletError('ERR_SOURCE', `cannot read ${url.slice(0, 80)}: it was revoked, or the page's policy does not allow it`, { cause });
  }
}

async function openUrl(url: string, { headers, cache = true, signal, start }: OpenOptions): Promise<OpenedFile> {
  const reload = cache === 'reload', keep = cache !== false;
  const worker = await start?.().catch(() => undefined);
  if (!worker) {
    const shelf = keep ? await cacheShelf() : undefined;
    return openCached(url, shelf, { headers, reload, signal });
  }
  try {
    const { byteLength } = await worker.call<Opened>({ role: 'open', url, headers, cache: keep, reload } satisfies OpenInit, { signal });
    return {
      bytes: checkedBytes(byteLength, (from, end, signal) => worker.call({ start: from, end } satisfies OpenRequest, { signal })),
      async close() {
        await worker.call({ close: true } satisfies OpenRequest).catch(() => {});
        worker.close();
      },
    };
  } catch (error) {
    worker.close();
    throw error;
  }
}
