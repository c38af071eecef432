/** Workers as a platform starts them. */
import type { Executor } from './executor.ts';
import type { Compute, ServeTask } from './serve.ts';

/** Workers over an engine's memories, one for each thread. */
export interface ThreadPool {
  /** Number of threads. */
  readonly nth: number;
  /** Runs serveSteps on worker ith. Settles when it returns, rejects if the worker is lost. */
  start(task: ServeTask): Promise<void>;
  /** Lets the workers read and pack all pieces (loading.ts); missing if they cannot open files. */
  readonly load?: Executor['load'];
  /** The state of the workers, in words (Executor.where). */
  where?(): string;
  /**
   * Replaces Atomics.waitAsync if that is missing: resolves once the 32-bit word at this address of
   * the first memory is no longer `value`.
   */
  changed?(at: number, value: number): Promise<void>;
  dispose(): Promise<void>;
}

/** Workers started before it is known what they will compute. */
export interface SpawnedThreads {
  /** Resolves when workers have started or failed to; their first tasks then give the reason. */
  readonly started: Promise<unknown>;
  attach(compute: Compute): ThreadPool;
  /** Ends the workers if there is nothing to attach. */
  dispose(): Promise<void>;
}
