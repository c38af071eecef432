/**
 * Opens a page's model sources. URLs go through the worker that caches them (both sides are here);
 * everything else is used directly.
 */
import { QuantletError } from '../errors.ts';
import type { OpenedFile } from '../platform.ts';
import type { HubOptions } from '../hub/options.ts';
import { namesOfUrl, repoHint } from '../io/open-url.ts';
import { checkedBytes, toBytes, type SourceLike } from '../io/source.ts';
import type { Cached, CachedOptions, FileCache } from './cached.ts';
import type { WebOptions } from './options.ts';
import type { Channel } from './rpc.ts';

/** Loaded when a URL is first opened, so that pages do not download it before. */
const openCached = async (url: string, cache: FileCache | undefined, options: CachedOptions): Promise<Cached> =>
  (await import('./cached.ts')).openCached(url, cache, options);

export interface OpenInit {
  readonly role: 'open';
  readonly url: string;
  readonly headers: Readonly<Record<string, string>> | undefined;
  readonly cache: boolean;
  readonly reload: boolean;
}
export interface Opened {
  readonly byteLength: number;
  readonly how: Cached['how'];
}
/** `now`: see Cached.close. */
export type OpenRequest = { readonly start: number; readonly end: number } | { readonly close: true; readonly now: boolean };

export interface OpenOptions extends Pick<WebOptions, 'headers' | 'cache'> {
  readonly hub?: HubOptions;
  readonly signal: AbortSignal | undefined;
  /** Starts a worker; undefined if workers are not available, so that the page itself downloads. */
  readonly start: (() => Promise<Channel>) | undefined;
}

/** @throws ERR_SOURCE, ERR_DOWNLOAD, ERR_INVALID_ARGUMENT, or signal.reason */
export async function openSource(source: string | URL | SourceLike, options: OpenOptions): Promise<OpenedFile> {
  if (typeof source !== 'string' && !(source instanceof URL)) {
    return {
      bytes: toBytes(source),
      name: typeof File === 'function' && source instanceof File ? source.name : undefined,
      close: async () => {},
    };
  }
  const given = absolute(source);
  if (given.protocol === 'blob:' || given.protocol === 'data:')
    return { bytes: toBytes(await fetchBlob(given.href)), close: async () => {} };
  const { hubFor, locate } = await import('../hub/locate.ts');
  const { url, headers, projector } = await locate(hubFor(options), given);
  const opened = await openUrl(url.href, { ...options, headers }).catch((error: unknown) => {
    const hint = error instanceof QuantletError && error.code === 'ERR_DOWNLOAD' ? repoHint(String(source)) : '';
    throw hint === '' ? error : new QuantletError('ERR_DOWNLOAD', `${(error as Error).message}${hint}`, { cause: error });
  });
  return { ...opened, ...namesOfUrl(url), projector };
}

/**
 * Resolves a URL relative to the page.
 * @throws ERR_SOURCE
 */
export function absolute(source: string | URL): URL {
  try {
    return new URL(source, globalThis.location?.href);
  } catch (cause) {
    throw new QuantletError(
      'ERR_SOURCE',
      `"${String(source)}" is not a URL that this page can load from; expected an absolute URL, or one relative to the page`,
      { cause },
    );
  }
}

async function fetchBlob(url: string): Promise<Blob> {
  try {
    return await (await fetch(url)).blob();
  } catch (cause) {
    throw new QuantletError('ERR_SOURCE', `cannot read ${url.slice(0, 80)}: it was revoked, or the page's policy does not allow it`, {
      cause,
    });
  }
}

async function openUrl(url: string, { headers, cache = true, signal, start }: OpenOptions): Promise<OpenedFile> {
  const reload = cache === 'reload';
  const keep = cache !== false;
  const worker = await start?.().catch(() => undefined);
  if (!worker) {
    const fileCache = keep ? await (await import('./cache-api.ts')).cacheApiFiles() : undefined;
    return openCached(url, fileCache, { headers, reload, signal });
  }
  try {
    const { byteLength } = await worker.call<Opened>({ role: 'open', url, headers, cache: keep, reload } satisfies OpenInit, { signal });
    return {
      bytes: checkedBytes(byteLength, (from, end, signal) => worker.call({ start: from, end } satisfies OpenRequest, { signal })),
      async close() {
        // State the abort here: the worker learns of an abort only if it ends a read, and most
        // aborts come between reads.
        await worker.call({ close: true, now: signal?.aborted ?? false } satisfies OpenRequest).catch(() => {});
        worker.close();
      },
    };
  } catch (error) {
    worker.close();
    throw error;
  }
}

/**
 * Worker's side: opens the page's URL, then answers its requests.
 * @throws ERR_DOWNLOAD, or signal.reason
 */
export async function serveSource({ url, headers, reload }: OpenInit, cache: FileCache | undefined, signal: AbortSignal) {
  const { bytes, how, close } = await openCached(url, cache, { headers, reload, signal });
  return {
    answer: { byteLength: bytes.byteLength, how } satisfies Opened,
    async handler(request: OpenRequest, signal: AbortSignal): Promise<Uint8Array | void> {
      if ('close' in request) return close(request);
      const left = new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }));
      return Promise.race([bytes.read(request.start, request.end), left]);
    },
  };
}
