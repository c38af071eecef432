/** One file over HTTP, read from any byte to the end: with ranges where the server has them, resumed where the connection breaks. */
import type { OwnBytes } from '../globals.ts';
import { onAbort } from '../abort.ts';
import { QuantletError } from '../errors.ts';
import { isRefusal, unfetchable } from './fetchable.ts';

export interface HttpOptions {
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly signal?: AbortSignal | undefined;
  /** `no-store` where the bytes are kept elsewhere: the browser's own cache would keep them a second time. */
  readonly cache?: 'no-store' | undefined;
  /** Milliseconds before the first retry; each further one waits twice as long. */
  readonly retryMs?: number | undefined;
  /** Milliseconds without a byte after which a connection counts as broken. */
  readonly stallMs?: number | undefined;
  /** Go on with an answer of another version: for callers who know the file's hash. */
  readonly anyVersion?: boolean | undefined;
  /** What to do about a status that will not pass, or (undefined) where there is no connection; default: what a page should look at. */
  readonly advice?: ((status: number | undefined) => string) | undefined;
}

export interface HttpFile {
  /** Undefined where the server does not say, or speaks of compressed bytes: known at the end. */
  readonly byteLength: number | undefined;
  /** ETag or modification date, where the page may read them. */
  readonly version: string | undefined;
  /** First byte of the answer that is at hand. */
  readonly start: number;
  /** Bytes from `from` to the end. @throws ERR_DOWNLOAD */
  chunks(from: number): AsyncGenerator<OwnBytes, void>;
  close(): void;
}

const RETRIES = 4;
const RETRY_MS = 250;
/** A server that asks for a longer wait is not asked again: somebody should know. */
const LONGEST_WAIT_MS = 120_000;
/** Far longer than a busy server or a bad connection pauses; undici by itself waits for five minutes, browsers for ever. */
const STALL_MS = 60_000;

interface Answer {
  readonly response: Response;
  /** Ends the connection. */
  readonly abort: () => void;
  readonly start: number;
  readonly total: number | undefined;
  readonly version: string | undefined;
}

const failed = (url: string, why: string, cause?: unknown): QuantletError =>
  new QuantletError('ERR_DOWNLOAD', `cannot get ${url}: ${why}`, { cause });
const passes = (status: number): boolean => status === 408 || status === 429 || status >= 500;
const whole = (text: string | null | undefined): number | undefined => (text && /^\d+$/.test(text) ? Number(text) : undefined);

/** A version without the mark of a weak ETag: servers and their caches add it when they compress, or lose it. */
export const weakly = (version: string): string => version.replace(/^W\//, '');
const versionOf = ({ headers }: Response): string | undefined => {
  const version = headers.get('etag') ?? headers.get('last-modified');
  return version === null ? undefined : weakly(version);
};

/** The time that a server asks to wait (Retry-After: seconds or a date). */
function retryAfter({ headers }: Response): number | undefined {
  const text = headers.get('retry-after');
  if (text === null) return undefined;
  const ms = /^\d+$/.test(text) ? 1000 * Number(text) : Date.parse(text) - Date.now();
  return Number.isNaN(ms) ? undefined : Math.max(0, ms);
}

/** The wait before a further try: what the server asks for, else twice as long each time; undefined where it asks for too much. */
function waitFor(tries: number, retryMs: number, response?: Response): number | undefined {
  const asked = response && retryAfter(response);
  if (asked !== undefined && asked > LONGEST_WAIT_MS) return undefined;
  return Math.max(asked ?? 0, retryMs * 2 ** tries);
}

/** @throws signal.reason */
const sleep = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    if (signal.aborted) return stop();
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', stop);
      resolve();
    }, ms);
    signal.addEventListener('abort', stop, { once: true });
  });

/** Node's codes of connections that were dropped. Others, such as ENOTFOUND, are the same within seconds. */
const DROPPED: ReadonlySet<unknown> = new Set(['UND_ERR_SOCKET', 'UND_ERR_CONNECT_TIMEOUT', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT']);
/** Whether a further try may help. Runtimes other than Node give no codes. */
function mayBeDropped(error: unknown): boolean {
  const { code } = ((error as Error).cause ?? {}) as { code?: unknown };
  return DROPPED.has(code) || (code === undefined && !isRefusal(error));
}

/**
 * An answer, asked for again while the server is busy or out of order, or drops the connection.
 * @throws what fetch throws, or signal.reason
 */
export async function fetchPatiently(
  ask: () => Promise<Response>,
  { signal, retryMs = RETRY_MS }: { readonly signal: AbortSignal; readonly retryMs?: number | undefined },
): Promise<Response> {
  for (let tries = 0; ; tries++) {
    let wait: number | undefined;
    try {
      const response = await ask();
      if (!passes(response.status) || tries === RETRIES) return response;
      wait = waitFor(tries, retryMs, response);
      if (wait === undefined) return response;
      void response.body?.cancel().catch(() => {});
    } catch (error) {
      signal.throwIfAborted();
      if (tries === RETRIES || !mayBeDropped(error)) throw error;
      wait = waitFor(tries, retryMs)!;
    }
    await sleep(wait, signal);
  }
}

const pageAdvice = (status: number | undefined): string =>
  status === undefined
    ? 'no connection, or a page of another origin that the server does not allow: CORS'
    : `check the address${status === 401 || status === 403 ? ' and the headers it asks for' : ''}`;

/** Node's fetch says "fetch failed" and keeps the reason as the cause. */
const reasonOf = (error: unknown): string =>
  !(error instanceof Error)
    ? String(error)
    : error.cause instanceof Error && error.cause.message !== ''
      ? error.cause.message
      : error.message;

/**
 * Opens `url` at byte `from`; a file that has shrunk or knows no ranges is opened at its beginning.
 * @throws ERR_DOWNLOAD where there is no such file, or the server cannot be reached after some tries; or signal.reason
 */
export async function openHttp(url: string, from: number, options: HttpOptions = {}): Promise<HttpFile> {
  const { headers, cache, signal, retryMs = RETRY_MS, stallMs = STALL_MS, advice = pageAdvice, anyVersion = false } = options;
  const refused = unfetchable(url, headers);
  if (refused !== undefined) throw failed(url, refused);
  const closing = new AbortController();
  const unlisten = signal ? onAbort(signal, () => closing.abort(signal.reason)) : (): void => {};

  /** What comes in time; else the connection is ended. */
  const inTime = async <T>(coming: Promise<T>, abort: () => void): Promise<T> => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        reject(new Error(`nothing came for ${stallMs / 1000} s`));
        abort();
      }, stallMs);
    });
    coming.catch(() => {}); // of two that fail the first is heard
    try {
      return await Promise.race([coming, late]);
    } finally {
      clearTimeout(timer);
    }
  };

  /** One answer that begins at or before `at`; a failure that may pass is tried again. */
  const request = async (at: number): Promise<Answer> => {
    for (let tries = 0, begin = at, ranged = true; ; tries++) {
      let why: string, cause: unknown;
      let wait = waitFor(tries, retryMs);
      const connection = new AbortController();
      const abort = (): void => connection.abort(closing.signal.reason);
      const unlistenClosing = onAbort(closing.signal, abort);
      const done = (): void => {
        unlistenClosing();
        connection.abort();
      };
      try {
        // A single range is a simple header: no preflight. If-Range would need one.
        const response = await inTime(
          fetch(url, {
            headers: { ...headers, ...(ranged && { range: `bytes=${begin}-` }) },
            signal: connection.signal,
            ...(cache && { cache }),
          }),
          done,
        );
        if (response.ok) return accept(response, begin, done);
        done();
        if (response.status === 416 && begin > 0) {
          begin = 0;
          continue;
        }
        why = `the server answered ${response.status} ${response.statusText}`.trim();
        if (!passes(response.status)) throw failed(url, `${why}; ${advice(response.status)}`);
        wait = waitFor(tries, retryMs, response);
        if (wait === undefined)
          throw failed(url, `${why} and asks to wait for ${Math.round(retryAfter(response)! / 1000)} s; ${advice(response.status)}`);
      } catch (error) {
        done();
        closing.signal.throwIfAborted();
        if (error instanceof QuantletError) throw error;
        ranged = begin > 0; // some servers and old browsers stumble over the header
        if (isRefusal(error)) throw failed(url, reasonOf(error), error);
        why = `${reasonOf(error)} (${advice(undefined)})`;
        cause = error;
      }
      if (tries === RETRIES) throw failed(url, `${why}, ${RETRIES + 1} times`, cause);
      await sleep(wait!, closing.signal);
    }
  };

  const accept = (response: Response, begin: number, abort: () => void): Answer => {
    const version = versionOf(response);
    const length = whole(response.headers.get('content-length'));
    const encoding = response.headers.get('content-encoding');
    const compressed = encoding !== null && encoding !== 'identity';
    if (response.status !== 206) return { response, abort, version, start: 0, total: compressed ? undefined : length };
    if (compressed)
      throw failed(
        url,
        `the server compresses ranges (content-encoding ${encoding}), which makes the bytes of a file useless; turn off its compression for .gguf`,
      );
    const range = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(response.headers.get('content-range') ?? '');
    const start = range ? Number(range[1]) : begin;
    if (start > begin) throw failed(url, `the server answered with bytes from ${start}, but those from ${begin} were asked for`);
    return { response, abort, version, start, total: whole(range?.[2]) ?? (length === undefined ? undefined : start + length) };
  };

  let ready: Answer | undefined;
  try {
    ready = await request(from);
  } catch (error) {
    unlisten();
    throw error;
  }
  const { total: byteLength, start, version } = ready;

  async function* chunks(first: number): AsyncGenerator<OwnBytes, void> {
    let at = first;
    for (let failures = 0; ;) {
      let why: string;
      let answer: Answer | undefined;
      try {
        answer = ready && ready.start <= at ? ready : await request(at);
        if (answer !== ready) ready?.abort();
        ready = undefined;
        if (byteLength !== undefined && answer.total !== undefined && answer.total !== byteLength)
          throw failed(
            url,
            `it had ${byteLength} bytes and now has ${answer.total}: the file changed while it was being read; load it again`,
          );
        // An answer that names no version where the first named one may be of any.
        if (!anyVersion && answer.version !== version)
          throw failed(
            url,
            `its version was ${version ?? 'not named'} and now is ${answer.version ?? 'not named'} (ETag or Last-Modified): the file changed while it was being read; load it again`,
          );
        const reader = answer.response.body!.getReader() as ReadableStreamDefaultReader<OwnBytes>;
        let skip = at - answer.start;
        for (;;) {
          const { done, value } = await inTime(reader.read(), answer.abort);
          if (done) break;
          const bytes = skip > 0 ? value.subarray(skip) : value;
          skip -= value.length - bytes.length;
          if (bytes.length === 0) continue;
          at += bytes.length;
          if (byteLength !== undefined && at > byteLength)
            throw failed(
              url,
              `the server announced ${byteLength} bytes and sent more: it may compress the file on the way; turn off its compression for .gguf`,
            );
          failures = 0;
          yield bytes;
        }
        if (byteLength === undefined || at === byteLength) return;
        why = `the connection ended at byte ${at} of ${byteLength}`;
      } catch (error) {
        closing.signal.throwIfAborted();
        if (error instanceof QuantletError) throw error;
        why = `the connection broke at byte ${at}${byteLength === undefined ? '' : ` of ${byteLength}`}: ${reasonOf(error)}`;
        if (byteLength === undefined) throw failed(url, why, error);
      } finally {
        answer?.abort();
      }
      if (++failures > RETRIES) throw failed(url, `${why}, ${failures} times without progress`);
      await sleep(retryMs * 2 ** (failures - 1), closing.signal);
    }
  }

  return {
    byteLength,
    version,
    start,
    chunks,
    close() {
      unlisten();
      closing.abort();
    },
  };
}
