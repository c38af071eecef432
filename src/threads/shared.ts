/**
 * Threads over one shared memory. A platform only says how a task is started on worker ith (Piscina, Web Workers);
 * steps, waiting, cancelling and losing a worker are here, through the words of the sync block (assembly/sync.ts).
 */
import { QuantletError } from '../errors.ts';
import { CLOSED, SYNC, SYNC_SIZE } from '../graph/layout.ts';
import { instantiate } from '../wasm/load.ts';
import { disposedError, type Executor, type Step } from './executor.ts';
import { makeKnown, whereThreadsStand } from './where.ts';

/** What a worker needs to serve: kernels.serve(sync, ith, last, idleNs). */
export interface ServeTask {
  readonly sync: number;
  readonly ith: number;
  /** Number of the last step posted before the task began. */
  readonly last: number;
  readonly idleMs: number;
}

export interface Crew {
  readonly nth: number;
  /** Runs kernels.serve on worker ith; settles when it returns, rejects when the worker is lost. */
  start(task: ServeTask): Promise<void>;
  /** Which workers there are, in words (Executor.where). */
  where?(): string;
  /** Where there is no Atomics.waitAsync: resolves once the 32-bit word at this address is no longer `value`. */
  changed?(at: number, value: number): Promise<void>;
  dispose(): Promise<void>;
}

/**
 * Without a step for so long threads go home by themselves, so that a forgotten model does not hold the process.
 * Longer than any pause between two tokens, shorter than a person notices.
 */
export const IDLE_MS = 250;

/**
 * Polls (about 1 ns each) before a waiting thread sleeps. Waking a sleeper takes 10 to 20 us; with only 6 us of polling two threads
 * slept at every barrier and a token of stories260K took 970 us instead of 130. Where threads share cores, polling takes time from
 * the one waited for.
 */
const SPIN = 60_000;
const SPIN_CROWDED = 100;

/** Where nobody watches for the end of a step: the pause between two looks. */
const LOOK_AGAIN_MS = 4;

/** Low bits of a step's number: how many threads take part in it (assembly/sync.ts step_threads). */
const STEP_SHIFT = 10;
const LAST_STEP = 0x1ffffe;

export function createShared(module: WebAssembly.Module, memory: WebAssembly.Memory, sync: number, crew: Crew, cores: number): Executor {
  const words = new Int32Array(memory.buffer, sync, SYNC_SIZE / 4);
  const kernels = instantiate(module, memory);
  const { nth } = crew;
  /** Number of the last step posted, with its threads in the low bits (assembly/sync.ts STEP). */
  let posted = 0;
  /** Settles when all tasks of the current shift have ended; undefined while nobody works. */
  let shift: Promise<void> | undefined;
  let lost: unknown;
  let disposed = false;

  /** A lost worker leaves the others in a barrier and the host at DONE: every word anyone waits on changes, and all are woken. */
  const poison = (reason: unknown): void => {
    lost ??= reason ?? new Error('worker ended');
    Atomics.store(words, SYNC.poison, 1);
    for (const word of [SYNC.step, SYNC.phase, SYNC.done]) {
      Atomics.add(words, word, 1);
      Atomics.notify(words, word);
    }
  };

  const startShift = (): void => {
    for (const word of [SYNC.poison, SYNC.arrived, SYNC.cancel, SYNC.cancel + 1]) Atomics.store(words, word, 0);
    Atomics.store(words, SYNC.spin, nth > cores ? SPIN_CROWDED : SPIN);
    Atomics.store(words, SYNC.step, posted);
    Atomics.store(words, SYNC.done, posted);
    lost = undefined;
    const tasks = Array.from({ length: nth }, (_, ith) => crew.start({ sync, ith, last: posted, idleMs: IDLE_MS }).catch(poison));
    const all = Promise.all(tasks).then(() => {
      if (shift === all) shift = undefined;
    });
    shift = all;
  };

  /** Sends the threads home, but never in the middle of a step: those that have not seen its number yet would leave the others in a barrier. */
  const close = (): void => {
    if (Atomics.load(words, SYNC.done) !== posted) return;
    Atomics.compareExchange(words, SYNC.step, posted, CLOSED);
    Atomics.notify(words, SYNC.step);
  };

  const post = async ({ plan, from, to, threads = nth }: Step): Promise<void> => {
    words.set([plan, from, to], SYNC.plan);
    for (;;) {
      if (!shift) startShift();
      const next = (((posted >> STEP_SHIFT) % LAST_STEP) + 1) * 2 ** STEP_SHIFT + threads;
      if (lost === undefined && Atomics.compareExchange(words, SYNC.step, posted, next) === posted) {
        posted = next;
        Atomics.notify(words, SYNC.step);
        return;
      }
      await shift; // the threads are on their way home: the next shift starts when all are
      if (disposed) throw disposedError();
    }
  };

  /** Waits for DONE without blocking this thread. */
  const finished = async (): Promise<void> => {
    for (;;) {
      const done = Atomics.load(words, SYNC.done);
      if (lost !== undefined) {
        await shift;
        if (disposed) throw disposedError();
        if (lost instanceof QuantletError && lost.code === 'ERR_BUNDLED') throw lost;
        throw new QuantletError('ERR_WORKER_LOST', `a worker thread ended in the middle of a step: ${lost instanceof Error ? lost.message : String(lost)}; the next step can run again, what this one computed is lost`, { cause: lost });
      }
      if (done === posted) return;
      // Whoever watches may be lost in the middle of a step, which goes on all the same: then it is looked at again a little later.
      if (crew.changed) await crew.changed(sync + 4 * SYNC.done, done).catch(() => new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS)));
      else {
        const wait = Atomics.waitAsync(words, SYNC.done, done);
        if (wait.async) await wait.value;
      }
    }
  };

  return makeKnown({
    threads: nth,
    where: () => `${whereThreadsStand(memory, sync, nth, STEP_SHIFT)}; the host posted step ${posted >> STEP_SHIFT}, ${shift ? 'a shift is on' : 'no shift'}${lost === undefined ? '' : ', a worker was lost'}${crew.where ? `; ${crew.where()}` : ''}`,
    write: (at, bytes) => new Uint8Array(memory.buffer, at, bytes.length).set(bytes),
    read: (at, length) => new Uint8Array(memory.buffer, at, length),
    view: (at, length) => new Uint8Array(memory.buffer, at, length),
    async run(step, signal) {
      if (disposed) throw disposedError();
      signal?.throwIfAborted();
      kernels.begin(step.plan, step.nTokens, step.nOutputs);
      Atomics.store(words, SYNC.cancel, 0);
      Atomics.store(words, SYNC.cancel + 1, 0);
      await post(step);
      const cancel = (): void => void Atomics.store(words, SYNC.cancel, 1);
      signal?.addEventListener('abort', cancel, { once: true });
      try {
        await finished();
      } finally {
        signal?.removeEventListener('abort', cancel);
      }
      if (Atomics.load(words, SYNC.cancel + 1) !== 0) signal?.throwIfAborted();
    },
    rest: () => {
      if (shift) close();
    },
    async dispose() {
      disposed = true;
      close();
      await crew.dispose();
      await shift;
    },
  });
}
