/**
 * Protocol between the host and its threads, by the words of the sync block
 * (assembly/runtime/sync.ts). The host posts a step, waits for its end, cancels it, and learns of a
 * lost worker.
 *
 * Threads serve as long as there are steps. post() starts a task on every worker if none runs. The
 * tasks return by themselves after IDLE_MS without a step.
 */
import { CLOSED, STEP_THREAD_BITS, SYNC, SYNC_SIZE } from '../graph/layout.ts';
import { ARENA_BASE } from '../wasm/memory.ts';
import { workerLost, type Pass, type Step } from './executor.ts';
import { writeProgram, type Compute } from './serve.ts';
import type { ThreadPool } from './pool.ts';
import { whereThreadsStand } from './where.ts';

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

/**
 * Largest number of a step: the word SYNC.step, shifted by its bits for threads, stays a positive
 * i32. The next step has number 1 again.
 */
const LAST_STEP = 2 ** (31 - STEP_THREAD_BITS) - 2;

const CANCEL_WORDS = [SYNC.cancel, SYNC.cancel + 1];

export class StepSignals {
  /** Settles when all tasks have returned; undefined while no thread serves. */
  serving: Promise<void> | undefined;

  private readonly compute: Compute;
  private readonly pool: ThreadPool;
  private readonly cores: number;
  /** The sync block of each memory. */
  private readonly blocks: readonly Int32Array[];
  /** The first sync block, which has the words of steps and of their ends. */
  private readonly words: Int32Array;
  /**
   * Number of the last step posted, with the number of its threads in the low bits
   * (SYNC.step).
   */
  private posted = 0;
  private passes: readonly Pass[] = [];
  /** Reason why the first lost worker ended. */
  private lost: unknown;

  constructor(compute: Compute, pool: ThreadPool, cores: number) {
    this.compute = compute;
    this.pool = pool;
    this.cores = cores;
    this.blocks = compute.memories.map(({ buffer }) => new Int32Array(buffer, ARENA_BASE, SYNC_SIZE / 4));
    this.words = this.blocks[0];
  }

  /** @see Executor.where */
  where(): string {
    const { compute, passes, pool, posted, serving, lost } = this;
    const threads = serving ? 'threads serve' : 'no thread serves';
    return `${whereThreadsStand(compute.memories, passes, pool.nth)}; the host posted step ${posted >> STEP_THREAD_BITS}, ${threads}${lost === undefined ? '' : ', a worker was lost'}${pool.where ? `; ${pool.where()}` : ''}`;
  }

  /**
   * Posts a step.
   * @param mustLive throws if the executor was disposed of meanwhile
   */
  async post({ threads = this.pool.nth, ...step }: Step, mustLive: () => void): Promise<void> {
    this.store(CANCEL_WORDS, 0);
    writeProgram(this.compute.program, (this.passes = step.passes));
    for (;;) {
      if (!this.serving) this.startServing();
      const next = (((this.posted >> STEP_THREAD_BITS) % LAST_STEP) + 1) * 2 ** STEP_THREAD_BITS + threads;
      if (this.lost === undefined && Atomics.compareExchange(this.words, SYNC.step, this.posted, next) === this.posted) {
        this.posted = next;
        Atomics.notify(this.words, SYNC.step);
        return;
      }
      await this.serving; // the threads are returning; new tasks are started after all have
      mustLive();
    }
  }

  /**
   * Waits for the end of the step without blocking this thread.
   * @throws ERR_WORKER_LOST
   */
  async finished(mustLive: () => void): Promise<void> {
    for (;;) {
      const done = Atomics.load(this.words, SYNC.done);
      if (this.lost !== undefined) {
        await this.serving;
        mustLive();
        throw workerLost('a step ran', 'the next step can run again, but the results of this one are lost', this.lost);
      }
      if (done === this.posted) return;
      await this.doneChanged(done);
    }
  }

  /** Ends the step early: threads skip the records that are left. */
  cancel(): void {
    this.store([SYNC.cancel], 1);
  }

  /** True if the threads saw cancel() before the step was complete. */
  wasCancelled(): boolean {
    return this.blocks.some((block) => Atomics.load(block, SYNC.cancel + 1) !== 0);
  }

  /**
   * Makes the threads return, but never during a step: a thread that has not seen the step's number
   * yet would leave the others waiting in a barrier.
   */
  close(): void {
    if (Atomics.load(this.words, SYNC.done) !== this.posted) return;
    Atomics.compareExchange(this.words, SYNC.step, this.posted, CLOSED);
    Atomics.notify(this.words, SYNC.step);
  }

  /** Resolves when the word DONE is no longer `done`, possibly a little later. */
  private async doneChanged(done: number): Promise<void> {
    if (this.pool.changed) {
      // The worker that watches may be lost during the step; the step continues.
      await this.pool.changed(ARENA_BASE + 4 * SYNC.done, done).catch(() => new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS)));
      return;
    }
    const wait = Atomics.waitAsync(this.words, SYNC.done, done);
    if (wait.async) await wait.value;
  }

  private startServing(): void {
    this.store([SYNC.poison, SYNC.arrived, ...CANCEL_WORDS], 0);
    this.store([SYNC.spin], this.pool.nth > this.cores ? SPIN_CROWDED : SPIN);
    Atomics.store(this.words, SYNC.step, this.posted);
    Atomics.store(this.words, SYNC.done, this.posted);
    this.lost = undefined;
    const task = { last: this.posted, idleMs: IDLE_MS };
    const tasks = Array.from({ length: this.pool.nth }, (_, ith) =>
      this.pool.start({ ith, ...task }).catch((reason: unknown) => this.poison(reason)),
    );
    const all = Promise.all(tasks).then(() => {
      if (this.serving === all) this.serving = undefined;
    });
    this.serving = all;
  }

  /**
   * Frees the other threads from their barrier, and the host from its wait, after a worker was
   * lost. Changes every word that someone waits on.
   */
  private poison(reason: unknown): void {
    this.lost ??= reason ?? new Error('worker ended');
    this.store([SYNC.poison], 1);
    for (const block of this.blocks)
      for (const word of [SYNC.step, SYNC.phase, SYNC.done]) {
        Atomics.add(block, word, 1);
        Atomics.notify(block, word);
      }
  }

  private store(words: readonly number[], value: number): void {
    for (const block of this.blocks) for (const word of words) Atomics.store(block, word, value);
  }
}
