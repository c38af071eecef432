/** Runs batches: validates their lines, sends each as a request, and writes the records. */
import { QuantletError } from '../../errors.ts';
import type { BatchFiles } from './batch-files.ts';
import { putJson } from './batch-files.ts';
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
import { errorsOf, hasEnded, outputOf, seconds, type BatchObject, type StoredBatch } from './batch-objects.ts';
import { pause, runBatch, type AskLine } from './batch-run.ts';

/** Maximum number of batches that run at the same time. */
const AT_ONCE = 4;
/** Maximum lines of a batch, as at OpenAI, and maximum listed errors of form. */
const MAX_LINES = 50_000;
const MAX_ERRORS = 100;
/** Milliseconds until a batch is retried after an error of its store (a full disk). */
const RETRY_MS = 60_000;

/** Services of the server for running batches. */
export interface BatchServer {
  readonly ask: AskLine;
  /** Number of concurrent generations. */
  parallel(): number;
  onError(error: unknown): void;
}

/** A running batch. `stop`: start no further line. `abort`: also abort the running lines. */
interface Job {
  readonly stop: AbortController;
  readonly abort: AbortController;
  readonly over: Promise<void>;
}

type BatchError = NonNullable<BatchObject['errors']>['data'][number];

export class BatchJobs {
  readonly all = new Map<string, StoredBatch>();
  readonly #files: BatchFiles;
  /** Lines of unfinished batches that already have records. */
  readonly #done = new Map<string, Done>();
  readonly #running = new Map<string, Job>();
  #server: BatchServer | undefined;
  #closed = false;

  constructor(files: BatchFiles) {
    this.#files = files;
  }

  start(server: BatchServer): void {
    this.#server = server;
    this.#begin();
  }

  async close(drainMs: number): Promise<void> {
    this.#closed = true;
    const running = [...this.#running.values()];
    for (const { stop } of running) stop.abort();
    const timer = setTimeout(() => running.forEach(({ abort }) => abort.abort()), drainMs);
    await Promise.all(running.map(({ over }) => over));
    clearTimeout(timer);
  }

  /** Tells if an unfinished batch reads a file. */
  isRead(file: string): boolean {
    return [...this.all.values()].some(({ batch }) => batch.input_file_id === file && !hasEnded(batch));
  }

  save(entry: StoredBatch): Promise<void> {
    return putJson(this.#files.store, entry.batch.id, entry);
  }

  /** Stores a new batch, and starts it if fewer than AT_ONCE are running. */
  async add(entry: StoredBatch): Promise<void> {
    await this.save(entry);
    this.#done.set(entry.batch.id, { answered: new Set(), told: new Set() });
    this.all.set(entry.batch.id, entry);
    this.#begin();
  }

  /** Cancels a batch that has not ended. Running lines are aborted. */
  async cancel(entry: StoredBatch): Promise<void> {
    const { batch } = entry;
    [batch.status, batch.cancelling_at] = ['cancelling', seconds()];
    await this.save(entry);
    this.#running.get(batch.id)?.abort.abort();
    this.#begin();
  }

  /** Reads the records of an unfinished batch. An incomplete record at the end is cut off. */
  async recover({ batch }: StoredBatch): Promise<void> {
    const { store } = this.#files;
    const done: Done = { answered: new Set(), told: new Set() };
    for (const name of [outputOf(batch), errorsOf(batch)]) {
      const size = await readRecords(store.read(name), done).catch((error: unknown) => {
        throw error instanceof BadLine
          ? new QuantletError('ERR_STATE', `${name}: ${error.message}; remove the file, or what is wrong`)
          : error;
      });
      if (size < (await store.size(name))) await store.truncate(name, size);
    }
    this.#done.set(batch.id, done);
    batch.request_counts.completed = done.answered.size;
    batch.request_counts.failed = done.told.size;
  }

  /** Starts batches up to the limit, the oldest first. */
  #begin(): void {
    if (!this.#server || this.#closed) return;
    for (const entry of this.all.values()) {
      if (this.#running.size >= AT_ONCE) return;
      if (!hasEnded(entry.batch) && !this.#running.has(entry.batch.id)) this.#run(entry, this.#server);
    }
  }

  #run(entry: StoredBatch, server: BatchServer): void {
    const stop = new AbortController();
    const abort = new AbortController();
    const failed = async (error: unknown): Promise<void> => {
      server.onError(error);
      // All complete lines in the files stay: the batch continues after them.
      await pause(RETRY_MS, AbortSignal.any([stop.signal, abort.signal]));
      await this.recover(entry);
    };
    const over = this.#work(entry, server, stop.signal, abort.signal)
      .catch(failed)
      .then(() => {
        this.#running.delete(entry.batch.id);
        this.#begin();
      })
      .catch((error: unknown) => server.onError(error));
    this.#running.set(entry.batch.id, { stop, abort, over });
  }

  /** Runs a batch until it ends or a signal aborts. */
  async #work(entry: StoredBatch, server: BatchServer, stop: AbortSignal, abort: AbortSignal): Promise<void> {
    const { ask } = server;
    const parallel = server.parallel();
    const { batch } = entry;
    if (batch.status === 'validating' && !(await this.#validate(entry, abort))) return;
    const done = this.#done.get(batch.id)!;
    const write = (record: BatchRecord): Promise<void> => this.#write(batch, done, record);
    const expiry = new AbortController();
    const timer = setTimeout(() => expiry.abort(), Math.max(0, batch.expires_at * 1000 - Date.now()));
    let all = true;
    try {
      if (batch.status === 'in_progress') {
        const lines = this.#linesLeft(batch, done);
        all = await runBatch({ ask, parallel, lines, write, stop, abort: AbortSignal.any([abort, expiry.signal]) });
      }
    } finally {
      clearTimeout(timer);
    }
    if (batch.status === 'cancelling') return await this.#finish(entry, 'cancelled');
    if (all) return await this.#finish(entry, 'completed');
    if (!expiry.signal.aborted) return; // The server is stopping.
    for await (const { line, customId } of this.#linesLeft(batch, done))
      await write(badRecord(new BadLine('batch_expired', 'The batch expired before this line was answered.', line, customId)));
    await this.#finish(entry, 'expired');
  }

  /** Lines without a record. */
  async *#linesLeft(batch: BatchObject, done: Done): AsyncGenerator<BatchLine | BadLine, void> {
    for await (const line of readBatch(this.#files.store.read(batch.input_file_id), batch)) if (!isDone(line, done)) yield line;
  }

  async #write(batch: BatchObject, done: Done, record: BatchRecord): Promise<void> {
    await this.#files.append(record.error ? errorsOf(batch) : outputOf(batch), recordBytes(record));
    if (record.error) done.told.add(record.error.line);
    else done.answered.add(record.customId!);
    batch.request_counts[record.error ? 'failed' : 'completed']++;
  }

  /**
   * Checks the form of all lines. If one is wrong, the batch has failed. Returns true if the batch
   * continues.
   */
  async #validate(entry: StoredBatch, signal: AbortSignal): Promise<boolean> {
    const { batch } = entry;
    const { errors, total } = await this.#checkLines(batch, signal);
    if (batch.status !== 'validating') return true; // It was cancelled meanwhile.
    if (signal.aborted) return false;
    batch.request_counts.total = total;
    batch.status = errors.length > 0 ? 'failed' : 'in_progress';
    batch[errors.length > 0 ? 'failed_at' : 'in_progress_at'] = seconds();
    if (errors.length > 0) batch.errors = { object: 'list', data: errors };
    await this.save(entry);
    return errors.length === 0;
  }

  async #checkLines({ input_file_id, endpoint }: BatchObject, signal: AbortSignal): Promise<{ errors: BatchError[]; total: number }> {
    const errors: BatchError[] = [];
    let total = 0;
    for await (const line of readBatch(this.#files.store.read(input_file_id), { endpoint, most: MAX_LINES })) {
      if (signal.aborted || errors.length === MAX_ERRORS) break;
      if (line instanceof BadLine) errors.push({ code: line.code, line: line.line, message: line.message, param: null });
      else total++;
    }
    if (total === 0 && errors.length === 0)
      errors.push({ code: 'empty_file', line: null, message: 'The file has no lines; expected one for each request.', param: null });
    return { errors, total };
  }

  /**
   * Ends a batch. Its files are recorded before its status, so an ended batch always has its files,
   * also after a restart.
   */
  async #finish(entry: StoredBatch, status: 'completed' | 'cancelled' | 'expired'): Promise<void> {
    const { batch } = entry;
    if (status === 'completed') [batch.status, batch.finalizing_at] = ['finalizing', seconds()];
    const now = seconds();
    const output = await this.#addOutput(entry, outputOf(batch), 'output');
    const errors = await this.#addOutput(entry, errorsOf(batch), 'error');
    const ending = { ...batch, output_file_id: output, error_file_id: errors, status, [`${status}_at`]: now };
    await this.save({ ...entry, batch: ending });
    Object.assign(batch, ending);
    this.#done.delete(batch.id);
  }

  /** Turns the records of a batch into a file; null without records. */
  async #addOutput({ owner, batch, keepOutput }: StoredBatch, id: string, ending: string): Promise<string | null> {
    const bytes = await this.#files.store.size(id);
    if (bytes === 0) return null;
    await this.#files.record(owner, { id, bytes, filename: `${batch.id}_${ending}.jsonl`, purpose: 'batch_output' }, keepOutput);
    return id;
  }
}
