/**
 * Loop of a thread over the memories of a model. It waits for a step in the first memory's sync
 * block, computes the step's passes, each in its memory, and copies the values that later passes
 * read (the residual stream, between two ranges of layers). Threads meet in the memory in which
 * they compute, so no thread is more than a barrier ahead. The end of a step is written to the
 * first memory, for the host.
 */
import type { WasmMemory, WasmModule } from '../globals.ts';
import { END, STEP_THREADS } from '../graph/layout.ts';
import type { Kernels } from '../wasm/abi.ts';
import { ARENA_BASE, bytesIn, memoryOf } from '../wasm/memory.ts';
import type { Carry, Pass } from './executor.ts';

/** Module and memories, the same for all threads. */
export interface Compute {
  readonly module: WasmModule;
  /** Shared. */
  readonly memories: readonly WasmMemory[];
  /** Passes of the step as numbers, in shared memory. */
  readonly program: Float64Array;
}

/** Maximum length of a program, in numbers. A pass takes 4, and 3 for each carry. */
const PROGRAM_SIZE = 8192;

export const computeWith = (module: WasmModule, ...memories: readonly WasmMemory[]): Compute => ({
  module,
  memories,
  program: new Float64Array(new SharedArrayBuffer(8 * PROGRAM_SIZE)),
});

/** Start message of thread ith. */
export interface ServeTask {
  readonly ith: number;
  /** STEP's value when the task was started: the thread waits for another one. */
  readonly last: number;
  readonly idleMs: number;
}

/** Writes the passes of a step for the threads. Posting the step publishes them. */
export function writeProgram(program: Float64Array, passes: readonly Pass[]): void {
  let at = 0;
  const put = (...numbers: number[]): void => numbers.forEach((n) => (program[at++] = n));
  put(passes.length);
  for (const { plan, from, to, carries = [] } of passes) {
    put(plan, from, to, carries.length);
    for (const carry of carries) put(carry.from, carry.to, carry.length);
  }
  if (at > program.length) throw new RangeError(`the program of a step has ${at} numbers; expected at most ${program.length}`);
}

function readProgram(program: Float64Array): Pass[] {
  let at = 0;
  const next = (): number => program[at++];
  const list = <T>(item: () => T): T[] => Array.from({ length: next() }, item);
  return list(() => ({
    plan: next(),
    from: next(),
    to: next(),
    carries: list(() => ({ from: next(), to: next(), length: next() })),
  }));
}

/** Copies the ith of nth parts. */
export function carryOn(memories: readonly WasmMemory[], { from, to, length }: Carry, ith = 0, nth = 1): void {
  const begin = Math.floor((length * ith) / nth);
  const n = Math.floor((length * (ith + 1)) / nth) - begin;
  bytesIn(memories, to + begin, n).set(bytesIn(memories, from + begin, n));
}

/**
 * Serves steps until the threads shut down or a worker is lost.
 * @param kernels one instance for each memory
 */
export function serveSteps(kernels: readonly Kernels[], { memories, program }: Compute, { ith, last, idleMs }: ServeTask): void {
  /** Computes a step. Returns its outcome, as kernels.compute() does. */
  const compute = (nth: number): number => {
    for (const { plan, from, to, carries = [] } of readProgram(program)) {
      const here = kernels[memoryOf(plan)];
      let end = here.compute(plan, ARENA_BASE, ith, nth, from, to);
      if (carries.length > 0) {
        end ||= here.meet(ARENA_BASE, ith, nth);
        if (end === END.go_on) for (const carry of carries) carryOn(memories, carry, ith, nth);
        end ||= here.meet(ARENA_BASE, ith, nth);
      }
      if (end !== END.go_on) return end;
    }
    return END.go_on;
  };
  const [first] = kernels;
  const idleNs = BigInt(idleMs) * 1_000_000n;
  for (let step = last; (step = first.await_step(ARENA_BASE, ith, step, idleNs)) !== 0;) {
    const nth = step & STEP_THREADS;
    if (ith >= nth) continue;
    if (compute(nth) === END.lost || first.meet(ARENA_BASE, ith, nth) === END.lost) return;
    if (ith === 0) first.finish_step(ARENA_BASE, step);
  }
}
