/**
 * Communication between threads. Only this file uses atomics. Builds without threads have the same
 * code, which one thread runs without waiting.
 *
 * Every memory of a model has a sync block (its words: SYNC_STEP and those after it in layout.ts).
 * Threads meet at the barriers of the memory in which they compute. All of them wait for steps at
 * the first memory's block.
 */
import {
  CLOSED,
  END_CANCELLED,
  END_GO_ON,
  END_LOST,
  REACHED_STRIDE,
  SYNC_ARRIVED,
  SYNC_CANCEL,
  SYNC_DONE,
  SYNC_PHASE,
  SYNC_POISON,
  SYNC_REACHED,
  SYNC_SPIN,
  SYNC_STEP,
} from '../layout';

/** Takes the next chunk of an op: each number is given to exactly one thread. */
@inline
export function take(cursor: usize): i32 {
  return atomic.add<i32>(cursor, 1);
}

/** Maximum number of chunks that a range may have (take_of). */
export const MOST_CHUNKS: i32 = 0x7fff;

/**
 * Takes the next of the `count` chunks of one thread's range, or returns -1 if none is left. The
 * owner takes chunks from the front, so that it reads one stream of memory. Other threads, when
 * they are done with their own ranges, take chunks from the back.
 *
 * The low 16 bits of the word count chunks taken from the front, the high 16 bits chunks taken from
 * the back. A thread that adds one to either, and finds that fewer than `count` were taken before,
 * owns a chunk that no other thread has.
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
 * Sleeps while the word is `value`, for at most ns nanoseconds (-1: for ever). Returns what
 * atomic.wait returns: 2 if the time is up.
 *
 * V8's baseline compiler (Node 20: 11.3) miscompiles atomic.wait: local variables may have other
 * values after it. So it stands alone in a function that uses no variable afterwards. (In the loop
 * of barrier(), a thread now and then did not wait and ran one barrier ahead.) The recursive call,
 * which never happens, keeps Binaryen from inlining the function.
 */
function sleep(word: usize, value: i32, ns: i64): i32 {
  if (ns < -1) return sleep(word, value, -1);
  return atomic.wait<i32>(word, value, ns);
}

/**
 * Waits until all nth threads are here. Returns END_GO_ON; END_CANCELLED if the host wants the step
 * to end, which all threads learn at the same barrier; or END_LOST if a worker is gone.
 */
export function barrier(sync: usize, nth: i32): i32 {
  const phase = atomic.load<i32>(sync + SYNC_PHASE);
  if (atomic.add<i32>(sync + SYNC_ARRIVED, 1) == nth - 1) {
    if (atomic.load<i32>(sync + SYNC_CANCEL) != 0) atomic.store<i32>(sync + SYNC_CANCEL + 4, 1);
    atomic.store<i32>(sync + SYNC_ARRIVED, 0);
    atomic.add<i32>(sync + SYNC_PHASE, 1);
    if (nth > 1) atomic.notify(sync + SYNC_PHASE, -1);
  } else {
    let polls = spin(sync);
    while (atomic.load<i32>(sync + SYNC_PHASE) == phase) {
      if (--polls >= 0) continue;
      // A thread that comes here after a worker was lost has read SYNC_PHASE as the poisoner left
      // it: no thread will change it again.
      if (atomic.load<i32>(sync + SYNC_POISON) != 0) break;
      sleep(sync + SYNC_PHASE, phase, -1);
    }
  }
  if (atomic.load<i32>(sync + SYNC_POISON) != 0) return END_LOST;
  return atomic.load<i32>(sync + SYNC_CANCEL + 4) != 0 ? END_CANCELLED : END_GO_ON;
}

/** Places that reached() notes other than records: waiting for a step, and past the last record. */
const NO_STEP: i32 = -1;
const BEHIND_ALL: i32 = i32.MAX_VALUE - 1;

/**
 * Notes where thread ith is: 2 * i while it waits at the barrier before record i, 2 * i + 1 while
 * it computes that record. Nothing reads it during a step.
 */
@inline
export function reached(sync: usize, ith: i32, where: i32): void {
  store<i32>(sync + SYNC_REACHED + <usize>ith * REACHED_STRIDE, where);
}

/**
 * The barrier after the last record that the nth threads compute in this memory. Returns what
 * barrier() returns.
 */
export function meet(sync: usize, ith: i32, nth: i32): i32 {
  reached(sync, ith, BEHIND_ALL);
  return barrier(sync, nth);
}

/**
 * Waits, as thread ith, for a step after `last`. Returns its SYNC_STEP word, or 0 if a worker was
 * lost or the threads shut down (because this thread timed out after idle_ns, or another one did).
 */
export function await_step(sync: usize, ith: i32, last: i32, idle_ns: i64): i32 {
  reached(sync, ith, NO_STEP);
  let step = 0;
  for (let polls = spin(sync); (step = atomic.load<i32>(sync + SYNC_STEP)) == last && atomic.load<i32>(sync + SYNC_POISON) == 0;) {
    if (--polls >= 0) continue;
    // 2: timed out. Threads do not shut down while step `last` runs without this one: a thread that
    // takes part in it may not have seen its number yet. Otherwise the compare-exchange decides
    // between shutting down and a step that is posted at the same moment.
    if (
      sleep(sync + SYNC_STEP, last, idle_ns) == 2 &&
      atomic.load<i32>(sync + SYNC_DONE) == last &&
      atomic.cmpxchg<i32>(sync + SYNC_STEP, last, CLOSED) == last
    ) {
      atomic.notify(sync + SYNC_STEP, -1);
    }
  }
  return step == CLOSED || atomic.load<i32>(sync + SYNC_POISON) != 0 ? 0 : step;
}

/** Ends a step; called by thread 0. The host waits on this word. */
export function finish_step(sync: usize, step: i32): void {
  atomic.store<i32>(sync + SYNC_DONE, step);
  atomic.notify(sync + SYNC_DONE, -1);
}

/**
 * Polls of a word before a thread sleeps; a poll takes about 1 ns. The host chooses
 * (src/threads/shared.ts). If each thread has a core, it chooses several times the cost of a
 * wake-up (about 60 us): otherwise threads sleep at every barrier of a small model and wake each
 * other in turn.
 */
@inline
function spin(sync: usize): i32 {
  return load<i32>(sync + SYNC_SPIN);
}
