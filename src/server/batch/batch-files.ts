/** Files of a store, with limits on their number and size. */
import { newId } from '../../chat/messages.ts';
import { seconds, type BatchStore, type FileObject, type StoredFile } from './batch-objects.ts';
import { HttpError } from '../http/http-error.ts';

const MAX_FILES = 10_000;

export interface FileLimits {
  /** Maximum bytes of a file, and of all files together. */
  readonly maxFileBytes: number;
  readonly maxStoredBytes: number;
}

/**
 * Appends the pieces of an upload. Returns the file's name, and the number of seconds to keep the
 * file.
 */
export type FillFile = (append: (piece: Uint8Array) => Promise<void>) => Promise<{ filename: string; keep: number }>;

export class BatchFiles {
  readonly all = new Map<string, StoredFile>();
  readonly store: BatchStore;
  readonly #limits: FileLimits;
  /** Bytes of all files. */
  #stored = 0;

  constructor(store: BatchStore, limits: FileLimits) {
    this.store = store;
    this.#limits = limits;
  }

  /** Counts a file that the store already has. */
  async count(name: string): Promise<void> {
    this.#stored += await this.store.size(name);
  }

  async append(name: string, bytes: Uint8Array): Promise<void> {
    await this.store.append(name, bytes);
    this.#stored += bytes.length;
  }

  /** Turns the bytes stored as `id` into a file of `owner`, kept for `keep` seconds. */
  async record(owner: string, what: Pick<FileObject, 'id' | 'bytes' | 'filename' | 'purpose'>, keep: number): Promise<FileObject> {
    const now = seconds();
    const file: FileObject = { ...what, object: 'file', created_at: now, expires_at: now + keep, status: 'processed' };
    await putJson(this.store, file.id, { owner, file } satisfies StoredFile);
    this.all.set(file.id, { owner, file });
    return file;
  }

  /** Removes a file, or the bytes of an upload that failed. */
  async drop(id: string): Promise<void> {
    const bytes = this.all.get(id)?.file.bytes ?? (await this.store.size(id));
    this.all.delete(id);
    await this.store.remove(`${id}.json`);
    await this.store.remove(id);
    this.#stored -= bytes;
  }

  /** @throws HttpError 413, 507; errors of `fill` */
  async add(owner: string, fill: FillFile): Promise<FileObject> {
    if (this.all.size >= MAX_FILES) throw this.#noRoom();
    const { maxFileBytes, maxStoredBytes } = this.#limits;
    const id = newId('file-', 24);
    let bytes = 0;
    try {
      const { filename, keep } = await fill(async (piece) => {
        bytes += piece.length;
        if (bytes > maxFileBytes)
          throw new HttpError(413, `The file is larger than ${maxFileBytes} bytes. Send it in several.`, { code: 'file_too_large' });
        if (this.#stored + piece.length > maxStoredBytes) throw this.#noRoom();
        await this.append(id, piece);
      });
      return await this.record(owner, { id, bytes, filename, purpose: 'batch' }, keep);
    } catch (error) {
      await this.drop(id).catch(() => undefined);
      throw error;
    }
  }

  #noRoom(): HttpError {
    return new HttpError(507, `There is no room for more files: ${this.all.size} have ${this.#stored} bytes. Delete some.`, {
      code: 'no_room',
    });
  }
}

export const putJson = (store: BatchStore, name: string, value: object): Promise<void> =>
  store.put(`${name}.json`, new TextEncoder().encode(JSON.stringify(value)));
