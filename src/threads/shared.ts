/**
 * Threads over shared memories. A platform only defines how a task is started on worker ith
 * (Piscina, Web Workers). Posting a step, waiting for its end, cancelling it and losing a worker
 * are handled here, through the words of the sync block (assembly/runtime/sync.ts).
 *
 * Threads serve while there are steps: run() starts a task on every worker if none is running, and
 * the tasks return after IDLE_MS without a step.
 */
import { CLOSED, STEP_THREAD_BITS, SYNC, SYNC_SIZE } from '../graph/layout.ts';
import { instantiate } from '../wasm/load.ts';
import { ARENA_BASE, bytesIn, memoryOf } from '../wasm/memory.ts';
import { disposedError, workerLost, type Executor, type Pass, type Step } from './executor.ts';
import { writeProgram, type Compute, type ServeTask } from './serve.ts';
import { makeKnown, whereThreadsStand } from './where.ts';

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

/**
 * Threads that wait this long for a step return, so that a model without dispose() does not keep
 * the process alive. Longer than any pause between two tokens, shorter than a person notices.
 */
export const IDLE_MS = 250;

/**
 * Polls (about 1 ns each) before a waiting thread sleeps. Waking a sleeper takes 10 to 20 us, so
 * with few polls threads of a small model would sleep at every barrier. If threads share cores,
 * polling takes time from the thread that others wait for: then they poll SPIN_CROWDED times.
 */
const SPIN = 60_000;
const SPIN_CROWDED = 100;

/** Pause between two reads of DONE while no worker watches it. */
const LOOK_AGAIN_MS = 4;

/** Largest number that leaves the bits of STEP a positive i32; the first step follows it. */
const LAST_STEP = 0x1ffffe;

/**
 * Makes the executor.
 * @param readers workers that read weights while the others compute
 */
export function createShared(compute: Compute, pool: ThreadPool, cores: number, readers?: ThreadPool): Executor {
  const { module, memories, program } = compute;
  /**
   * Sync block of each memory. Steps are posted in the first one, and their end is written there.
   */
  const blocks = memories.map(({ buffer }) => new Int32Array(buffer, ARENA_BASE, SYNC_SIZE / 4));
  const [words] = blocks;
  const kernels = memories.map((memory) => instantiate(module, memory));
  const { nth } = pool;
  /** Number of the last step posted, with its threads in the low bits (assembly/runtime/sync.ts STEP). */
  let posted = 0;
  let passes: readonly Pass[] = [];
  /** Settles when all tasks have returned; undefined while no thread serves. */
  let serving: Promise<void> | undefined;
  let lost: unknown;
  let disposed = false;

  /**
   * Ends every wait after a worker was lost: the others would stay in a barrier, and the host would
   * wait for DONE. So every word that threads or the host wait on is changed, and all of them are
   * woken.
   */
  const poison = (reason: unknown): void => {
    lost ??= reason ?? new Error('worker ended');
    for (const block of blocks) {
      Atomics.store(block, SYNC.poison, 1);
      for (const word of [SYNC.step, SYNC.phase, SYNC.done]) {
        Atomics.add(block, word, 1);
        Atomics.notify(block, word);
      }
    }
  };

  const startServing = (): void => {
    for (const block of blocks) {
      for (const word of [SYNC.poison, SYNC.arrived, SYNC.cancel, SYNC.cancel + 1]) Atomics.store(block, word, 0);
      Atomics.store(block, SYNC.spin, nth > cores ? SPIN_CROWDED : SPIN);
    }
    Atomics.store(words, SYNC.step, posted);
    Atomics.store(words, SYNC.done, posted);
    lost = undefined;
    const tasks = Array.from({ length: nth }, (_, ith) => pool.start({ ith, last: posted, idleMs: IDLE_MS }).catch(poison));
    const all = Promise.all(tasks).then(() => {
      if (serving === all) serving = undefined;
    });
    serving = all;
  };

  /**
   * Lets the threads return, but never during a step: threads that have not seen its number yet
   * would leave the others in a barrier.
   */
  const close = (): void => {
    if (Atomics.load(words, SYNC.done) !== posted) return;
    Atomics.compareExchange(words, SYNC.step, posted, CLOSED);
    Atomics.notify(words, SYNC.step);
  };

  const post = async ({ threads = nth, ...step }: Step): Promise<void> => {
    writeProgram(program, (passes = step.passes));
    for (;;) {
      if (!serving) startServing();
      const next = (((posted >> STEP_THREAD_BITS) % LAST_STEP) + 1) * 2 ** STEP_THREAD_BITS + threads;
      if (lost === undefined && Atomics.compareExchange(words, SYNC.step, posted, next) === posted) {
        posted = next;
        Atomics.notify(words, SYNC.step);
        return;
      }
      await serving; // the threads are returning: new tasks start after all have returned
      if (disposed) throw disposedError();
    }
  };

  /** Waits for DONE without blocking this thread. */
  const finished = async (): Promise<void> => {
    for (;;) {
      const done = Atomics.load(words, SYNC.done);
      if (lost !== undefined) {
        await serving;
        if (disposed) throw disposedError();
        throw workerLost('a step ran', 'the next step can run again, what this one computed is lost', lost);
      }
      if (done === posted) return;
      // The watching worker may be lost during a step, which continues: then DONE is read again a
      // little later.
      if (pool.changed)
        await pool.changed(ARENA_BASE + 4 * SYNC.done, done).catch(() => new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS)));
      else {
        const wait = Atomics.waitAsync(words, SYNC.done, done);
        if (wait.async) await wait.value;
      }
    }
  };

  return makeKnown({
    threads: nth,
    where: () =>
      `${whereThreadsStand(memories, passes, nth)}; the host posted step ${posted >> STEP_THREAD_BITS}, ${serving ? 'threads serve' : 'no thread serves'}${lost === undefined ? '' : ', a worker was lost'}${pool.where ? `; ${pool.where()}` : ''}`,
    write: (at, bytes) => bytesIn(memories, at, bytes.length).set(bytes),
    read: (at, length) => bytesIn(memories, at, length),
    view: (at, length) => bytesIn(memories, at, length),
    async run(step, signal) {
      if (disposed) throw disposedError();
      signal?.throwIfAborted();
      for (const { plan } of step.passes) kernels[memoryOf(plan)].begin(plan, step.nTokens, step.nOutputs);
      for (const block of blocks) for (const word of [SYNC.cancel, SYNC.cancel + 1]) Atomics.store(block, word, 0);
      await post(step);
      const cancel = (): void => blocks.forEach((block) => void Atomics.store(block, SYNC.cancel, 1));
      signal?.addEventListener('abort', cancel, { once: true });
      try {
        await finished();
      } finally {
        signal?.removeEventListener('abort', cancel);
      }
      if (blocks.some((block) => Atomics.load(block, SYNC.cancel + 1) !== 0)) signal?.throwIfAborted();
    },
    ...(pool.load && {
      async load(work, onDone, signal) {
        if (disposed) throw disposedError();
        await serving; // a worker has one task at a time
        await pool.load!(work, onDone, signal);
      },
    }),
    ...(readers?.load && {
      async loadBeside(work, onDone, signal) {
        if (disposed) throw disposedError();
        await readers.load!(work, onDone, signal);
      },
    }),
    rehearse(plan, record, nTokens, nOutputs) {
      const here = kernels[memoryOf(plan)];
      here.begin(plan, nTokens, nOutputs);
      here.compute(plan, ARENA_BASE, 0, 1, record, record + 1);
    },
    rest: () => {
      if (serving) close();
    },
    async dispose() {
      disposed = true;
      close();
      await Promise.all([pool.dispose(), readers?.dispose()]);
      await serving;
    },
  });
}
