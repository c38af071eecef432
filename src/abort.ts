/**
 * Calls `act` once when the signal aborts. If it has aborted already, calls it now, because a
 * listener would never be called.
 * @returns a function that stops listening
 */
export function onAbort(signal: AbortSignal, act: () => void): () => void {
  if (signal.aborted) act();
  else signal.addEventListener('abort', act, { once: true });
  return () => signal.removeEventListener('abort', act);
}

/** The result of a promise, or a rejection with signal.reason if the signal aborts first. */
export function orAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return work;
  return new Promise((resolve, reject) => {
    const unlisten = onAbort(signal, () => reject(signal.reason as Error));
    work.then(resolve, reject).finally(unlisten);
  });
}
