/**
 * Everything threads say to each other: the only file with atomics. In single builds it all folds away.
 *
 * Sync block (one cache line of 64 bytes a word, so that spinning on one does not slow writers of another):
 *   STEP    number of the step to run, times 1024, plus the threads that take part in it; CLOSED when the threads go home (never in a step)
 *   DONE    number of the last finished step
 *   ARRIVED threads that reached the current barrier
 *   PHASE   barriers passed
 *   POISON  not 0 once a worker was lost: every wait ends, every barrier says LOST
 *   CANCEL  [0] set by the host: stop this step; [1] set by the thread that saw it first, for all, at a barrier
 *   PLAN    plan, from, to of the step (plain words, published by STEP), then the polls before a thread sleeps
 *   REACHED for each thread a line: how far it came (reached), for whoever asks why a step does not end
 */
const STEP: usize = 0;
const DONE: usize = 64;
const ARRIVED: usize = 128;
const PHASE: usize = 192;
const POISON: usize = 256;
const CANCEL: usize = 320;
const PLAN: usize = 384;
const REACHED: usize = 448;

const CLOSED: i32 = -1;

/** What a barrier and a step end with. */
export const GO_ON: i32 = 0;
export const CANCELLED: i32 = 1;
export const LOST: i32 = -1;

/** Next chunk of an op: each number is given to exactly one thread. */
// @ts-ignore: decorator
@inline
export function take(cursor: usize): i32 {
  if (ASC_FEATURE_THREADS) return atomic.add<i32>(cursor, 1);
  const v = load<i32>(cursor);
  store<i32>(cursor, v + 1);
  return v;
}

/** Chunks of its own range that a thread may count (take_of). */
export const MOST_CHUNKS: i32 = 0x7fff;

/**
 * Next of the `count` chunks of one thread's range, or -1. Its owner takes them from the front, so that it reads one stream of memory;
 * others, when they are done with theirs, from the back. The word has the chunks taken in front below and those behind above: whoever
 * adds one to either half and finds fewer than `count` before, has a chunk that nobody else has.
 */
// @ts-ignore: decorator
@inline
export function take_of(word: usize, count: i32, from_back: bool): i32 {
  const one = from_back ? 0x10000 : 1;
  let taken: i32;
  if (ASC_FEATURE_THREADS) taken = atomic.add<i32>(word, one);
  else {
    taken = load<i32>(word);
    store<i32>(word, taken + one);
  }
  const front = taken & 0xffff, back = taken >>> 16;
  return front + back >= count ? -1 : from_back ? count - 1 - back : front;
}

/**
 * All nth threads meet. GO_ON; CANCELLED: the host wants the step to end, and all threads learn it at the same barrier;
 * LOST: a worker is gone, give up.
 */
export function barrier(sync: usize, nth: i32): i32 {
  if (!ASC_FEATURE_THREADS) return GO_ON;
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
      // Who comes here after a worker was lost has read PHASE as the poison left it: nobody will change it again.
      if (atomic.load<i32>(sync + POISON) != 0) break;
      atomic.wait<i32>(sync + PHASE, phase, -1);
    }
  }
  if (atomic.load<i32>(sync + POISON) != 0) return LOST;
  return atomic.load<i32>(sync + CANCEL + 4) != 0 ? CANCELLED : GO_ON;
}

/** What reached() notes of a thread without a step. */
export const NO_STEP: i32 = -1;

/** Notes where thread ith is: twice the record before whose barrier it waits, one more while it computes the record. Nothing reads it in a step. */
// @ts-ignore: decorator
@inline
export function reached(sync: usize, ith: i32, where: i32): void {
  if (ASC_FEATURE_THREADS) store<i32>(sync + REACHED + (<usize>ith << 6), where);
}

/** Waits for a step after `last`. Its number, or 0: the threads were sent home, or nothing came for idle_ns and this call closed the shop. */
export function await_step(sync: usize, last: i32, idle_ns: i64): i32 {
  let step = 0;
  if (ASC_FEATURE_THREADS) {
    for (let polls = spin(sync); (step = atomic.load<i32>(sync + STEP)) == last && atomic.load<i32>(sync + POISON) == 0; ) {
      if (--polls >= 0) continue;
      // 2 = timed out. Not closed while `last` runs without this thread: one that takes part may have to see its number still.
      // Else the one word decides between "go home" and a step posted at the same moment.
      if (atomic.wait<i32>(sync + STEP, last, idle_ns) == 2 && atomic.load<i32>(sync + DONE) == last && atomic.cmpxchg<i32>(sync + STEP, last, CLOSED) == last) {
        atomic.notify(sync + STEP, -1);
      }
    }
    if (step == CLOSED || atomic.load<i32>(sync + POISON) != 0) step = 0;
  }
  return step;
}

/** Thread 0 says that step is finished; the host waits on this word. */
export function finish_step(sync: usize, step: i32): void {
  if (!ASC_FEATURE_THREADS) return;
  atomic.store<i32>(sync + DONE, step);
  atomic.notify(sync + DONE, -1);
}

/**
 * Polls of a word before a thread goes to sleep; a poll is about 1 ns. The host chooses (threads/shared.ts): with a core for each
 * thread, several times what being woken costs, or threads that take turns sleeping drag each other from one wake-up to the next.
 */
// @ts-ignore: decorator
@inline
function spin(sync: usize): i32 {
  return load<i32>(sync + PLAN, 12);
}

// @ts-ignore: decorator
@inline
export function step_plan(sync: usize): usize {
  return load<usize>(sync + PLAN);
}
// @ts-ignore: decorator
@inline
export function step_from(sync: usize): i32 {
  return load<i32>(sync + PLAN, 4);
}
// @ts-ignore: decorator
@inline
export function step_to(sync: usize): i32 {
  return load<i32>(sync + PLAN, 8);
}
/**
 * Threads [0, this) compute the step, the others wait for the next: results are the same, and small steps are done sooner by few.
 * It is part of the step's number: the host may write the next step's plan while a thread that took no part is only waking up for this one.
 */
// @ts-ignore: decorator
@inline
export function step_threads(step: i32): i32 {
  return step & 1023;
}
