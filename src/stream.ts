import { QuantletError } from './errors.ts';

/** Parts as they come, and the whole. */
export interface Stream<Part, Result> extends AsyncIterable<Part> {
  /** Runs to the end (or waits for the iteration that does) and gives the whole. */
  result(): Promise<Result>;
}

/**
 * A generator whose return value is the whole, as something to iterate over once or to await.
 * Leaving the iteration early rejects result() with an AbortError.
 *
 * @param what how errors call it: `this generation is already ...`
 */
export function createStream<Part, Result>(what: string, make: () => AsyncGenerator<Part, Result>): Stream<Part, Result> {
  let started = false;
  let settle: { resolve(r: Result): void; reject(e: unknown): void };
  const result = new Promise<Result>((resolve, reject) => (settle = { resolve, reject }));
  result.catch(() => {}); // whoever iterates hears of the error there

  async function* run(): AsyncGenerator<Part, void> {
    try {
      settle.resolve(yield* make());
    } catch (error) {
      settle.reject(error);
      throw error;
    } finally {
      // After the other two this does nothing: the consumer left the loop early.
      settle.reject(new DOMException(`the ${what} was left before its end`, 'AbortError'));
    }
  }
  const start = (): AsyncGenerator<Part, void> => {
    if (started) throw new QuantletError('ERR_INVALID_ARGUMENT', `this ${what} is already being iterated over; start a new one`);
    started = true;
    return run();
  };
  return {
    [Symbol.asyncIterator]: start,
    result() {
      if (!started) void (async () => { for await (const _ of start()); })().catch(() => {});
      return result;
    },
  };
}
