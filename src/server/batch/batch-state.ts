/** Files and batches of a server, persisted in a store: a restart needs nothing else. */
import { newId } from '../../chat/messages.ts';
import { QuantletError } from '../../errors.ts';
import { checkValue, whole } from '../../options.ts';
import { BatchFiles, type FileLimits, type FillFile } from './batch-files.ts';
import { BatchJobs, type BatchServer } from './batch-jobs.ts';
import {
  errorsOf,
  hasEnded,
  outputOf,
  seconds,
  type BatchObject,
  type BatchStore,
  type FileObject,
  type Owned,
  type StoredBatch,
  type StoredFile,
} from './batch-objects.ts';
import { HttpError } from '../http/http-error.ts';

export type { BatchServer } from './batch-jobs.ts';
export type { BatchObject, BatchStatus, BatchStore, FileObject } from './batch-objects.ts';

export interface BatchesOptions {
  /** Maximum bytes of a file. Default 200 MiB, as at OpenAI. */
  maxFileBytes?: number | undefined;
  /** Maximum bytes of all files together. Default 10 GiB. */
  maxStoredBytes?: number | undefined;
}

/** Files and batches of a folder or another store. Only one server may use it at a time. */
export interface Batches {
  readonly maxFileBytes: number;
  files(owner: string): readonly FileObject[];
  /** @throws HttpError 404 */
  file(id: string, owner: string): FileObject;
  content(id: string): AsyncIterable<Uint8Array>;
  /**
   * Takes a file in pieces, which `fill` appends.
   * @throws HttpError 413, 507 if there is no room; errors of `fill`
   */
  addFile(
    owner: string,
    fill: (append: (piece: Uint8Array) => Promise<void>) => Promise<{ filename: string; keep: number }>,
  ): Promise<FileObject>;
  /** @throws HttpError 404, 409 while a batch reads it */
  removeFile(id: string, owner: string): Promise<void>;
  batches(owner: string): readonly BatchObject[];
  /** @throws HttpError 404 */
  batch(id: string, owner: string): BatchObject;
  /** @throws HttpError 429 if too many are unfinished */
  create(
    owner: string,
    what: Pick<BatchObject, 'endpoint' | 'input_file_id' | 'completion_window' | 'metadata'>,
    windowSeconds: number,
    keepOutput: number,
  ): Promise<BatchObject>;
  /** @throws HttpError 404, 409 if it has ended */
  cancel(id: string, owner: string): Promise<BatchObject>;
  /** Starts the unfinished batches. Called once, by createHandler. */
  start(server: BatchServer): void;
  /**
   * Starts no further line, gives running lines `drainMs` milliseconds, and leaves the rest for the
   * next start.
   */
  close(drainMs?: number): Promise<void>;
}

/** Default number of seconds to keep files, and batches after their creation. */
export const KEEP_SECONDS = 30 * 86_400;
const MAX_BATCHES = 10_000;
/** Batches that have not ended. */
const MAX_UNFINISHED = 100;

/**
 * Opens the files and batches of a store. Incomplete records are cut off, and files of incomplete
 * uploads are removed.
 * @throws QuantletError ERR_INVALID_ARGUMENT, ERR_STATE for damaged entries; errors of the store
 */
export async function openBatches(store: BatchStore, options: BatchesOptions = {}): Promise<Batches> {
  const { maxFileBytes = 200 * 2 ** 20, maxStoredBytes = 10 * 2 ** 30 } = options;
  for (const [name, value] of Object.entries({ maxFileBytes, maxStoredBytes }))
    checkValue('openBatches', name, value, whole(0, Number.MAX_SAFE_INTEGER));
  const batches = new StoredBatches(store, { maxFileBytes, maxStoredBytes });
  await batches.load();
  return batches;
}

/** Fields of a client's request for a batch. */
type BatchRequest = Pick<BatchObject, 'endpoint' | 'input_file_id' | 'completion_window' | 'metadata'>;

class StoredBatches implements Batches {
  readonly maxFileBytes: number;
  readonly #store: BatchStore;
  readonly #files: BatchFiles;
  readonly #jobs: BatchJobs;

  constructor(store: BatchStore, limits: FileLimits) {
    this.maxFileBytes = limits.maxFileBytes;
    this.#store = store;
    this.#files = new BatchFiles(store, limits);
    this.#jobs = new BatchJobs(this.#files);
  }

  /** Reads the entries of the store, and the records of unfinished batches. */
  async load(): Promise<void> {
    const names = await this.#store.list();
    const entries: (StoredFile | StoredBatch)[] = [];
    for (const name of names.filter((n) => /^(?:file-|batch_)[\w-]+\.json$/.test(n))) entries.push(await readEntry(this.#store, name));
    const created = (entry: StoredFile | StoredBatch): number => ('file' in entry ? entry.file : entry.batch).created_at;
    for (const entry of entries.sort((a, b) => created(a) - created(b)))
      if ('file' in entry) this.#files.all.set(entry.file.id, entry);
      else this.#jobs.all.set(entry.batch.id, entry);
    const unfinished = this.#unfinished();
    for (const entry of unfinished) await this.#jobs.recover(entry);
    const parts = new Set(unfinished.flatMap(({ batch }) => [outputOf(batch), errorsOf(batch)]));
    for (const name of names.filter((n) => /^file-[\w-]+$/.test(n)))
      if (this.#files.all.has(name) || parts.has(name)) await this.#files.count(name);
      else await this.#store.remove(name);
    await this.#sweep();
  }

  files(owner: string): readonly FileObject[] {
    const files = [...this.#files.all.values()].filter((entry) => entry.owner === owner && entry.file.expires_at > seconds());
    return files.map(({ file }) => file);
  }

  file(id: string, owner: string): FileObject {
    return owned(this.#files.all.get(id), owner, 'file', id).file;
  }

  content(id: string): AsyncIterable<Uint8Array> {
    return this.#store.read(id);
  }

  async addFile(owner: string, fill: FillFile): Promise<FileObject> {
    await this.#sweep();
    return await this.#files.add(owner, fill);
  }

  async removeFile(id: string, owner: string): Promise<void> {
    this.file(id, owner);
    if (this.#jobs.isRead(id))
      throw new HttpError(409, 'A batch reads this file. Cancel it, or wait until it has ended.', { code: 'file_in_use' });
    await this.#files.drop(id);
  }

  batches(owner: string): readonly BatchObject[] {
    return [...this.#jobs.all.values()].filter((entry) => entry.owner === owner).map(({ batch }) => batch);
  }

  batch(id: string, owner: string): BatchObject {
    return owned(this.#jobs.all.get(id), owner, 'batch', id).batch;
  }

  async create(owner: string, what: BatchRequest, windowSeconds: number, keepOutput: number): Promise<BatchObject> {
    await this.#sweep();
    const unfinished = this.#unfinished().length;
    if (unfinished >= MAX_UNFINISHED || this.#jobs.all.size >= MAX_BATCHES)
      throw new HttpError(429, `${unfinished} batches have not ended; no more are accepted. Try again later.`, {
        code: 'too_many_batches',
      });
    const batch = newBatch(what, windowSeconds);
    await this.#jobs.add({ owner, keepOutput, batch });
    return batch;
  }

  async cancel(id: string, owner: string): Promise<BatchObject> {
    const entry = owned(this.#jobs.all.get(id), owner, 'batch', id);
    const { batch } = entry;
    if (hasEnded(batch)) throw new HttpError(409, `The batch is ${batch.status} already.`, { code: 'batch_ended' });
    if (batch.status !== 'cancelling' && batch.status !== 'finalizing') await this.#jobs.cancel(entry);
    return batch;
  }

  start(server: BatchServer): void {
    this.#jobs.start(server);
  }

  close(drainMs = 0): Promise<void> {
    return this.#jobs.close(drainMs);
  }

  #unfinished(): StoredBatch[] {
    return [...this.#jobs.all.values()].filter(({ batch }) => !hasEnded(batch));
  }

  /** Removes expired files and old batches that have ended. */
  async #sweep(): Promise<void> {
    const now = seconds();
    for (const { file } of this.#files.all.values())
      if (file.expires_at <= now && !this.#jobs.isRead(file.id)) await this.#files.drop(file.id);
    for (const { batch } of this.#jobs.all.values()) {
      if (!hasEnded(batch) || batch.created_at + KEEP_SECONDS > now) continue;
      this.#jobs.all.delete(batch.id);
      await this.#store.remove(`${batch.id}.json`);
    }
  }
}

async function readEntry(store: BatchStore, name: string): Promise<StoredFile | StoredBatch> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const piece of store.read(name)) text += decoder.decode(piece, { stream: true });
  try {
    return JSON.parse(text) as StoredFile | StoredBatch;
  } catch (cause) {
    throw new QuantletError('ERR_STATE', `${name} in the folder of batches is damaged; remove it`, { cause });
  }
}

/**
 * Returns the entry if `owner` owns it.
 * @throws HttpError 404
 */
function owned<T extends Owned>(entry: T | undefined, owner: string, what: string, id: string): T {
  if (entry?.owner === owner) return entry;
  throw new HttpError(404, `There is no ${what} ${JSON.stringify(id.slice(0, 100))}.`, { code: 'not_found' });
}

function newBatch(what: BatchRequest, windowSeconds: number): BatchObject {
  const now = seconds();
  return {
    id: newId('batch_', 24),
    object: 'batch',
    ...what,
    status: 'validating',
    errors: null,
    output_file_id: null,
    error_file_id: null,
    created_at: now,
    expires_at: now + windowSeconds,
    in_progress_at: null,
    finalizing_at: null,
    completed_at: null,
    failed_at: null,
    expired_at: null,
    cancelling_at: null,
    cancelled_at: null,
    request_counts: { total: 0, completed: 0, failed: 0 },
  };
}
