/** For steps that do not end: how far each thread has come, and the words of the sync block, as text. */
import { CODE } from '../graph/kernels.ts';
import { CLOSED, OP, OP_SIZE, PLAN, REACHED_STRIDE, STEP_THREAD_BITS, SYNC } from '../graph/layout.ts';
import { ARENA_BASE, MEMORY_SPACE, memoryOf } from '../wasm/memory.ts';
import type { Executor, Pass } from './executor.ts';

const NAMES = new Map(Object.entries(CODE).map(([name, code]) => [code as number, name]));

const stepOf = (word: number): string =>
  word === CLOSED ? 'closed' : `${word >> STEP_THREAD_BITS} on ${word & ((1 << STEP_THREAD_BITS) - 1)} threads`;

/**
 * The words of every sync block and every thread's last record in each memory. Read while threads may be writing: each word is right by itself.
 * @param passes of the step that was posted last
 */
export function whereThreadsStand(memories: readonly WebAssembly.Memory[], passes: readonly Pass[], nth: number): string {
  const inMemory = ({ buffer }: WebAssembly.Memory, number: number): string => {
    const words = new Int32Array(buffer);
    const word = (name: keyof typeof SYNC, i = 0): number => Atomics.load(words, ARENA_BASE / 4 + SYNC[name] + i);
    // In a memory with several passes a record may be of any of them.
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

/** Under this name tests and debuggers find all executors in use, whichever copy of this module made them. */
const LIVING = Symbol.for('quantlet.executors');
type Living = Set<WeakRef<Executor>>;

/** Lists an executor there until it is disposed of, without keeping it from being collected. */
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

/** How far every executor of this process has come, a line each. */
export const whereAllStand = (): string[] =>
  [...((globalThis as { [LIVING]?: Living })[LIVING] ?? [])].flatMap((ref) => ref.deref()?.where() ?? []);

/** What the promise gives, or after `ms` an error that says how far all executors have come: for tests that look for steps which do not end. */
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
