/**
 * Calls `act` once when the signal aborts, at once if it has aborted before: a listener alone would wait for ever.
 * @returns stops listening
 */
export function onAbort(signal: AbortSignal, act: () => void): () => void {
  if (signal.aborted) act();
  else signal.addEventListener('abort', act, { once: true });
  return () => signal.removeEventListener('abort', act);
}
