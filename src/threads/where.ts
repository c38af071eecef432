/** Progress of each thread and the words of the sync block, as text, for steps that do not end. */
import { CODE } from '../graph/kernels.ts';
import { CLOSED, REACHED_STRIDE, STEP_THREAD_BITS, STEP_THREADS, SYNC } from '../graph/layout.ts';
import { OP, OP_SIZE, PLAN } from '../graph/structures.ts';
import { ARENA_BASE, MEMORY_SPACE, memoryOf } from '../wasm/memory.ts';
import type { Executor, Pass } from './executor.ts';

const NAMES = new Map(Object.entries(CODE).map(([name, code]) => [code as number, name]));

const stepOf = (word: number): string => (word === CLOSED ? 'closed' : `${word >> STEP_THREAD_BITS} on ${word & STEP_THREADS} threads`);

/**
 * Describes the words of every sync block and every thread's last record in each memory. Threads
 * may write while this reads, so only each word on its own is consistent.
 * @param passes of the step that was posted last
 */
export function whereThreadsStand(memories: readonly WebAssembly.Memory[], passes: readonly Pass[], nth: number): string {
  const inMemory = ({ buffer }: WebAssembly.Memory, number: number): string => {
    const words = new Int32Array(buffer);
    const word = (name: keyof typeof SYNC, i = 0): number => Atomics.load(words, ARENA_BASE / 4 + SYNC[name] + i);
    // In a memory with several passes, a record may belong to any of them.
    const here = passes.filter(({ plan }) => memoryOf(plan) === number);
    const last = here.reduce((most, { to }) => Math.max(most, to), 0);
    const opNames = (record: number): string =>
      here
        .filter(({ to }) => record < to)
        .map(({ plan }) => {
          const ops = words[(plan % MEMORY_SPACE) / 4 + PLAN.ops] >>> 0;
          const code = words[(ops + record * OP_SIZE) / 4 + OP.code];
          return NAMES.get(code) ?? `code ${code}`;
        })
        .join(' or ');
    const thread = (ith: number): string => {
      const reached = word('reached', ith * REACHED_STRIDE);
      if (reached < 0) return 'waits for a step';
      const record = reached >> 1;
      if (record >= last) return 'is at the last barrier';
      return `${reached & 1 ? 'computes' : 'is at the barrier before'} record ${record} (${opNames(record)})`;
    };
    const threads = Array.from({ length: nth }, (_, ith) => `thread ${ith} ${thread(ith)}`);
    const plans = here.map(({ plan, from, to }) => `records ${from} to ${to} of the plan at ${plan}, `).join('');
    const steps = number === 0 ? `step ${stepOf(word('step'))}, done ${stepOf(word('done'))}, ` : '';
    return (
      `${steps}${plans}${word('arrived')} arrived, phase ${word('phase')}, ` +
      `poison ${word('poison')}, cancel ${word('cancel')} ${word('cancel', 1)}; ${threads.join(', ')}`
    );
  };
  return memories.map((memory, i) => `${i === 0 ? '' : `memory ${i}: `}${inMemory(memory, i)}`).join('; ');
}

/** Symbol by which tests and debuggers find all executors in use, from any copy of this module. */
const LIVING = Symbol.for('quantlet.executors');
type Living = Set<WeakRef<Executor>>;

/** Lists an executor until it is disposed of, without keeping it from garbage collection. */
export function makeKnown(executor: Executor): Executor {
  if (typeof WeakRef !== 'function') return executor; // workerd of older compatibility dates
  const living = ((globalThis as { [LIVING]?: Living })[LIVING] ??= new Set());
  const ref = new WeakRef(executor);
  const { dispose } = executor;
  for (const other of living) if (!other.deref()) living.delete(other);
  living.add(ref);
  return Object.assign(executor, {
    dispose: () => {
      living.delete(ref);
      return dispose();
    },
  });
}

/** Progress of every executor of this process, a line each. */
export const whereAllStand = (): string[] =>
  [...((globalThis as { [LIVING]?: Living })[LIVING] ?? [])].flatMap((ref) => ref.deref()?.where() ?? []);

/**
 * Resolves with the promise's value, or rejects after `ms` with the progress of all executors: for
 * tests that look for steps that do not end.
 */
export async function inTime<T>(ms: number, what: string, promise: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new Error(`${what} took longer than ${ms} ms; executors stood here: ${whereAllStand().join(' | ')}`)),
      ms,
    );
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
