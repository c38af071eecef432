/** How many requests generate and how many wait. */
import { HttpError } from './http-error.ts';

/** Lets a bounded number of generations run and a bounded number wait, first come first served. */
export interface Queue {
  readonly running: number;
  readonly waiting: number;
  /** Waits for a place; call the result once when done. @throws HttpError 429 where too many wait already; the signal's reason */
  enter(signal: AbortSignal): Promise<() => void>;
}

export function createQueue(parallel: number, maxWaiting: number): Queue {
  let running = 0;
  const waiting: { admit: () => void }[] = [];
  const leave = (): (() => void) => {
    let left = false;
    return () => {
      if (left) return;
      left = true;
      const next = waiting.shift();
      if (next) next.admit();
      else running--;
    };
  };
  return {
    get running() {
      return running;
    },
    get waiting() {
      return waiting.length;
    },
    async enter(signal) {
      signal.throwIfAborted();
      if (running < parallel) {
        running++;
        return leave();
      }
      if (waiting.length >= maxWaiting) {
        const seconds = String(Math.min(60, 1 + Math.ceil(waiting.length / parallel)));
        throw new HttpError(
          429,
          `${running} requests are running and ${waiting.length} are waiting; no more are accepted. Try again in ${seconds} s.`,
          {
            code: 'rate_limit_exceeded',
            headers: { 'retry-after': seconds },
          },
        );
      }
      await new Promise<void>((resolve, reject) => {
        const entry = { admit: () => (signal.removeEventListener('abort', abort), resolve()) };
        const abort = (): void => {
          waiting.splice(waiting.indexOf(entry), 1);
          reject(signal.reason as Error);
        };
        signal.addEventListener('abort', abort, { once: true });
        waiting.push(entry);
      });
      return leave();
    },
  };
}
