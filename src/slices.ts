/** Long work in slices, between which other work can run. */
import { yieldToEventLoop } from './event-loop.ts';

/** Work that may pause at each yield. Its return value is the result. */
export type Work<T> = Generator<void, T>;

/** Length of a slice: long enough that pauses cost nothing, short enough not to be noticed. */
const SLICE_MS = 2;

/** Runs to the end without a pause. */
export function atOnce<T>(work: Work<T>): T {
  for (;;) {
    const { done, value } = work.next();
    if (done) return value;
  }
}

let last: Promise<void> = Promise.resolve();

/**
 * Waits for a turn of the event loop that no other long work uses. Otherwise the slices of forty
 * clients would run one after the other in the same turn.
 */
export function ownTurn(): Promise<void> {
  return (last = last.then(yieldToEventLoop));
}

/**
 * Runs to the end, with a pause after every slice.
 * @throws signal.reason
 */
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
