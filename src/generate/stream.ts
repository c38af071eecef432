/** Generations and conversations as people use them: parts to iterate over, or the whole to await. */
import { QuantletError } from '../errors.ts';

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
      settle.reject(left());
    }
  }
  const left = (): DOMException => new DOMException(`the ${what} was abandoned before its end`, 'AbortError');
  const start = (): AsyncIterator<Part, void> => {
    if (started) throw new QuantletError('ERR_INVALID_ARGUMENT', `this ${what} is already being iterated over; start a new one`);
    started = true;
    const parts = run();
    return {
      next: () => parts.next(),
      async return() {
        const end = await parts.return();
        settle.reject(left()); // for a generator that had not begun: nothing of it runs then, its finally neither
        return end;
      },
    };
  };
  return {
    [Symbol.asyncIterator]: start,
    result() {
      if (!started) void drain(start()).catch(() => {});
      return result;
    },
  };
}

async function drain(parts: AsyncIterator<unknown, void>): Promise<void> {
  while (!(await parts.next()).done);
}
