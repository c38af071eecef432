/** Runs the lines of a batch, many at once, those that begin alike one after the other. */
import { onAbort } from '../abort.ts';
import { yieldToEventLoop } from '../threads/executor.ts';
import { answerRecord, BadLine, badRecord, prefixKey, type BatchLine, type BatchRecord } from './batch-line.ts';
import { errorBody, HttpError } from './http-error.ts';

/** Lines that are looked at to find the one that shares most, at most; bytes of them. */
const WINDOW = 512;
const WINDOW_BYTES = 8 * 2 ** 20;

/** Milliseconds without a further line after which the places choose among those that wait. A reader that has lines at hand gives one far sooner. */
const QUIET_MS = 20;

/** Tries of a line that the server fails to answer, and milliseconds between them. */
const TRIES = 3;
const PAUSE_MS = 1000;

/** Answers a request of a batch: its status, and its body as JSON text. What aborts is status 499. */
export type AskLine = (path: string, body: object, signal: AbortSignal) => Promise<Response>;

export interface BatchRun {
  /** The lines that are left to do, read as they are needed; of bad ones the error is written. */
  readonly lines: AsyncIterable<BatchLine | BadLine>;
  readonly ask: AskLine;
  /** Lines that are asked at the same time. */
  readonly parallel: number;
  /** Called with each record as it is there, one at a time. */
  readonly write: (record: BatchRecord, line: BatchLine | BadLine) => Promise<void>;
  /** Aborted: no further line is begun. */
  readonly stop: AbortSignal;
  /** Aborted: lines under way are given up, as if they had not begun. */
  readonly abort: AbortSignal;
}

interface Waiting {
  readonly line: BatchLine;
  readonly key: string;
  /** Characters that it shares with the last line of each place. */
  readonly shared: number[];
}

/** Characters at the beginning that two texts have in common, from a number on that is known to be. */
function sharedChars(a: string, b: string, from = 0): number {
  let n = from;
  while (n < a.length && n < b.length && a.charCodeAt(n) === b.charCodeAt(n)) n++;
  return n;
}

/**
 * Lines that wait, and which of them each place takes next: the one that shares more with the place's last line than with any other's. So the questions
 * about a document go to one place, whose slot of the cache has the document, and a place that has none left begins with another document; only where
 * there is none does it join a place that has many. Of equals the first comes first.
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
      // Where a line leaves the old key before the new one does, it leaves both there.
      for (const { key: other, shared } of waiting)
        shared[place] = shared[place] === before ? sharedChars(other, key, before) : Math.min(shared[place], before);
      last[place] = key;
      return line;
    },
  };
}

/** Waits until something has changed. */
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
 * Runs the lines to their end, or until `stop`. What a line says decides its answer, not what runs beside it.
 * @returns whether all lines have their records
 * @throws what reading or writing throws; lines under way are given up then
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
    await yieldToEventLoop(); // a thread that was busy for long hears of the time first, and of the lines that came meanwhile then
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
  // What a place takes depends on what waits, so it waits for the lines that come together: however fast they are read, they are shared out alike.
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
  // The source may not give a line for long, or ever: that is not waited for where the places are done.
  const reading = guarded(read());
  await Promise.all([...Array(parallel).keys()].map((place) => guarded(work(place))));
  clearTimeout(timer);
  stop.removeEventListener('abort', bell.ring);
  abort.removeEventListener('abort', bell.ring);
  if (!stopped()) await reading;
  if (failed.signal.aborted) throw failed.signal.reason;
  return ended && window.size === 0 && !givenUp;
}

/** The record of a line; undefined where it was given up. */
async function answerOf(line: BatchLine, ask: AskLine, signal: AbortSignal): Promise<BatchRecord | undefined> {
  // A stream has no place in a file; OpenAI refuses it too.
  if (line.body.stream === true)
    return refused(line, new HttpError(400, "'stream' is true; expected false in a batch.", { param: 'stream', code: 'invalid_value' }));
  for (let failures = 0; ;) {
    const response = await ask(line.url, line.body, signal);
    const text = await response.text().catch(() => undefined);
    if (signal.aborted) return undefined;
    const { status } = response;
    // 499: the place went to somebody who waits; 429: too many wait for the model. Neither is the line's fault; what else fails here may be.
    const waits = text === undefined || status === 499 || status === 429;
    const fails = !waits && status >= 500 && status !== 501 && ++failures < TRIES;
    if (!waits && !fails) return answerRecord(line, status, text);
    if (status !== 499) await pause(PAUSE_MS, signal);
  }
}

const refused = (line: BatchLine, error: HttpError): BatchRecord => answerRecord(line, error.status, JSON.stringify(errorBody(error)));

/** Waits so long, or until the signal aborts. */
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
