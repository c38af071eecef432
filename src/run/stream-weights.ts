/**
 * Weights that are in memory only while their pass runs. A window is filled for its next pass as
 * soon as the previous one has been computed.
 */
import type { Filling } from './fill-weights.ts';

export interface Streamed {
  /** Passes with the same number share the memory of one window. */
  readonly window: number;
  readonly filling: Filling;
}

export interface WeightStream<P> {
  /**
   * Resolves when the weights of a pass are in their window. Call between steps.
   * @throws what reading throws (the next call tries again), or signal.reason
   */
  ready(pass: P, signal?: AbortSignal): Promise<void>;
  /** Call after a pass has been computed: its window may be filled for the next pass. */
  done(pass: P): void;
  /** Resolves when the last read has ended. */
  close(): Promise<void>;
}

/** @param passes in the order of a step */
export function createWeightStream<P extends Streamed>(passes: readonly P[]): WeightStream<P> {
  interface Content {
    readonly pass: P;
    /** Resolves when the weights have been read. */
    readonly read: Promise<void>;
    finished: boolean;
  }
  const windows = new Map<number, Content>();
  /** Chain of all reads: one pass after the other, in the order of the files. */
  let queue: Promise<unknown> = Promise.resolve();
  let closed = false;

  const want = (pass: P): Content => {
    const there = windows.get(pass.window);
    if (there?.pass === pass) return there;
    const read = queue.then(() => (closed ? undefined : pass.filling.read()));
    const content: Content = { pass, read, finished: false };
    windows.set(pass.window, content);
    queue = read.catch(() => void (windows.get(pass.window) === content && windows.delete(pass.window)));
    return content;
  };
  const next = (pass: P): P => {
    const same = passes.filter(({ window }) => window === pass.window);
    return same[(same.indexOf(pass) + 1) % same.length];
  };
  return {
    async ready(pass, signal) {
      const content = want(pass);
      await unlessAborted(content.read, signal);
      if (content.finished) return;
      try {
        await pass.filling.finish();
      } catch (error) {
        windows.delete(pass.window);
        throw error;
      }
      content.finished = true;
    },
    done: (pass) => void want(next(pass)),
    async close() {
      closed = true;
      await queue;
    },
  };
}

/** Stops waiting if the signal aborts. The read continues, because its weights will be needed. */
async function unlessAborted(promise: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  if (!signal) return promise;
  signal.throwIfAborted();
  let abort = (): void => {};
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(signal.reason as Error);
    signal.addEventListener('abort', abort, { once: true });
  });
  try {
    await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}
