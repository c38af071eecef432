/**
 * Loading by the threads themselves: pieces of files, each read to its place in the shared memory and packed while it is in the cache. The host
 * (engine/read-weights.ts) says which pieces there are; workers take them in turns. Reading and packing at once, on every thread, takes little longer
 * than reading alone; read by the host and packed behind it, weights go to DRAM and back in between, and took twice as long.
 */
import { QuantletError, type QuantletErrorCode } from '../errors.ts';
import { workerLost, type LoadWork } from './executor.ts';

/**
 * A piece is PIECE_SIZE numbers, in this order: `bytes` bytes of file number `file` from `offset` on go to the address `at`, and where `head` is not negative
 * the first HEAD_BYTES of them to that place of the work's heads. Where `type` (a ggml type's id) is
 * not negative they are `rows` plain rows of `ne0`, which are packed as type `to`: each thread reads them to its `scratchBytes` bytes, one thread's behind the other's from
 * the address `scratch` on, and the i32 at `broken` becomes 1 where a scale is Inf or NaN.
 */
// prettier-ignore
export const PIECE = { file: 0, offset: 1, bytes: 2, head: 3, at: 4, type: 5, to: 6, ne0: 7, rows: 8, broken: 9, scratch: 10, scratchBytes: 11 } as const;
export const PIECE_SIZE = 12;

/** Bytes of a weight that go into its model's fingerprint. All of them would take longer than packing, and training changes every tensor. */
export const HEAD_BYTES = 1024;

/** Words that host and workers share: the next piece to be taken, not 0 where no more are to be taken, and how many are done. */
export const LOADING = { next: 0, stop: 1, done: 2 } as const;
export const LOADING_WORDS = 3;

/** What worker ith is sent. */
export interface LoadTask extends LoadWork {
  readonly ith: number;
  readonly words: Int32Array;
}

/** Why a worker did not go on, as code and message: errors lose their codes on the way to another thread. */
export type LoadFailure = readonly [code: QuantletErrorCode, message: string];

/** How often progress is told. */
const PROGRESS_MS = 20;

/**
 * Has `nth` workers do the work, each by a call of `start`.
 * @param onDone told how many pieces are done, while they are; what it throws ends the work
 * @throws ERR_WORKER_LOST, the workers' failures, or signal.reason; not before every worker has ended
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
