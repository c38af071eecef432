/** Queue that limits the number of requests that generate and that wait. */
import { HttpError } from './http/http-error.ts';

/**
 * Runs up to a fixed number of generations, and lets a limited number wait, first come, first
 * served.
 */
export interface Queue {
  readonly running: number;
  readonly waiting: number;
  /**
   * Waits for admission. Resolves to a function to call once when done.
   * @param giveWay only for batch requests, for which nobody waits: they come after all others. It
   * is called when another request needs the slot.
   * @throws HttpError 429 if too many wait; the signal's reason
   */
  enter(signal: AbortSignal, giveWay?: () => void): Promise<() => void>;
}

export function createQueue(parallel: number, maxWaiting: number): Queue {
  let running = 0;
  const waiting: (() => void)[] = [];
  /** Waiting batch requests. */
  const behind: (() => void)[] = [];
  /**
   * Callbacks of running batch requests, the last admitted one last: it has done the least work and
   * is aborted first.
   */
  const giveWays: (() => void)[] = [];
  const remove = (list: (() => void)[], item: () => void): void => {
    if (list.includes(item)) list.splice(list.indexOf(item), 1);
  };
  const take = (giveWay: (() => void) | undefined): (() => void) => {
    if (giveWay) giveWays.push(giveWay);
    let left = false;
    return () => {
      if (left) return;
      left = true;
      if (giveWay) remove(giveWays, giveWay);
      const next = waiting.shift() ?? behind.shift();
      if (next) next();
      else running--;
    };
  };
  return {
    get running() {
      return running;
    },
    get waiting() {
      return waiting.length + behind.length;
    },
    async enter(signal, giveWay) {
      signal.throwIfAborted();
      if (running < parallel) {
        running++;
        return take(giveWay);
      }
      if (!giveWay && waiting.length >= maxWaiting) {
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
      const list = giveWay ? behind : waiting;
      return new Promise((resolve, reject) => {
        const admit = (): void => {
          signal.removeEventListener('abort', abort);
          resolve(take(giveWay));
        };
        const abort = (): void => {
          remove(list, admit);
          reject(signal.reason as Error);
        };
        signal.addEventListener('abort', abort, { once: true });
        list.push(admit);
        if (!giveWay) giveWays.pop()?.();
      });
    },
  };
}
