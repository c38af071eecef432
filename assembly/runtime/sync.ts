/**
 * All communication between threads: the only file with atomics. Builds without threads have the same code, which one thread runs through.
 *
 * Every memory of a model has a sync block. Threads meet in the one of the memory that they compute in; all of them wait for steps in the first memory's.
 * Each word has a cache line of 64 bytes, so that spinning on one does not slow down writers of another:
 *   STEP    number of the step to run, times 1024, plus how many threads take part in it, those from 0 on (few threads finish a small step sooner); CLOSED
 *           when the threads shut down, never during a step
 *   DONE    number of the last finished step
 *   ARRIVED threads that reached the current barrier
 *   PHASE   barriers passed
 *   POISON  not 0 once a worker was lost: every wait ends, and every barrier returns LOST
 *   CANCEL  [0] set by the host: stop this step; [1] set for all threads, at a barrier, by the one that arrives last and sees [0]
 *   SPIN    how often a thread polls before it sleeps
 *   REACHED a line for each thread: how far it has come (`reached`), for whoever asks why a step does not end
 */
const STEP: usize = 0;
const DONE: usize = 64;
const ARRIVED: usize = 128;
const PHASE: usize = 192;
const POISON: usize = 256;
const CANCEL: usize = 320;
const SPIN: usize = 384;
const REACHED: usize = 448;

const CLOSED: i32 = -1;

/** How a barrier or a step ends. */
export const GO_ON: i32 = 0;
export const CANCELLED: i32 = 1;
export const LOST: i32 = -1;

/** The next chunk of an op: each number is given to exactly one thread. */
@inline
export function take(cursor: usize): i32 {
  return atomic.add<i32>(cursor, 1);
}

/** The most chunks that a range may have (take_of). */
export const MOST_CHUNKS: i32 = 0x7fff;

/**
 * The next of the `count` chunks of one thread's range, or -1 if none is left. The owner of the range takes chunks from the front, so that it reads one
 * stream of memory; the other threads, when they are done with their own ranges, take them from the back. The low 16 bits of the word count chunks taken
 * from the front, the high 16 bits those from the back: whoever adds one to either, and finds that fewer than `count` were taken before, has a chunk
 * that nobody else has.
 */
@inline
export function take_of(word: usize, count: i32, from_back: bool): i32 {
  const one = from_back ? 0x10000 : 1;
  const taken = atomic.add<i32>(word, one);
  const front = taken & 0xffff;
  const back = taken >>> 16;
  return front + back >= count ? -1 : from_back ? count - 1 - back : front;
}

/**
 * Sleeps while the word is `value`, for ns nanoseconds at most (-1: for ever). Returns what atomic.wait does: 2 where the time is up.
 * The instruction must stand in a function of its own, which uses none of its variables afterwards: V8's baseline compiler (Node 20: 11.3) gives some of
 * them other values behind it. In a loop of barrier() now and then a thread did not wait, and went one barrier ahead of the others; results were wrong,
 * or steps did not end. The call of itself, which is never made, keeps Binaryen from putting it back where it is called.
 */
function sleep(word: usize, value: i32, ns: i64): i32 {
  if (ns < -1) return sleep(word, value, -1);
  return atomic.wait<i32>(word, value, ns);
}

/**
 * Waits until all nth threads are here. Returns GO_ON; CANCELLED if the host wants the step to end, which all threads learn at the same barrier; or
 * LOST if a worker is gone.
 */
export function barrier(sync: usize, nth: i32): i32 {
  const phase = atomic.load<i32>(sync + PHASE);
  if (atomic.add<i32>(sync + ARRIVED, 1) == nth - 1) {
    if (atomic.load<i32>(sync + CANCEL) != 0) atomic.store<i32>(sync + CANCEL + 4, 1);
    atomic.store<i32>(sync + ARRIVED, 0);
    atomic.add<i32>(sync + PHASE, 1);
    if (nth > 1) atomic.notify(sync + PHASE, -1);
  } else {
    let polls = spin(sync);
    while (atomic.load<i32>(sync + PHASE) == phase) {
      if (--polls >= 0) continue;
      // A thread that comes here after a worker was lost has read PHASE as the poisoner left it: nobody will change it again.
      if (atomic.load<i32>(sync + POISON) != 0) break;
      sleep(sync + PHASE, phase, -1);
    }
  }
  if (atomic.load<i32>(sync + POISON) != 0) return LOST;
  return atomic.load<i32>(sync + CANCEL + 4) != 0 ? CANCELLED : GO_ON;
}

/** What reached() notes for a thread that waits for a step, and for one behind the last record. */
const NO_STEP: i32 = -1;
const BEHIND_ALL: i32 = i32.MAX_VALUE - 1;

/** Notes where thread ith is: 2 * i while it waits at the barrier before record i, 2 * i + 1 while it computes that record. Nothing reads it during a step. */
@inline
export function reached(sync: usize, ith: i32, where: i32): void {
  store<i32>(sync + REACHED + (<usize>ith << 6), where);
}

/** The barrier behind the last record that the nth threads compute in this memory. Returns what barrier() does. */
export function meet(sync: usize, ith: i32, nth: i32): i32 {
  reached(sync, ith, BEHIND_ALL);
  return barrier(sync, nth);
}

/**
 * Thread ith waits for a step after `last` and returns its STEP word, or 0 if the threads shut down (because another one timed out, or this
 * one after idle_ns) or a worker was lost.
 */
export function await_step(sync: usize, ith: i32, last: i32, idle_ns: i64): i32 {
  reached(sync, ith, NO_STEP);
  let step = 0;
  for (let polls = spin(sync); (step = atomic.load<i32>(sync + STEP)) == last && atomic.load<i32>(sync + POISON) == 0;) {
    if (--polls >= 0) continue;
    // 2: timed out. Threads do not shut down while `last` still runs without this one: a thread that takes part in it may not have seen its number yet.
    // Otherwise the compare-exchange decides between shutting down and a step that is posted at the same moment.
    if (
      sleep(sync + STEP, last, idle_ns) == 2 &&
      atomic.load<i32>(sync + DONE) == last &&
      atomic.cmpxchg<i32>(sync + STEP, last, CLOSED) == last
    ) {
      atomic.notify(sync + STEP, -1);
    }
  }
  return step == CLOSED || atomic.load<i32>(sync + POISON) != 0 ? 0 : step;
}

/** Called by thread 0 when the step is finished; the host waits on this word. */
export function finish_step(sync: usize, step: i32): void {
  atomic.store<i32>(sync + DONE, step);
  atomic.notify(sync + DONE, -1);
}

/**
 * How often a thread polls a word before it sleeps; a poll takes about 1 ns. The host chooses (src/threads/shared.ts): where each thread has a core, several
 * times what a wake-up costs (about 60 us). With 6 us two threads slept at every barrier, each waking the other in turn, and a token of a model of
 * 260K parameters took 970 us instead of 130.
 */
@inline
function spin(sync: usize): i32 {
  return load<i32>(sync + SPIN);
}
