/**
 * Runs the lines of a batch concurrently. Lines with a common prefix run one after another, so that
 * they share cached tokens.
 */
import { onAbort } from '../../abort.ts';
import { yieldToEventLoop } from '../../event-loop.ts';
import { answerRecord, BadLine, badRecord, prefixKey, type BatchLine, type BatchRecord } from './batch-line.ts';
import { errorBody, HttpError } from '../http/http-error.ts';

/** Maximum number of read-ahead lines to choose from, and their maximum bytes. */
const WINDOW = 512;
const WINDOW_BYTES = 8 * 2 ** 20;

/**
 * Milliseconds without a new line after which the workers choose among the lines present. A reader
 * with available lines is much faster.
 */
const QUIET_MS = 20;

/** Attempts for a line if the server fails, and milliseconds between them. */
const TRIES = 3;
const PAUSE_MS = 1000;

/**
 * Sends a request of a batch to the server. The response has a status and a JSON body; an aborted
 * request has status 499.
 */
export type AskLine = (path: string, body: object, signal: AbortSignal) => Promise<Response>;

export interface BatchRun {
  /** The remaining lines, read on demand. A bad line gets an error record. */
  readonly lines: AsyncIterable<BatchLine | BadLine>;
  readonly ask: AskLine;
  /** Number of concurrent requests. */
  readonly parallel: number;
  /** Called with each record as soon as it exists, one at a time. */
  readonly write: (record: BatchRecord, line: BatchLine | BadLine) => Promise<void>;
  /** If aborted, no further line starts. */
  readonly stop: AbortSignal;
  /** If aborted, running lines are aborted and count as not started. */
  readonly abort: AbortSignal;
}

interface Waiting {
  readonly line: BatchLine;
  readonly key: string;
  /** Number of leading characters shared with the last line of each worker. */
  readonly shared: number[];
}

/** Length of the common prefix of two texts, given that the first `from` characters are equal. */
function sharedChars(a: string, b: string, from = 0): number {
  let n = from;
  while (n < a.length && n < b.length && a.charCodeAt(n) === b.charCodeAt(n)) n++;
  return n;
}

/**
 * Waiting lines, and the choice of the next line for each worker ("place"). The choice maximises
 * the prefix shared with the worker's last line minus the longest prefix shared with another
 * worker's. Of equal lines the first is taken.
 *
 * So questions about one document go to one worker, whose cache slot has the document. A worker
 * without such lines starts another document. It joins another worker's document only if no new one
 * waits.
 */
export function createWindow(places: number): {
  readonly size: number;
  readonly bytes: number;
  add(line: BatchLine): void;
  take(place: number): BatchLine | undefined;
} {
  const waiting: Waiting[] = [];
  const last = Array.from({ length: places }, () => '');
  let bytes = 0;
  return {
    get size() {
      return waiting.length;
    },
    get bytes() {
      return bytes;
    },
    add(line) {
      const key = prefixKey(line);
      bytes += line.size;
      waiting.push({ line, key, shared: last.map((other) => sharedChars(key, other)) });
    },
    take(place) {
      let best = -1;
      let most = -Infinity;
      for (const [i, { shared }] of waiting.entries()) {
        const others = shared.reduce((max, n, other) => (other === place ? max : Math.max(max, n)), 0);
        if (shared[place] - others <= most) continue;
        [best, most] = [i, shared[place] - others];
      }
      if (best < 0) return undefined;
      const [{ line, key }] = waiting.splice(best, 1);
      bytes -= line.size;
      const before = sharedChars(last[place], key);
      // Only lines that matched the old key exactly as far as the new key does need a comparison.
      // For all others the minimum is the new shared length.
      for (const { key: other, shared } of waiting)
        shared[place] = shared[place] === before ? sharedChars(other, key, before) : Math.min(shared[place], before);
      last[place] = key;
      return line;
    },
  };
}

/** Lets any number of waiters wait for the next ring. */
function createBell(): { readonly ring: () => void; readonly wait: () => Promise<void> } {
  let ring = (): void => {};
  let next = new Promise<void>((resolve) => (ring = resolve));
  return {
    ring() {
      ring();
      next = new Promise<void>((resolve) => (ring = resolve));
    },
    wait: () => next,
  };
}

/**
 * Runs lines until all are done or `stop` aborts. An answer depends only on its line, not on
 * concurrent lines.
 * @returns true if all lines have records
 * @throws errors of reading or writing, after aborting the running lines
 */
export async function runBatch({ lines, ask, parallel, write, stop, abort }: BatchRun): Promise<boolean> {
  const window = createWindow(parallel);
  const bell = createBell();
  const failed = new AbortController();
  const over = AbortSignal.any([abort, failed.signal]);
  const stopped = (): boolean => stop.aborted || over.aborted;
  let ended = false;
  let quiet = false;
  let givenUp = false;
  const full = (): boolean => window.size >= WINDOW || window.bytes >= WINDOW_BYTES;
  let written = Promise.resolve();
  const record = (one: BatchRecord, line: BatchLine | BadLine): Promise<void> => (written = written.then(() => write(one, line)));

  let timer: ReturnType<typeof setTimeout> | undefined;
  const hush = async (): Promise<void> => {
    const due = timer;
    await yieldToEventLoop(); // after a blocked event loop, timers fire before pending lines arrive
    if (due !== timer) return;
    quiet = true;
    bell.ring();
  };
  const read = async (): Promise<void> => {
    for await (const line of lines) {
      if (line instanceof BadLine) await record(badRecord(line), line);
      else window.add(line);
      quiet = false;
      clearTimeout(timer);
      timer = setTimeout(() => void hush(), QUIET_MS);
      bell.ring();
      while (!stopped() && full()) await bell.wait();
      if (stopped()) return;
    }
    ended = true;
    bell.ring();
  };
  // The choice depends on the lines present. So a worker waits until lines that arrive together
  // have all been read, which makes the choice independent of the reading speed.
  const work = async (place: number): Promise<void> => {
    while (!stopped()) {
      const line = ended || quiet || full() ? window.take(place) : undefined;
      if (line) {
        bell.ring();
        const answer = await answerOf(line, ask, over);
        if (answer) await record(answer, line);
        else givenUp = true;
      } else if (ended) return;
      else await bell.wait();
    }
  };
  const guarded = (task: Promise<void>): Promise<void> =>
    task.catch((error: unknown) => {
      failed.abort(error);
      bell.ring();
    });
  stop.addEventListener('abort', bell.ring);
  abort.addEventListener('abort', bell.ring);
  // The source may give its next line late or never. Do not wait for it if the workers are done.
  const reading = guarded(read());
  await Promise.all([...Array(parallel).keys()].map((place) => guarded(work(place))));
  clearTimeout(timer);
  stop.removeEventListener('abort', bell.ring);
  abort.removeEventListener('abort', bell.ring);
  if (!stopped()) await reading;
  if (failed.signal.aborted) throw failed.signal.reason;
  return ended && window.size === 0 && !givenUp;
}

/** The record of a line; undefined if it was aborted. */
async function answerOf(line: BatchLine, ask: AskLine, signal: AbortSignal): Promise<BatchRecord | undefined> {
  // A file cannot contain a stream; OpenAI refuses it too.
  if (line.body.stream === true)
    return refused(line, new HttpError(400, "'stream' is true; expected false in a batch.", { param: 'stream', code: 'invalid_value' }));
  for (let failures = 0; ;) {
    const response = await ask(line.url, line.body, signal);
    const text = await response.text().catch(() => undefined);
    if (signal.aborted) return undefined;
    const { status } = response;
    // 499: an interactive request took the slot. 429: too many requests wait for the model. Both
    // are retried without limit; other failures may be the line's fault.
    const waits = text === undefined || status === 499 || status === 429;
    const fails = !waits && status >= 500 && status !== 501 && ++failures < TRIES;
    if (!waits && !fails) return answerRecord(line, status, text);
    if (status !== 499) await pause(PAUSE_MS, signal);
  }
}

const refused = (line: BatchLine, error: HttpError): BatchRecord => answerRecord(line, error.status, JSON.stringify(errorBody(error)));

/** Waits for `ms` milliseconds, or until the signal aborts. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    let unlisten = (): void => {};
    const end = (): void => {
      clearTimeout(timer);
      unlisten();
      resolve();
    };
    const timer = setTimeout(end, ms);
    unlisten = onAbort(signal, end);
  });
}
