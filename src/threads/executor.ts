/** What runs steps: the arena and the threads over it. The rest of the host knows nothing else of threads and memories. */
import { QuantletError, tell } from '../errors.ts';

export interface Range {
  readonly at: number;
  readonly length: number;
}

export interface Step {
  /** Address of the plan. */
  readonly plan: number;
  readonly nTokens: number;
  readonly nOutputs: number;
  readonly from: number;
  readonly to: number;
  /** How many of the threads take part; default: all. The result is the same. */
  readonly threads?: number;
  /** What will be read after the step: where the memory is elsewhere, it comes with the step's answer. */
  readonly reads?: Range;
}

export interface Executor {
  readonly threads: number;
  /** Copies bytes into the arena; not while a step that reads them runs. */
  write(at: number, bytes: Uint8Array): void | Promise<void>;
  /** Bytes of the arena, valid until the next step. */
  read(at: number, length: number): Uint8Array | Promise<Uint8Array>;
  /** A view of the arena to write into directly, where this thread has one. */
  view(at: number, length: number): Uint8Array | undefined;
  /**
   * Runs records [from, to) of the plan on all threads.
   * @throws ERR_WORKER_LOST (usable again afterwards), ERR_DISPOSED, or signal.reason
   */
  run(step: Step, signal?: AbortSignal): Promise<void>;
  /** Where the step and every thread stand, in words: for a step that does not end. */
  where(): string;
  /** No step is to be expected soon: threads may rest, so that they hold neither a core nor the process. */
  rest(): void;
  dispose(): Promise<void>;
}

/** More than any machine has cores; each costs a worker and its scratch memory (ggml's GGML_MAX_N_THREADS). A step's number has room for 1023. */
export const MAX_THREADS = 512;

/** The option `threads`; undefined where it was left out. @throws ERR_INVALID_ARGUMENT */
export function checkThreads(threads: number | undefined): number | undefined {
  if (threads === undefined || (Number.isInteger(threads) && threads >= 1 && threads <= MAX_THREADS)) return threads;
  throw new QuantletError('ERR_INVALID_ARGUMENT', `threads is ${tell(threads)}; expected a whole number from 1 to ${MAX_THREADS}`);
}

/** What everything that was under way ends with, and all that comes after. */
export const disposedError = (): QuantletError => new QuantletError('ERR_DISPOSED', 'the model (or engine) was disposed of; load (or create) it again');

/** Lets timers, input and output go first. setImmediate where there is one: a message channel keeps a Node process alive. */
export const yieldToEventLoop: () => Promise<void> = (() => {
  if (typeof setImmediate === 'function') return () => new Promise((resolve) => void setImmediate(resolve));
  if (typeof MessageChannel === 'function') {
    const { port1, port2 } = new MessageChannel();
    const waiting: (() => void)[] = [];
    port1.onmessage = () => waiting.shift()?.();
    return () => new Promise((resolve) => {
      waiting.push(resolve);
      port2.postMessage(0);
    });
  }
  return () => new Promise((resolve) => void setTimeout(resolve, 0));
})();
