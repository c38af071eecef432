/** The files that a page keeps: in the origin private file system, and in the Cache API where there was none. */
import { cacheShelf } from './cache-api.ts';
import { lock, type Shelf } from './cached.ts';
import { opfsKept } from './opfs.ts';

export interface KeptFile {
  readonly key: string;
  readonly url: string;
  /** Bytes of it that are there, and that it has. */
  readonly there: number;
  readonly size: number;
  readonly complete: boolean;
  /** When it was last loaded, milliseconds since 1970; 0: not known. */
  readonly used: number;
  readonly shelf: Pick<Shelf, 'remove'>;
}

/** All of them; none where the browser keeps nothing. */
export async function keptFiles(): Promise<KeptFile[]> {
  const files: KeptFile[] = [];
  for (const shelf of [await opfsKept(), await cacheShelf()]) {
    for (const [key, used] of (await shelf?.list().catch(() => [])) ?? []) {
      const meta = await shelf!.meta(key);
      if (!meta) continue;
      const { url, size, complete } = meta;
      files.push({ key, url, size, complete, used, shelf: shelf!, there: complete ? size : await shelf!.sizeOf(key) });
    }
  }
  return files;
}

/** False where somebody loads it just now, here or in another tab: it stays. */
export async function removeFile({ key, shelf }: Pick<KeptFile, 'key' | 'shelf'>): Promise<boolean> {
  const release = await lock(key, 'exclusive');
  if (!release) return false;
  try {
    await shelf.remove(key);
  } finally {
    release();
  }
  return true;
}
