/**
 * Files that a page has cached: in the origin private file system, and in the Cache API for pages
 * that had no OPFS.
 */
import { cacheApiFiles } from './cache-api.ts';
import { lock, type FileCache } from './cached.ts';
import { opfsKept } from './opfs.ts';

export interface KeptFile {
  readonly key: string;
  readonly url: string;
  /** Stored bytes (`there`), and size of the file. */
  readonly there: number;
  readonly size: number;
  readonly complete: boolean;
  /** When the file was last loaded, milliseconds since 1970; 0: unknown. */
  readonly used: number;
  readonly cache: Pick<FileCache, 'remove'>;
}

/** All cached files; none if the browser stores nothing. */
export async function keptFiles(): Promise<KeptFile[]> {
  const files: KeptFile[] = [];
  for (const cache of [await opfsKept(), await cacheApiFiles()]) {
    for (const [key, used] of (await cache?.list().catch(() => [])) ?? []) {
      const meta = await cache!.meta(key);
      if (!meta) continue;
      const { url, size, complete } = meta;
      files.push({ key, url, size, complete, used, cache: cache!, there: complete ? size : await cache!.sizeOf(key) });
    }
  }
  return files;
}

/**
 * Removes a cached file. Returns false if it is being loaded, here or in another tab; it then
 * stays.
 */
export async function removeFile({ key, cache }: Pick<KeptFile, 'key' | 'cache'>): Promise<boolean> {
  const release = await lock(key, 'exclusive');
  if (!release) return false;
  try {
    await cache.remove(key);
  } finally {
    release();
  }
  return true;
}
