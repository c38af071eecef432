/** Results that can be awaited all at once, or iterated over as they come. */
import { QuantletError } from '../errors.ts';

/** `await` gives the list of all values, `for await` one value after the other, in order. */
export interface Awaitable<T> extends Promise<T[]>, AsyncIterable<T> {}

/**
 * Wraps a generator. Iteration must begin at once; otherwise all values are computed and kept for
 * whoever awaits or iterates later.
 *
 * @param what name in errors: `these embeddings were already ...`
 */
export function createAwaitable<T>(what: string, make: () => AsyncGenerator<T, void>): Awaitable<T> {
  let iterated = false;
  let collects = false;
  const all = (async () => {
    await undefined; // lets `for await` come first
    if (iterated)
      throw new QuantletError('ERR_INVALID_ARGUMENT', `these ${what} were already iterated over; keep what the loop gave, or call again`);
    collects = true;
    const values: T[] = [];
    for await (const value of make()) values.push(value);
    return values;
  })();
  async function* kept(): AsyncGenerator<T, void> {
    yield* await all;
  }
  return Object.assign(all, {
    [Symbol.asyncIterator]: () => {
      if (collects || iterated) return kept();
      iterated = true;
      all.catch(() => {}); // an iterating caller gets the errors of the loop
      return make();
    },
  });
}
