/** Retries requests if a server is busy or a connection is dropped. */
import { isRefusal } from './fetchable.ts';

export const RETRIES = 4;
export const RETRY_MS = 250;
/** A server that asks for a longer wait is not asked again: the caller should know. */
const LONGEST_WAIT_MS = 120_000;

/** Tells if a status may pass: the server is busy or out of order. */
export const passes = (status: number): boolean => status === 408 || status === 429 || status >= 500;
/** Milliseconds that a server asks to wait (Retry-After: seconds or a date). */
export function retryAfter({ headers }: Response): number | undefined {
  const text = headers.get('retry-after');
  if (text === null) return undefined;
  const ms = /^\d+$/.test(text) ? 1000 * Number(text) : Date.parse(text) - Date.now();
  return Number.isNaN(ms) ? undefined : Math.max(0, ms);
}

/**
 * Milliseconds before the next try: as the server asks, or else twice as long each time. Undefined
 * if the server asks for too much.
 */
export function waitFor(tries: number, retryMs: number, response?: Response): number | undefined {
  const asked = response && retryAfter(response);
  if (asked !== undefined && asked > LONGEST_WAIT_MS) return undefined;
  return Math.max(asked ?? 0, retryMs * 2 ** tries);
}

/** @throws signal.reason */
export const sleep = (ms: number, signal: AbortSignal): Promise<void> =>
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

/**
 * Node's codes of connections that were dropped. Others, such as ENOTFOUND, are the same within
 * seconds.
 */
const DROPPED: ReadonlySet<unknown> = new Set(['UND_ERR_SOCKET', 'UND_ERR_CONNECT_TIMEOUT', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT']);
/** Tells if a further try may help. Runtimes other than Node give no codes. */
function mayBeDropped(error: unknown): boolean {
  const { code } = ((error as Error).cause ?? {}) as { code?: unknown };
  return DROPPED.has(code) || (code === undefined && !isRefusal(error));
}

/**
 * An answer. The request is repeated while the server is busy or out of order, or drops the
 * connection.
 * @throws as fetch does, or signal.reason
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

/**
 * Reason for a failed request. Node's fetch says "fetch failed" and keeps the reason as the cause.
 */
export const reasonOf = (error: unknown): string =>
  !(error instanceof Error)
    ? String(error)
    : error.cause instanceof Error && error.cause.message !== ''
      ? error.cause.message
      : error.message;
