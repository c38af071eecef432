/**
 * One file over HTTP, read from any byte to the end: with ranges if the server supports them,
 * resumed if the connection breaks.
 */
import type { OwnBytes } from '../globals.ts';
import { onAbort } from '../abort.ts';
import { QuantletError } from '../errors.ts';
import { isRefusal, unfetchable } from './fetchable.ts';
import { RETRIES, RETRY_MS, passes, reasonOf, retryAfter, sleep, waitFor } from './http-retry.ts';

export interface HttpOptions {
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly signal?: AbortSignal | undefined;
  /**
   * `no-store` if the bytes are stored elsewhere, because the browser's own cache would store them
   * a second time.
   */
  readonly cache?: 'no-store' | undefined;
  /** Milliseconds before the first retry. Each further wait is twice as long. */
  readonly retryMs?: number | undefined;
  /** Milliseconds without a byte after which a connection counts as broken. */
  readonly stallMs?: number | undefined;
  /** Accept answers of another version: for callers who know the file's hash. */
  readonly anyVersion?: boolean | undefined;
  /**
   * Returns advice about a status that is permanent, or (undefined) about a missing connection.
   * Default: advice for a page.
   */
  readonly advice?: ((status: number | undefined) => string) | undefined;
}

export interface HttpFile {
  /** Undefined until the end if the server does not say, or counts compressed bytes. */
  readonly byteLength: number | undefined;
  /** ETag or modification date, if the page may read them. */
  readonly version: string | undefined;
  /** First byte of the answer that is open. */
  readonly start: number;
  /** Bytes from `from` to the end. @throws ERR_DOWNLOAD */
  chunks(from: number): AsyncGenerator<OwnBytes, void>;
  close(): void;
}

/**
 * Far longer than a busy server or a bad connection pauses. undici waits for five minutes, browsers
 * forever.
 */
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
const whole = (text: string | null | undefined): number | undefined => (text && /^\d+$/.test(text) ? Number(text) : undefined);

/**
 * A version without the mark of a weak ETag, which servers and caches add when they compress, or
 * drop.
 */
export const weakly = (version: string): string => version.replace(/^W\//, '');
const versionOf = ({ headers }: Response): string | undefined => {
  const version = headers.get('etag') ?? headers.get('last-modified');
  return version === null ? undefined : weakly(version);
};

const pageAdvice = (status: number | undefined): string =>
  status === undefined
    ? 'no connection, or a page of another origin that the server does not allow: CORS'
    : `check the address${status === 401 || status === 403 ? ' and the headers it asks for' : ''}`;

/** The answer if it arrives in time; otherwise ends the connection. */
async function inTime<T>(coming: Promise<T>, stallMs: number, abort: () => void): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new Error(`no bytes arrived for ${stallMs / 1000} s`));
      abort();
    }, stallMs);
  });
  coming.catch(() => {}); // If both fail, the first failure counts.
  try {
    return await Promise.race([coming, late]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Opens `url` at byte `from`. If the file has shrunk, or the server has no ranges, it is opened at
 * its beginning.
 * @throws ERR_DOWNLOAD if the file does not exist, or the server cannot be reached after several
 * tries; or signal.reason
 */
export async function openHttp(url: string, from: number, options: HttpOptions = {}): Promise<HttpFile> {
  const refused = unfetchable(url, options.headers);
  if (refused !== undefined) throw failed(url, refused);
  const closing = new AbortController();
  const unlisten = options.signal ? onAbort(options.signal, () => closing.abort(options.signal!.reason)) : (): void => {};
  const requests = new Requests(url, options, closing.signal);
  let first: Answer;
  try {
    first = await requests.answerAt(from);
  } catch (error) {
    unlisten();
    throw error;
  }
  const download = new Download(url, requests, first, options, closing.signal);
  return {
    byteLength: first.total,
    version: first.version,
    start: first.start,
    chunks: (at) => download.chunks(at),
    close() {
      unlisten();
      closing.abort();
    },
  };
}

/** Asks for one file. A failure that may pass is tried again. */
class Requests {
  readonly #url: string;
  readonly #options: HttpOptions;
  readonly #closing: AbortSignal;
  readonly #advice: (status: number | undefined) => string;

  constructor(url: string, options: HttpOptions, closing: AbortSignal) {
    this.#url = url;
    this.#options = options;
    this.#closing = closing;
    this.#advice = options.advice ?? pageAdvice;
  }

  /** An answer that begins at byte `at` or before it. */
  async answerAt(at: number): Promise<Answer> {
    for (let tries = 0, begin = at, ranged = true; ; tries++) {
      let why: string, cause: unknown;
      let wait = waitFor(tries, this.#options.retryMs ?? RETRY_MS);
      const { connection, end } = this.#connect();
      try {
        const response = await this.#fetch(begin, ranged, connection, end);
        if (response.ok) return acceptAnswer(this.#url, response, begin, end);
        end();
        if (response.status === 416 && begin > 0) {
          begin = 0;
          continue;
        }
        wait = this.#waitAfter(response, tries);
        why = refusalOf(response);
      } catch (error) {
        end();
        this.#closing.throwIfAborted();
        if (error instanceof QuantletError) throw error;
        ranged = begin > 0; // some servers and old browsers fail on this header
        if (isRefusal(error)) throw failed(this.#url, reasonOf(error), error);
        why = `${reasonOf(error)} (${this.#advice(undefined)})`;
        cause = error;
      }
      if (tries === RETRIES) throw failed(this.#url, `${why}, ${RETRIES + 1} times`, cause);
      await sleep(wait!, this.#closing);
    }
  }

  /** A signal for one connection, which ends with the file, and a function that ends it earlier. */
  #connect(): { readonly connection: AbortSignal; readonly end: () => void } {
    const connection = new AbortController();
    const unlisten = onAbort(this.#closing, () => connection.abort(this.#closing.reason));
    return {
      connection: connection.signal,
      end() {
        unlisten();
        connection.abort();
      },
    };
  }

  #fetch(begin: number, ranged: boolean, signal: AbortSignal, end: () => void): Promise<Response> {
    const { headers, cache, stallMs = STALL_MS } = this.#options;
    // A single range is a simple header: no preflight. If-Range would need one.
    const range = ranged && { range: `bytes=${begin}-` };
    return inTime(fetch(this.#url, { headers: { ...headers, ...range }, signal, ...(cache && { cache }) }), stallMs, end);
  }

  /** Milliseconds to wait after a refusal. @throws ERR_DOWNLOAD if a further try does not help */
  #waitAfter(response: Response, tries: number): number {
    const why = refusalOf(response);
    if (!passes(response.status)) throw failed(this.#url, `${why}; ${this.#advice(response.status)}`);
    const wait = waitFor(tries, this.#options.retryMs ?? RETRY_MS, response);
    if (wait !== undefined) return wait;
    const asked = Math.round(retryAfter(response)! / 1000);
    throw failed(this.#url, `${why} and asks to wait for ${asked} s; ${this.#advice(response.status)}`);
  }
}

const refusalOf = ({ status, statusText }: Response): string => `the server answered ${status} ${statusText}`.trim();

/**
 * The place of a response in the file.
 * @throws ERR_DOWNLOAD for ranges that are compressed, or begin too late
 */
function acceptAnswer(url: string, response: Response, begin: number, abort: () => void): Answer {
  const version = versionOf(response);
  const length = whole(response.headers.get('content-length'));
  const encoding = response.headers.get('content-encoding');
  const compressed = encoding !== null && encoding !== 'identity';
  if (response.status !== 206) return { response, abort, version, start: 0, total: compressed ? undefined : length };
  if (compressed)
    throw failed(
      url,
      `the server compresses ranges (content-encoding ${encoding}), so the file's bytes cannot be read; turn off its compression for .gguf files`,
    );
  const range = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(response.headers.get('content-range') ?? '');
  const start = range ? Number(range[1]) : begin;
  if (start > begin) throw failed(url, `the server answered with bytes from ${start}; expected those from ${begin}`);
  return { response, abort, version, start, total: whole(range?.[2]) ?? (length === undefined ? undefined : start + length) };
}

/** Bytes of a file, from as many answers as necessary. */
class Download {
  readonly #url: string;
  readonly #requests: Requests;
  readonly #options: HttpOptions;
  readonly #closing: AbortSignal;
  readonly #byteLength: number | undefined;
  readonly #version: string | undefined;
  /** The answer that the file was opened with, until it is used. */
  #ready: Answer | undefined;

  constructor(url: string, requests: Requests, first: Answer, options: HttpOptions, closing: AbortSignal) {
    this.#url = url;
    this.#requests = requests;
    this.#options = options;
    this.#closing = closing;
    this.#byteLength = first.total;
    this.#version = first.version;
    this.#ready = first;
  }

  /**
   * Bytes from `first` to the end. A broken connection is resumed, at most RETRIES times without
   * progress.
   */
  async *chunks(first: number): AsyncGenerator<OwnBytes, void> {
    const byteLength = this.#byteLength;
    let at = first;
    for (let failures = 0; ;) {
      let why: string;
      try {
        for await (const bytes of this.#chunksOfAnswer(at)) {
          at += bytes.length;
          this.#checkLength(at);
          failures = 0;
          yield bytes;
        }
        if (byteLength === undefined || at === byteLength) return;
        why = `the connection ended at byte ${at} of ${byteLength}`;
      } catch (error) {
        this.#closing.throwIfAborted();
        if (error instanceof QuantletError) throw error;
        why = `the connection broke at byte ${at}${byteLength === undefined ? '' : ` of ${byteLength}`}: ${reasonOf(error)}`;
        if (byteLength === undefined) throw failed(this.#url, why, error);
      }
      if (++failures > RETRIES) throw failed(this.#url, `${why}, ${failures} times without progress`);
      await sleep((this.#options.retryMs ?? RETRY_MS) * 2 ** (failures - 1), this.#closing);
    }
  }

  /** Bytes of one answer from byte `at` on, until the connection ends. */
  async *#chunksOfAnswer(at: number): AsyncGenerator<OwnBytes, void> {
    const answer = await this.#answerAt(at);
    try {
      this.#checkSame(answer);
      const reader = answer.response.body!.getReader() as ReadableStreamDefaultReader<OwnBytes>;
      for (let skip = at - answer.start; ;) {
        const { done, value } = await inTime(reader.read(), this.#options.stallMs ?? STALL_MS, answer.abort);
        if (done) return;
        const bytes = skip > 0 ? value.subarray(skip) : value;
        skip -= value.length - bytes.length;
        if (bytes.length > 0) yield bytes;
      }
    } finally {
      answer.abort();
    }
  }

  /** The answer that is ready, if it begins early enough, or a new one. */
  async #answerAt(at: number): Promise<Answer> {
    const ready = this.#ready;
    const answer = ready && ready.start <= at ? ready : await this.#requests.answerAt(at);
    if (answer !== ready) ready?.abort();
    this.#ready = undefined;
    return answer;
  }

  #checkLength(at: number): void {
    if (this.#byteLength !== undefined && at > this.#byteLength)
      throw failed(
        this.#url,
        `the server announced ${this.#byteLength} bytes and sent more, perhaps because it compresses the file; turn off its compression for .gguf files`,
      );
  }

  /** @throws ERR_DOWNLOAD if the file has changed since it was opened */
  #checkSame({ total, version }: Answer): void {
    const changed = 'the file changed while it was being read; load it again';
    if (this.#byteLength !== undefined && total !== undefined && total !== this.#byteLength)
      throw failed(this.#url, `it had ${this.#byteLength} bytes and now has ${total}: ${changed}`);
    // An answer without a version may be of another file if the first answer named one.
    if (this.#options.anyVersion !== true && version !== this.#version)
      throw failed(
        this.#url,
        `its version was ${this.#version ?? 'not named'} and now is ${version ?? 'not named'} (ETag or Last-Modified): ${changed}`,
      );
  }
}
