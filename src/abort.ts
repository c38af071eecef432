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
