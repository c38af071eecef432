/** Public form of generations and conversations: iterate over parts, or await the whole result. */
import { QuantletError } from '../errors.ts';

/** An iterable of parts, with the whole result. */
export interface Stream<Part, Result> extends AsyncIterable<Part> {
  /** Runs to the end (or waits for the running iteration) and returns the whole result. */
  result(): Promise<Result>;
}

/**
 * Fields of results. Code that awaits the stream instead of its result looks for them there, and
 * would get undefined without an explanation.
 */
const OF_RESULT =
  'text content reasoning toolCalls messages steps finishReason stopText ids promptIds logprobs timings relaxed leftOut'.split(' ');

/** Adds properties that throw, hidden from whatever lists or copies an object's. */
function withoutResult<S extends object>(what: string, stream: S): S {
  const missing = (name: string) => ({
    get(): never {
      throw new QuantletError(
        'ERR_INVALID_ARGUMENT',
        `this ${what} has no ${name} yet; expected \`const { ${name} } = await ${what}.result()\`, or \`for await\` over its parts`,
      );
    },
  });
  return Object.defineProperties(stream, Object.fromEntries(OF_RESULT.map((name) => [name, missing(name)])));
}

/**
 * Wraps a generator, whose return value is the whole result, as a stream: iterate over it once, or
 * await the result. Leaving the iteration early rejects result() with an AbortError.
 *
 * @param what name in errors: `this generation is already ...`
 */
export function createStream<Part, Result>(what: string, make: () => AsyncGenerator<Part, Result>): Stream<Part, Result> {
  let started = false;
  let settle: { resolve(r: Result): void; reject(e: unknown): void };
  const result = new Promise<Result>((resolve, reject) => (settle = { resolve, reject }));
  result.catch(() => {}); // an iterating caller gets the error there

  async function* run(): AsyncGenerator<Part, void> {
    try {
      settle.resolve(yield* make());
    } catch (error) {
      settle.reject(error);
      throw error;
    } finally {
      // Has no effect after the other two. Otherwise the caller left the loop early.
      settle.reject(left());
    }
  }
  const left = (): DOMException => new DOMException(`the ${what} was abandoned before its end`, 'AbortError');
  const start = (): AsyncIterator<Part, void> => {
    if (started) throw new QuantletError('ERR_INVALID_ARGUMENT', `this ${what} is already iterated over; start a new one`);
    started = true;
    const parts = run();
    return {
      next: () => parts.next(),
      async return() {
        const end = await parts.return();
        settle.reject(left()); // a generator that has not started runs no code on return(), not even its finally
        return end;
      },
    };
  };
  return withoutResult(what, {
    [Symbol.asyncIterator]: start,
    result() {
      if (!started) void drain(start()).catch(() => {});
      return result;
    },
  });
}

async function drain(parts: AsyncIterator<unknown, void>): Promise<void> {
  while (!(await parts.next()).done);
}
