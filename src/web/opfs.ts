/**
 * Storage of models in the origin private file system, through sync access handles. Only workers
 * have these handles. What they write persists when the tab closes.
 */
import { toBytes } from '../io/source.ts';
import type { Entry, Meta, FileCache } from './cached.ts';

/** Type of a sync access handle, which TypeScript's types for pages lack. */
interface SyncHandle {
  getSize(): number;
  read(target: Uint8Array, options: { at: number }): number;
  write(bytes: Uint8Array, options: { at: number }): number;
  truncate(size: number): void;
  flush(): void;
  close(): void;
}
type SyncFile = FileSystemFileHandle & { createSyncAccessHandle(): Promise<SyncHandle> };

const missing = (error: unknown): undefined => {
  if (error instanceof DOMException && error.name === 'NotFoundError') return undefined;
  throw error;
};

const FOLDER = 'quantlet';

const folderNamed = async (name: string): Promise<FileSystemDirectoryHandle> =>
  (await navigator.storage.getDirectory()).getDirectoryHandle(name, { create: true });

const fileIn = (folder: FileSystemDirectoryHandle, name: string, create = false): Promise<SyncFile | undefined> =>
  folder.getFileHandle(name, { create }).catch(missing) as Promise<SyncFile | undefined>;

const textIn = async (folder: FileSystemDirectoryHandle, name: string): Promise<string | undefined> =>
  (await (await fileIn(folder, name))?.getFile())?.text();

type KeptFiles = Pick<FileCache, 'list' | 'meta' | 'sizeOf' | 'remove'>;

/**
 * The operations that pages can do as well: list and remove. Undefined without OPFS (private
 * windows, old browsers).
 */
export async function opfsKept(folderName = FOLDER): Promise<KeptFiles | undefined> {
  const folder = await folderNamed(folderName).catch(() => undefined);
  return folder && kept(folder);
}

function kept(folder: FileSystemDirectoryHandle): KeptFiles {
  return {
    async meta(key) {
      try {
        return JSON.parse((await textIn(folder, `${key}.json`)) ?? '') as Meta;
      } catch {
        return undefined; // absent, or truncated by a tab that was closed
      }
    },
    async list() {
      const found: [string, number][] = [];
      for await (const name of (folder as FileSystemDirectoryHandle & { keys(): AsyncIterable<string> }).keys()) {
        const key = name.endsWith('.json') ? name.slice(0, -5) : undefined;
        if (key) found.push([key, Number((await textIn(folder, `${key}.used`)) ?? 0)]);
      }
      return found;
    },
    sizeOf: async (key) => (await (await fileIn(folder, `${key}.gguf`))?.getFile())?.size ?? 0,
    async remove(key) {
      for (const name of [`${key}.json`, `${key}.used`, `${key}.gguf`]) await folder.removeEntry(name).catch(missing);
    },
  };
}

/**
 * Opens the storage; undefined if this thread cannot write to OPFS (pages, private windows, old
 * browsers).
 */
export async function opfsFiles(folderName = FOLDER): Promise<FileCache | undefined> {
  let folder: FileSystemDirectoryHandle;
  try {
    if (typeof FileSystemFileHandle !== 'function' || !('createSyncAccessHandle' in FileSystemFileHandle.prototype)) return undefined;
    folder = await folderNamed(folderName);
  } catch {
    return undefined;
  }
  const file = (name: string, create = false): Promise<SyncFile | undefined> => fileIn(folder, name, create);

  const put = async (name: string, text: string): Promise<void> => {
    const handle = await (await file(name, true))!.createSyncAccessHandle();
    try {
      handle.truncate(0);
      handle.write(new TextEncoder().encode(text), { at: 0 });
    } finally {
      handle.close();
    }
  };

  return {
    ...kept(folder),
    touch: (key) => put(`${key}.used`, String(Date.now())),
    setMeta: (key, about) => put(`${key}.json`, JSON.stringify(about)),
    async open(key, size) {
      const blob = await (await file(`${key}.gguf`))?.getFile();
      return blob?.size === size ? toBytes(blob) : undefined;
    },
    async write(key) {
      try {
        return entry(await (await file(`${key}.gguf`, true))!.createSyncAccessHandle());
      } catch (error) {
        if (error instanceof DOMException && (error.name === 'NoModificationAllowedError' || error.name === 'InvalidStateError'))
          return undefined;
        throw error;
      }
    },
  };
}

function entry(handle: SyncHandle): Entry {
  let size = handle.getSize();
  return {
    get size() {
      return size;
    },
    append(chunk) {
      try {
        if (handle.write(chunk, { at: size }) === chunk.length) {
          size += chunk.length;
          return true;
        }
      } catch (error) {
        if (!(error instanceof DOMException)) throw error;
      }
      try {
        handle.truncate(size);
      } catch {
        // Bytes beyond `size` do not count; the next append overwrites them.
      }
      return false;
    },
    read(start, end) {
      const bytes = new Uint8Array(end - start);
      const n = handle.read(bytes, { at: start });
      return n === bytes.length ? bytes : bytes.slice(0, n);
    },
    clear() {
      handle.truncate((size = 0));
    },
    close() {
      handle.flush();
      handle.close();
    },
  };
}
