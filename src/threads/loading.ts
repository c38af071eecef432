/**
 * Loading by the threads themselves: pieces of files are read to their places in the shared memory
 * and packed while they are in the cache. The host (load/read-weights.ts) lists the pieces, and
 * workers take them in turn. Reading and packing together, on every thread, takes little longer
 * than reading alone. If the host read weights and they were packed later, they would go to DRAM
 * and back, which takes twice as long.
 */
import { QuantletError, type QuantletErrorCode } from '../errors.ts';
import { workerLost, type LoadWork } from './executor.ts';

/**
 * A piece is PIECE_SIZE numbers. `bytes` bytes of file number `file`, starting at `offset`, go to
 * address `at`. If `head` is not negative, the first HEAD_BYTES of them go to that place of the
 * work's heads.
 *
 * If `type` (the id of a ggml type) is not negative, the bytes are `rows` plain rows of `ne0`
 * elements, to be packed as type `to`. Each thread reads them into `scratchBytes` bytes of its own;
 * those of thread 0 begin at `scratch`. The i32 at `broken` becomes 1 if a scale is Inf or NaN.
 */
// prettier-ignore
export const PIECE = { file: 0, offset: 1, bytes: 2, head: 3, at: 4, type: 5, to: 6, ne0: 7, rows: 8, broken: 9, scratch: 10, scratchBytes: 11 } as const;
export const PIECE_SIZE = 12;

/**
 * Bytes of a weight that enter its model's fingerprint. All bytes would take longer than packing,
 * and training changes every tensor.
 */
export const HEAD_BYTES = 1024;

/**
 * Words shared by host and workers: next piece to take; not 0 to stop; number of finished pieces.
 */
export const LOADING = { next: 0, stop: 1, done: 2 } as const;
export const LOADING_WORDS = 3;

/** Message to worker ith. */
export interface LoadTask extends LoadWork {
  readonly ith: number;
  readonly words: Int32Array;
}

/**
 * Reason why a worker stopped, as code and message: errors lose their codes on the way to another
 * thread.
 */
export type LoadFailure = readonly [code: QuantletErrorCode, message: string];

/** Interval of progress reports. */
const PROGRESS_MS = 20;

/**
 * Lets `nth` workers do the work, each by a call of `start`.
 *
 * @param onDone gets the number of finished pieces while they run; an error in it ends the work
 * @throws ERR_WORKER_LOST, the workers' failures, or signal.reason, after every worker has ended
 */
export async function loadPieces(
  nth: number,
  start: (task: LoadTask) => Promise<LoadFailure | undefined>,
  work: LoadWork,
  onDone: (pieces: number) => void,
  signal?: AbortSignal,
): Promise<void> {
  signal?.throwIfAborted();
  const words = new Int32Array(new SharedArrayBuffer(4 * LOADING_WORDS));
  const stop = (): void => void Atomics.store(words, LOADING.stop, 1);
  let refusal: { reason: unknown } | undefined;
  const tell = (): void => {
    try {
      onDone(Atomics.load(words, LOADING.done));
    } catch (reason) {
      refusal ??= { reason };
      stop();
    }
  };
  const timer = setInterval(tell, PROGRESS_MS);
  signal?.addEventListener('abort', stop, { once: true });
  try {
    const ends = await Promise.allSettled(
      Array.from({ length: nth }, (_, ith) =>
        start({ ...work, ith, words }).catch((cause: unknown) => {
          stop();
          throw cause;
        }),
      ),
    );
    tell();
    signal?.throwIfAborted();
    if (refusal) throw refusal.reason;
    for (const end of ends) {
      if (end.status === 'fulfilled' && end.value) throw new QuantletError(...end.value);
      if (end.status === 'rejected') throw workerLost('weights were read', 'load the model again', end.reason);
    }
  } finally {
    clearInterval(timer);
    signal?.removeEventListener('abort', stop);
  }
}
