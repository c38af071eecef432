/** For steps that do not end: how far each thread has come, and the words of the sync block, as text. */
import { CODE } from '../graph/kernels.ts';
import { CLOSED, OP, OP_SIZE, PLAN, REACHED_STRIDE, STEP_THREAD_BITS, SYNC } from '../graph/layout.ts';
import type { Executor } from './executor.ts';

const NAMES = new Map(Object.entries(CODE).map(([name, code]) => [code as number, name]));

const stepOf = (word: number): string =>
  word === CLOSED ? 'closed' : `${word >> STEP_THREAD_BITS} on ${word & ((1 << STEP_THREAD_BITS) - 1)} threads`;

/**
 * The words of the sync block and every thread's last record. Read while threads may be writing: each word is right by itself.
 * @param sync address of the sync block
 */
export function whereThreadsStand(memory: WebAssembly.Memory, sync: number, nth: number): string {
  const words = new Int32Array(memory.buffer);
  const at = sync / 4;
  const word = (name: keyof typeof SYNC, i = 0): number => Atomics.load(words, at + SYNC[name] + i);
  const plan = word('plan') >>> 0;
  const from = word('plan', 1);
  const to = word('plan', 2);
  const opName = (record: number): string => {
    const ops = words[(plan >>> 2) + PLAN.ops] >>> 0;
    const code = words[(ops + record * OP_SIZE) / 4 + OP.code];
    return NAMES.get(code) ?? `code ${code}`;
  };
  const thread = (ith: number): string => {
    const reached = word('reached', ith * REACHED_STRIDE);
    if (reached < 0) return 'waits for a step';
    const record = reached >> 1;
    if (record >= to) return 'is at the last barrier';
    return `${reached & 1 ? 'computes' : 'is at the barrier before'} record ${record} (${opName(record)})`;
  };
  const threads = Array.from({ length: nth }, (_, ith) => `thread ${ith} ${thread(ith)}`);
  return (
    `step ${stepOf(word('step'))}, done ${stepOf(word('done'))}, records ${from} to ${to} of the plan at ${plan}, ${word('arrived')} arrived, phase ${word('phase')}, ` +
    `poison ${word('poison')}, cancel ${word('cancel')} ${word('cancel', 1)}; ${threads.join(', ')}`
  );
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
