/** What runs steps: memories, and the threads that compute in them. The rest of the host knows threads and memories by this interface alone. */
import { QuantletError } from '../errors.ts';
import type { FileIdentity } from '../io/source.ts';
import { whole } from '../options.ts';

export interface ByteRange {
  readonly at: number;
  readonly length: number;
}

/** Bytes that go from one memory to another (wasm/memory.ts has what addresses mean). */
export interface Carry {
  readonly from: number;
  readonly to: number;
  readonly length: number;
}

/** What is computed in one memory. */
export interface Pass {
  /** Address of the plan. */
  readonly plan: number;
  /** Its records [from, to). */
  readonly from: number;
  readonly to: number;
  /** Copied when the pass is done. */
  readonly carries?: readonly Carry[];
}

export interface Step {
  /** One after the other. */
  readonly passes: readonly Pass[];
  readonly nTokens: number;
  readonly nOutputs: number;
  /** How many of the threads take part; default: all. The result is the same. */
  readonly threads?: number;
  /** What will be read after the step. Where another thread has the memory, these bytes come with its answer. */
  readonly reads?: ByteRange;
}

/** Weights that threads read and pack by themselves (loading.ts). */
export interface LoadWork {
  readonly files: readonly FileIdentity[];
  /** Numbers of all pieces, in shared memory. (Typed arrays have no type parameter before TypeScript 5.7.) */
  readonly pieces: Float64Array;
  /** Shared too: the first bytes of pieces whose beginnings are wanted. */
  readonly heads?: Uint8Array;
}

export interface Executor {
  readonly threads: number;
  /** Copies bytes into a memory; not while a step that reads them runs. */
  write(at: number, bytes: Uint8Array): void | Promise<void>;
  /** Bytes of a memory, valid until the next step. */
  read(at: number, length: number): Uint8Array | Promise<Uint8Array>;
  /** A view of a memory to write into directly, where this thread has one. */
  view(at: number, length: number): Uint8Array | undefined;
  /**
   * Runs the passes of a step, each on all threads.
   * @throws ERR_WORKER_LOST (usable again afterwards), ERR_DISPOSED, or signal.reason
   */
  run(step: Step, signal?: AbortSignal): Promise<void>;
  /**
   * Has the threads read pieces of files and pack them (loading.ts), where they can, while no step runs.
   * @param onDone how many pieces are done, told now and then and at the end
   * @throws ERR_WORKER_LOST, ERR_SOURCE, ERR_GGUF_TRUNCATED, ERR_DISPOSED, what onDone throws, or signal.reason
   */
  load?(work: LoadWork, onDone: (pieces: number) => void, signal?: AbortSignal): Promise<void>;
  /** The same by threads that do nothing else, while steps run: where the executor was started with such readers. */
  loadBeside?: Executor['load'];
  /** Computes a record of a plan on this thread, while no step runs: V8 compiles kernels when they are first called. Where it compiles as threads do. */
  rehearse?(plan: number, record: number, nTokens: number, nOutputs: number): void;
  /** How far the step and every thread have come, in words: for steps that do not end. */
  where(): string;
  /** No step is expected soon: threads return, so that they neither occupy cores nor keep the process alive. */
  rest(): void;
  dispose(): Promise<void>;
}

/** As ggml's GGML_MAX_N_THREADS. Each thread costs a worker and scratch memory; a step's number has room for 1023 (STEP_THREAD_BITS). */
export const MAX_THREADS = 512;

/** The option `threads`. */
export const THREADS = whole(1, MAX_THREADS);

/** The error of everything that dispose() interrupts, and of all later calls. */
export const disposedError = (): QuantletError =>
  new QuantletError('ERR_DISPOSED', 'the model (or engine) was disposed of; load (or create) it again');

/** The error of a worker that ended. @param remedy what can be done next */
export function workerLost(when: string, remedy: string, cause: unknown): QuantletError {
  if (cause instanceof QuantletError && cause.code === 'ERR_BUNDLED') return cause;
  const why = cause instanceof Error ? cause.message : String(cause);
  return new QuantletError('ERR_WORKER_LOST', `a worker thread ended while ${when}: ${why}; ${remedy}`, { cause });
}

/** Lets timers, input and output go first. By setImmediate where there is one, since a message channel would keep a Node process alive. */
export const yieldToEventLoop: () => Promise<void> = (() => {
  if (typeof setImmediate === 'function') return () => new Promise((resolve) => void setImmediate(resolve));
  if (typeof MessageChannel === 'function') {
    const { port1, port2 } = new MessageChannel();
    const waiting: (() => void)[] = [];
    port1.onmessage = () => waiting.shift()?.();
    return () =>
      new Promise((resolve) => {
        waiting.push(resolve);
        port2.postMessage(0);
      });
  }
  return () => new Promise((resolve) => void setTimeout(resolve, 0));
})();
