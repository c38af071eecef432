/** The files and batches of a server, kept in a store: what stands there is all that a new start needs. */
import { newId } from '../chat/messages.ts';
import { QuantletError } from '../errors.ts';
import { checkValue, whole } from '../options.ts';
import {
  BadLine,
  badRecord,
  isDone,
  readBatch,
  readRecords,
  recordBytes,
  type BatchLine,
  type BatchRecord,
  type Done,
} from './batch-line.ts';
import { pause, runBatch, type AskLine, type BatchRun } from './batch-run.ts';
import { HttpError } from './http-error.ts';

/** Where bytes are kept, under names of letters, digits, `_`, `-` and `.`, no `.` first. */
export interface BatchStore {
  list(): Promise<readonly string[]>;
  /** What is there: nothing where there is no such name. */
  read(name: string): AsyncIterable<Uint8Array>;
  size(name: string): Promise<number>;
  /** Puts it in the place of what is there, whole or not at all. */
  put(name: string, bytes: Uint8Array): Promise<void>;
  append(name: string, bytes: Uint8Array): Promise<void>;
  truncate(name: string, size: number): Promise<void>;
  remove(name: string): Promise<void>;
}

export interface BatchesOptions {
  /** Bytes of a file at most. Default 200 MiB, as at OpenAI. */
  maxFileBytes?: number;
  /** Bytes of all files together at which no more are taken. Default 10 GiB. */
  maxStoredBytes?: number;
}

/** A file, as OpenAI's clients see it. */
export interface FileObject {
  readonly id: string;
  readonly object: 'file';
  readonly bytes: number;
  readonly created_at: number;
  readonly expires_at: number;
  readonly filename: string;
  readonly purpose: 'batch' | 'batch_output';
  readonly status: 'processed';
}

export type BatchStatus = 'validating' | 'failed' | 'in_progress' | 'finalizing' | 'completed' | 'expired' | 'cancelling' | 'cancelled';

/** A batch, as OpenAI's clients see it. Times are seconds since 1970. */
export interface BatchObject {
  readonly id: string;
  readonly object: 'batch';
  readonly endpoint: string;
  readonly input_file_id: string;
  readonly completion_window: string;
  readonly created_at: number;
  readonly expires_at: number;
  readonly metadata: object;
  status: BatchStatus;
  errors: { object: 'list'; data: { code: string; line: number | null; message: string; param: null }[] } | null;
  output_file_id: string | null;
  error_file_id: string | null;
  in_progress_at: number | null;
  finalizing_at: number | null;
  completed_at: number | null;
  failed_at: number | null;
  expired_at: number | null;
  cancelling_at: number | null;
  cancelled_at: number | null;
  request_counts: { total: number; completed: number; failed: number };
}

/** What is stored beside, and no client's business. */
interface Owned {
  /** Who may see it. */
  readonly owner: string;
}
type StoredFile = Owned & { readonly file: FileObject };
type StoredBatch = Owned & {
  readonly batch: BatchObject;
  /** Seconds for which the files that it makes are kept. */
  readonly keepOutput: number;
};

/** What a batch's server does for it. */
export interface BatchServer {
  readonly ask: AskLine;
  /** Answers that are made at the same time. */
  parallel(): number;
  onError(error: unknown): void;
}

/** The files and batches of one folder or other store. One server has it at a time. */
export interface Batches {
  readonly maxFileBytes: number;
  files(owner: string): readonly FileObject[];
  /** @throws HttpError 404 */
  file(id: string, owner: string): FileObject;
  content(id: string): AsyncIterable<Uint8Array>;
  /**
   * Takes a file in pieces: `fill` appends them, and says what it is at the end.
   * @throws HttpError 413, 507 where there is no room; what `fill` throws
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
  /** @throws HttpError 429 where too many are unfinished */
  create(
    owner: string,
    what: Pick<BatchObject, 'endpoint' | 'input_file_id' | 'completion_window' | 'metadata'>,
    windowSeconds: number,
    keepOutput: number,
  ): Promise<BatchObject>;
  /** @throws HttpError 404, 409 where it has ended */
  cancel(id: string, owner: string): Promise<BatchObject>;
  /** Begins with what is unfinished. Called once, by createHandler. */
  start(server: BatchServer): void;
  /** Begins no further line, gives those under way so many milliseconds, and leaves the rest for the next start. */
  close(drainMs?: number): Promise<void>;
}

/** Seconds for which files are kept where nobody says otherwise, and batches after their end. */
export const KEEP_SECONDS = 30 * 86_400;
/** Batches that run at the same time; others wait. Files, batches, and batches that have not ended, at most. */
const AT_ONCE = 4;
const MAX_FILES = 10_000;
const MAX_BATCHES = 10_000;
const MAX_UNFINISHED = 100;
/** Lines of a batch, as at OpenAI; errors of its form that are told. */
const MAX_LINES = 50_000;
const MAX_ERRORS = 100;
/** Milliseconds until a batch whose store failed (a full disk) is tried again. */
const RETRY_MS = 60_000;

const seconds = (): number => Math.floor(Date.now() / 1000);
const ended = ({ status }: BatchObject): boolean => ['failed', 'completed', 'expired', 'cancelled'].includes(status);
const outputOf = ({ id }: BatchObject): string => id.replace('batch_', 'file-out-');
const errorsOf = ({ id }: BatchObject): string => id.replace('batch_', 'file-err-');

interface Job {
  readonly stop: AbortController;
  readonly abort: AbortController;
  readonly over: Promise<void>;
}

/**
 * Opens what a store holds: half lines are cut off, and files whose upload never ended are removed.
 * @throws QuantletError ERR_INVALID_ARGUMENT, ERR_STATE for what cannot be read; what the store throws
 */
export async function openBatches(store: BatchStore, options: BatchesOptions = {}): Promise<Batches> {
  const { maxFileBytes = 200 * 2 ** 20, maxStoredBytes = 10 * 2 ** 30 } = options;
  for (const [name, value] of Object.entries({ maxFileBytes, maxStoredBytes }))
    checkValue('openBatches', name, value, whole(0, Number.MAX_SAFE_INTEGER));
  const files = new Map<string, StoredFile>();
  const batches = new Map<string, StoredBatch>();
  const dones = new Map<string, Done>();
  const jobs = new Map<string, Job>();
  let server: BatchServer | undefined;
  let closed = false;
  let stored = 0;

  const put = (name: string, value: object): Promise<void> => store.put(`${name}.json`, new TextEncoder().encode(JSON.stringify(value)));
  const save = (entry: StoredBatch): Promise<void> => put(entry.batch.id, entry);
  const append = async (name: string, bytes: Uint8Array): Promise<void> => {
    await store.append(name, bytes);
    stored += bytes.length;
  };
  /** Makes what is stored as `id` a file that its owner sees, for `keep` seconds. */
  const record = async (
    owner: string,
    what: Pick<FileObject, 'id' | 'bytes' | 'filename' | 'purpose'>,
    keep: number,
  ): Promise<FileObject> => {
    const now = seconds();
    const file: FileObject = { ...what, object: 'file', created_at: now, expires_at: now + keep, status: 'processed' };
    await put(file.id, { owner, file } satisfies StoredFile);
    files.set(file.id, { owner, file });
    return file;
  };
  const inUse = (id: string): boolean => [...batches.values()].some(({ batch }) => batch.input_file_id === id && !ended(batch));
  const drop = async (id: string): Promise<void> => {
    const bytes = files.get(id)?.file.bytes ?? (await store.size(id));
    files.delete(id);
    await store.remove(`${id}.json`);
    await store.remove(id);
    stored -= bytes;
  };
  const own = <T extends Owned>(entry: T | undefined, owner: string, what: string, id: string): T => {
    if (entry?.owner === owner) return entry;
    throw new HttpError(404, `There is no ${what} ${JSON.stringify(id.slice(0, 100))}.`, { code: 'not_found' });
  };

  /** Removes what has expired, and batches that ended long ago. */
  async function sweep(): Promise<void> {
    const now = seconds();
    for (const { file } of files.values()) if (file.expires_at <= now && !inUse(file.id)) await drop(file.id);
    for (const { batch } of batches.values()) {
      if (!ended(batch) || batch.created_at + KEEP_SECONDS > now) continue;
      batches.delete(batch.id);
      await store.remove(`${batch.id}.json`);
    }
  }

  async function recover({ batch }: StoredBatch): Promise<void> {
    const done: Done = { answered: new Set(), told: new Set() };
    for (const name of [outputOf(batch), errorsOf(batch)]) {
      const size = await readRecords(store.read(name), done).catch((error: unknown) => {
        throw error instanceof BadLine
          ? new QuantletError('ERR_STATE', `${name}: ${error.message}; remove the file, or what is wrong`)
          : error;
      });
      if (size < (await store.size(name))) await store.truncate(name, size);
    }
    dones.set(batch.id, done);
    batch.request_counts.completed = done.answered.size;
    batch.request_counts.failed = done.told.size;
  }

  const names = await store.list();
  const entries: (StoredFile | StoredBatch)[] = [];
  for (const name of names.filter((n) => /^(?:file-|batch_)[\w-]+\.json$/.test(n))) {
    const decoder = new TextDecoder();
    let text = '';
    for await (const piece of store.read(name)) text += decoder.decode(piece, { stream: true });
    try {
      entries.push(JSON.parse(text) as StoredFile | StoredBatch);
    } catch (cause) {
      throw new QuantletError('ERR_STATE', `${name} in the folder of batches is damaged; remove it`, { cause });
    }
  }
  const created = (entry: StoredFile | StoredBatch): number => ('file' in entry ? entry.file : entry.batch).created_at;
  for (const entry of entries.sort((a, b) => created(a) - created(b)))
    if ('file' in entry) files.set(entry.file.id, entry);
    else batches.set(entry.batch.id, entry);
  for (const entry of batches.values()) if (!ended(entry.batch)) await recover(entry);
  const parts = new Set(
    [...batches.values()].filter(({ batch }) => !ended(batch)).flatMap(({ batch }) => [outputOf(batch), errorsOf(batch)]),
  );
  for (const name of names.filter((n) => /^file-[\w-]+$/.test(n)))
    if (files.has(name) || parts.has(name)) stored += await store.size(name);
    else await store.remove(name);
  await sweep();

  /** Begins batches, those that came first first. */
  function begin(): void {
    if (!server || closed) return;
    for (const entry of batches.values()) {
      if (jobs.size >= AT_ONCE) return;
      if (ended(entry.batch) || jobs.has(entry.batch.id)) continue;
      const stop = new AbortController();
      const abort = new AbortController();
      const { ask, parallel, onError } = server;
      const failed = async (error: unknown): Promise<void> => {
        onError(error);
        // All whole lines that were written stand: it goes on from there.
        await pause(RETRY_MS, AbortSignal.any([stop.signal, abort.signal]));
        await recover(entry);
      };
      const over = runOne(entry, { ask, parallel: parallel() }, stop.signal, abort.signal)
        .catch(failed)
        .then(() => {
          jobs.delete(entry.batch.id);
          begin();
        })
        .catch(onError);
      jobs.set(entry.batch.id, { stop, abort, over });
    }
  }

  async function runOne(entry: StoredBatch, how: Pick<BatchRun, 'ask' | 'parallel'>, stop: AbortSignal, abort: AbortSignal): Promise<void> {
    const { batch } = entry;
    if (batch.status === 'validating' && !(await validate(entry, abort))) return;
    const done = dones.get(batch.id)!;
    const expiry = new AbortController();
    const timer = setTimeout(() => expiry.abort(), Math.max(0, batch.expires_at * 1000 - Date.now()));
    let all = true;
    try {
      if (batch.status === 'in_progress')
        all = await runBatch({
          ...how,
          lines: left(batch, done),
          write: (record) => write(batch, done, record),
          stop,
          abort: AbortSignal.any([abort, expiry.signal]),
        });
    } finally {
      clearTimeout(timer);
    }
    const cancelled = batch.status === 'cancelling';
    const expired = !all && !cancelled && expiry.signal.aborted;
    if (!all && !cancelled && !expired) return; // the server is stopped
    if (expired)
      for await (const { line, customId } of left(batch, done))
        await write(batch, done, badRecord(new BadLine('batch_expired', 'The batch expired before this line was asked.', line, customId)));
    await finish(entry, cancelled ? 'cancelled' : expired ? 'expired' : 'completed');
  }

  /** The lines that have no record yet. */
  async function* left(batch: BatchObject, done: Done): AsyncGenerator<BatchLine | BadLine, void> {
    for await (const line of readBatch(store.read(batch.input_file_id), batch)) if (!isDone(line, done)) yield line;
  }

  async function write(batch: BatchObject, done: Done, record: BatchRecord): Promise<void> {
    await append(record.error ? errorsOf(batch) : outputOf(batch), recordBytes(record));
    if (record.error) done.told.add(record.error.line);
    else done.answered.add(record.customId!);
    batch.request_counts[record.error ? 'failed' : 'completed']++;
  }

  /** Is the form of all lines right? Where it is not, the batch has failed. */
  async function validate(entry: StoredBatch, signal: AbortSignal): Promise<boolean> {
    const { batch } = entry;
    const errors: { code: string; line: number | null; message: string; param: null }[] = [];
    let total = 0;
    for await (const line of readBatch(store.read(batch.input_file_id), { endpoint: batch.endpoint, most: MAX_LINES })) {
      if (signal.aborted || errors.length === MAX_ERRORS) break;
      if (line instanceof BadLine) errors.push({ code: line.code, line: line.line, message: line.message, param: null });
      else total++;
    }
    if (batch.status !== 'validating') return true; // it is cancelled
    if (signal.aborted) return false;
    if (total === 0 && errors.length === 0)
      errors.push({ code: 'empty_file', line: null, message: 'The file has no lines; expected one for each request.', param: null });
    batch.request_counts.total = total;
    batch.status = errors.length > 0 ? 'failed' : 'in_progress';
    batch[errors.length > 0 ? 'failed_at' : 'in_progress_at'] = seconds();
    if (errors.length > 0) batch.errors = { object: 'list', data: errors };
    await save(entry);
    return errors.length === 0;
  }

  async function finish(entry: StoredBatch, status: 'completed' | 'cancelled' | 'expired'): Promise<void> {
    const { batch, owner, keepOutput } = entry;
    if (status === 'completed') [batch.status, batch.finalizing_at] = ['finalizing', seconds()];
    const now = seconds();
    const add = async (id: string, ending: string): Promise<string | null> => {
      const bytes = await store.size(id);
      if (bytes === 0) return null;
      await record(owner, { id, bytes, filename: `${batch.id}_${ending}.jsonl`, purpose: 'batch_output' }, keepOutput);
      return id;
    };
    const output = await add(outputOf(batch), 'output');
    const errors = await add(errorsOf(batch), 'error');
    const ending = { ...batch, output_file_id: output, error_file_id: errors, status, [`${status}_at`]: now };
    await save({ ...entry, batch: ending });
    Object.assign(batch, ending); // who sees that it has ended finds its files, and after a restart too
    dones.delete(batch.id);
  }

  return {
    maxFileBytes,
    files: (owner) =>
      [...files.values()].flatMap((entry) => (entry.owner === owner && entry.file.expires_at > seconds() ? [entry.file] : [])),
    file: (id, owner) => own(files.get(id), owner, 'file', id).file,
    content: (id) => store.read(id),
    async addFile(owner, fill) {
      await sweep();
      const noRoom = (): HttpError =>
        new HttpError(507, `There is no room for more files: ${files.size} have ${stored} bytes. Delete some.`, { code: 'no_room' });
      if (files.size >= MAX_FILES) throw noRoom();
      const id = newId('file-', 24);
      let bytes = 0;
      try {
        const { filename, keep } = await fill(async (piece) => {
          bytes += piece.length;
          if (bytes > maxFileBytes)
            throw new HttpError(413, `The file is larger than ${maxFileBytes} bytes. Send it in several.`, { code: 'file_too_large' });
          if (stored + piece.length > maxStoredBytes) throw noRoom();
          await append(id, piece);
        });
        return await record(owner, { id, bytes, filename, purpose: 'batch' }, keep);
      } catch (error) {
        await drop(id).catch(() => undefined);
        throw error;
      }
    },
    async removeFile(id, owner) {
      own(files.get(id), owner, 'file', id);
      if (inUse(id)) throw new HttpError(409, 'A batch reads this file. Cancel it, or wait until it has ended.', { code: 'file_in_use' });
      await drop(id);
    },
    batches: (owner) => [...batches.values()].flatMap((entry) => (entry.owner === owner ? [entry.batch] : [])),
    batch: (id, owner) => own(batches.get(id), owner, 'batch', id).batch,
    async create(owner, what, windowSeconds, keepOutput) {
      await sweep();
      const unfinished = [...batches.values()].filter(({ batch }) => !ended(batch)).length;
      if (unfinished >= MAX_UNFINISHED || batches.size >= MAX_BATCHES)
        throw new HttpError(429, `${unfinished} batches have not ended; no more are accepted. Try again later.`, {
          code: 'too_many_batches',
        });
      const now = seconds();
      const batch: BatchObject = {
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
      const entry: StoredBatch = { owner, keepOutput, batch };
      await save(entry);
      dones.set(batch.id, { answered: new Set(), told: new Set() });
      batches.set(batch.id, entry);
      begin();
      return batch;
    },
    async cancel(id, owner) {
      const entry = own(batches.get(id), owner, 'batch', id);
      const { batch } = entry;
      if (ended(batch)) throw new HttpError(409, `The batch is ${batch.status} already.`, { code: 'batch_ended' });
      if (batch.status !== 'cancelling' && batch.status !== 'finalizing') {
        [batch.status, batch.cancelling_at] = ['cancelling', seconds()];
        await save(entry);
        jobs.get(id)?.abort.abort();
        begin();
      }
      return batch;
    },
    start(by) {
      server = by;
      begin();
    },
    async close(drainMs = 0) {
      closed = true;
      const running = [...jobs.values()];
      for (const { stop } of running) stop.abort();
      const timer = setTimeout(() => running.forEach(({ abort }) => abort.abort()), drainMs);
      await Promise.all(running.map(({ over }) => over));
      clearTimeout(timer);
    },
  };
}
