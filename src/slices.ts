/** Long work in slices, between which everybody else has a turn. */
import { yieldToEventLoop } from './threads/executor.ts';

/** Work that may pause wherever it yields; its return value is what it was for. */
export type Work<T> = Generator<void, T>;

/** Long enough that pauses cost nothing, short enough that nobody notices. */
const SLICE_MS = 2;

/** Runs to the end without a pause. */
export function atOnce<T>(work: Work<T>): T {
  for (;;) {
    const { done, value } = work.next();
    if (done) return value;
  }
}

let last: Promise<void> = Promise.resolve();

/** Waits for a turn of the event loop that no other long work shares: forty clients' slices, one after the other, would be one long one. */
export function ownTurn(): Promise<void> {
  return (last = last.then(yieldToEventLoop));
}

/** Runs to the end with a pause after every slice. @throws signal.reason */
export async function inSlices<T>(work: Work<T>, signal?: AbortSignal): Promise<T> {
  for (let began = performance.now(); ;) {
    const { done, value } = work.next();
    if (done) return value;
    if (performance.now() - began < SLICE_MS) continue;
    await ownTurn();
    signal?.throwIfAborted();
    began = performance.now();
  }
}
