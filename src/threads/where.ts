/** Where a step stands that does not end: what the sync block says, and how far each thread has come. */
import { CLOSED, CODE, OP, OP_SIZE, PLAN, REACHED_STRIDE, SYNC } from '../graph/layout.ts';
import type { Executor } from './executor.ts';

const NAMES = new Map(Object.entries(CODE).map(([name, code]) => [code as number, name]));

/** The low bits of a step's number are the threads that take part in it. */
const numberOf = (step: number, shift: number): string => (step === CLOSED ? 'closed' : `${step >> shift} on ${step & ((1 << shift) - 1)} threads`);

/**
 * The words of the sync block and every thread's last record. Read while threads may be writing: each word is right by itself.
 * @param sync address of the sync block; `shift`: bits of a step's number that count its threads
 */
export function whereThreadsStand(memory: WebAssembly.Memory, sync: number, nth: number, shift: number): string {
  const words = new Int32Array(memory.buffer), at = sync / 4;
  const word = (name: keyof typeof SYNC, i = 0): number => Atomics.load(words, at + SYNC[name] + i);
  const plan = word('plan') >>> 0, from = word('plan', 1), to = word('plan', 2);
  const opName = (record: number): string => {
    const ops = words[(plan >>> 2) + PLAN.ops] >>> 0, code = words[(ops + record * OP_SIZE) / 4 + OP.code];
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
  return `step ${numberOf(word('step'), shift)}, done ${numberOf(word('done'), shift)}, records ${from} to ${to} of the plan at ${plan}, ${word('arrived')} arrived, phase ${word('phase')}, `
    + `poison ${word('poison')}, cancel ${word('cancel')} ${word('cancel', 1)}; ${threads.join(', ')}`;
}

/** Under this name every executor that lives can be found, whichever copy of this module made it: for tests and debuggers. */
const LIVING = Symbol.for('quantlet.executors');
type Living = Set<WeakRef<Executor>>;

/** Makes an executor known until it is disposed of; a forgotten one is not kept. */
export function makeKnown(executor: Executor): Executor {
  if (typeof WeakRef !== 'function') return executor; // workerd of older compatibility dates
  const living = ((globalThis as { [LIVING]?: Living })[LIVING] ??= new Set()), ref = new WeakRef(executor), { dispose } = executor;
  for (const other of living) if (!other.deref()) living.delete(other);
  living.add(ref);
  return Object.assign(executor, {
    dispose: () => {
      living.delete(ref);
      return dispose();
    },
  });
}

/** Where every executor of this process stands, a line each. */
export const whereAllStand = (): string[] => [...((globalThis as { [LIVING]?: Living })[LIVING] ?? [])].flatMap((ref) => ref.deref()?.where() ?? []);

/** What the promise gives, or after `ms` an error that says where everything stands: nothing that hunts for hangs may wait for ever itself. */
export async function inTime<T>(ms: number, what: string, promise: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took longer than ${ms} ms; executors stood here: ${whereAllStand().join(' | ')}`)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
