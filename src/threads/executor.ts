/**
 * Executors run steps: they have the memories, and the threads that compute in them. The rest of
 * the host knows threads and memories through this interface only.
 */
import { QuantletError } from '../errors.ts';
import { MAX_THREADS } from '../graph/layout.ts';
import type { FileIdentity } from '../io/source.ts';
import { whole } from '../options.ts';

export interface ByteRange {
  readonly at: number;
  readonly length: number;
}

/** Bytes to copy from one memory to another (wasm/memory.ts defines addresses). */
export interface Carry {
  readonly from: number;
  readonly to: number;
  readonly length: number;
}

/** Work in one memory. */
export interface Pass {
  /** Address of the plan. */
  readonly plan: number;
  /** Its records [from, to). */
  readonly from: number;
  readonly to: number;
  /** Copied after the pass. */
  readonly carries?: readonly Carry[];
}

export interface Step {
  /** Run one after the other. */
  readonly passes: readonly Pass[];
  readonly nTokens: number;
  readonly nOutputs: number;
  /** Number of threads that take part; default: all. The result is the same. */
  readonly threads?: number;
  /**
   * Bytes that will be read after the step. If the memory belongs to another thread, they come with
   * its answer.
   */
  readonly reads?: ByteRange;
}

/** Weights that threads read and pack themselves (loading.ts). */
export interface LoadWork {
  readonly files: readonly FileIdentity[];
  /**
   * Numbers of all pieces, in shared memory. (Typed arrays have no type parameter before TypeScript
   * 5.7.)
   */
  readonly pieces: Float64Array;
  /** First bytes of the pieces that have `head`, in shared memory. */
  readonly heads?: Uint8Array;
}

export interface Executor {
  readonly threads: number;
  /** Copies bytes into a memory; not while a step that reads them runs. */
  write(at: number, bytes: Uint8Array): void | Promise<void>;
  /** Bytes of a memory, valid until the next step. */
  read(at: number, length: number): Uint8Array | Promise<Uint8Array>;
  /** A view of a memory for direct writes, if this thread has the memory. */
  view(at: number, length: number): Uint8Array | undefined;
  /**
   * Runs the passes of a step, each on all threads.
   * @throws ERR_WORKER_LOST (usable again afterwards), ERR_DISPOSED, or signal.reason
   */
  run(step: Step, signal?: AbortSignal): Promise<void>;
  /**
   * Lets the threads read pieces of files and pack them (loading.ts), while no step runs. Missing
   * if the threads cannot.
   *
   * @param onDone gets the number of finished pieces, regularly and at the end
   * @throws ERR_WORKER_LOST, ERR_SOURCE, ERR_GGUF_TRUNCATED, ERR_DISPOSED, errors of onDone, or
   * signal.reason
   */
  load?(work: LoadWork, onDone: (pieces: number) => void, signal?: AbortSignal): Promise<void>;
  /**
   * load() by threads that do nothing else, while steps run. Missing unless the executor was
   * started with such readers.
   */
  loadBeside?: Executor['load'];
  /**
   * Computes one record of a plan on this thread, while no step runs, so that V8 compiles its
   * kernel early. Only if threads share the compiled code.
   */
  compileAhead?(plan: number, record: number, nTokens: number, nOutputs: number): void;
  /** Progress of the step and of every thread, in words: for steps that do not end. */
  where(): string;
  /**
   * Tells that no step is expected soon. The threads return, so that they neither occupy cores nor
   * keep the process alive.
   */
  rest(): void;
  dispose(): Promise<void>;
}

/** The option `threads`. */
export const THREADS = whole(1, MAX_THREADS);

/** Error of all calls that dispose() interrupts, and of all later calls. */
export const disposedError = (): QuantletError =>
  new QuantletError('ERR_DISPOSED', 'the model (or engine) was disposed of; load (or create) it again');

/**
 * Error of a worker that ended.
 * @param remedy the next thing to do
 */
export function workerLost(when: string, remedy: string, cause: unknown): QuantletError {
  if (cause instanceof QuantletError && cause.code === 'ERR_BUNDLED') return cause;
  const why = cause instanceof Error ? cause.message : String(cause);
  return new QuantletError('ERR_WORKER_LOST', `a worker thread ended while ${when}: ${why}; ${remedy}`, { cause });
}
