/**
 * The slots of the KV cache: how many sequences a model computes at the same time. A slot knows which tokens its cells hold, and everything
 * that happens to a sequence is one of its operations; steps (scheduler.ts) and restored sequences (generate/saved-sequence.ts) fill the cells.
 */

import type { StateCells } from './state-cells.ts';

/** The place of one sequence in the KV cache: a run of cells, and the tokens whose keys and values the first of them hold. */
export interface Slot {
  readonly index: number;
  /** The cell of the sequence's first token; position i lies in cell `firstCell + i`. */
  readonly firstCell: number;
  /** Tokens that fit. */
  readonly capacity: number;
  /** In the order of their positions. They stay when the sequence has ended: a later prompt may begin with them. */
  readonly tokens: readonly number[];
  /** How many of them a step can go on behind. All, unless recurrent states of the last ones were lost: those are computed again with what comes next. */
  readonly computed: number;
  /** The prompt whose keys and values an encoder has left for the tokens, where the model has one. */
  readonly encoded: readonly number[];
  /** States of recurrent layers, where the model has some. */
  readonly states: StateCells | undefined;
  /** How many of a prompt's first tokens need not be computed here. The last one always does: its logits are wanted. */
  reusable(prompt: readonly number[]): number;
  /** Begins a prompt: keeps what is reusable of it, forgets everything else. Returns how many tokens were kept; the rest is to be submitted. */
  begin(prompt: readonly number[]): number;
  /** Forgets all tokens from this position on. */
  truncate(length: number): void;
  /** Forgets the last n tokens: the next ones take their positions and cells. */
  rollBack(n: number): void;
  /** Takes note of tokens (of the first n) whose keys and values now lie in the next cells. For the scheduler and restored sequences: nobody else fills cells. */
  append(tokens: ArrayLike<number>, n?: number): void;
  /** Takes note of what an encoder has read, or that something else will be: all tokens are forgotten. */
  encode(prompt: readonly number[]): void;
}

function createSlot(index: number, capacity: number, states: StateCells | undefined): Slot {
  const tokens: number[] = [];
  let encoded: readonly number[] = [];
  const within = (length: number): number => (states ? states.reach(length) : length);
  const reusable = (prompt: readonly number[]): number => within(Math.min(sharedLength(tokens, prompt), prompt.length - 1));
  const truncate = (length: number): void => {
    if (length < tokens.length) tokens.length = length;
    states?.truncate(tokens.length);
  };
  return {
    index,
    firstCell: index * capacity,
    capacity,
    tokens,
    states,
    get encoded() {
      return encoded;
    },
    get computed() {
      return within(tokens.length);
    },
    reusable,
    begin(prompt) {
      truncate(reusable(prompt));
      states?.begin(prompt.length);
      return tokens.length;
    },
    truncate,
    rollBack: (n) => truncate(Math.max(0, tokens.length - n)),
    append(more, n = more.length) {
      for (let i = 0; i < n; i++) tokens.push(more[i]);
    },
    encode(prompt) {
      truncate(0);
      encoded = prompt;
    },
  };
}

/** How many first tokens two sequences share. */
export function sharedLength(a: readonly number[], b: readonly number[]): number {
  let n = 0;
  while (n < a.length && n < b.length && a[n] === b[n]) n++;
  return n;
}

export const isSame = (a: readonly number[], b: readonly number[]): boolean => a.length === b.length && sharedLength(a, b) === a.length;

/** All slots of a model, and who waits for one. */
export interface Slots {
  readonly all: readonly Slot[];
  /**
   * A slot, first come first served. If several are free, `choose` picks one of them, listed from the one that was free longest, or one of those that are
   * being left: taken by a sequence whose signal has aborted in a step that is not over yet. With `only`, this slot and no other.
   */
  acquire(signal?: AbortSignal, choose?: (free: readonly Slot[], left: readonly Slot[]) => Slot, only?: Slot): Promise<Slot>;
  /** Gives a slot back. What it holds stays until another sequence takes it. */
  release(slot: Slot): void;
  /** Slots that are taken. */
  readonly active: number;
  isActive(slot: Slot): boolean;
  /** Ends everything that waits, and refuses all that comes later, with this error. */
  close(error: Error): void;
}

/**
 * @param capacity cells of a slot
 * @param statesOf what a slot of this index keeps of recurrent layers
 */
export function createSlots(n: number, capacity: number, statesOf: (index: number) => StateCells | undefined = () => undefined): Slots {
  const all = Array.from({ length: n }, (_, i) => createSlot(i, capacity, statesOf(i)));
  const free = [...all];
  /** Signals of those who hold the other slots. */
  const holders = new Map<Slot, AbortSignal | undefined>();
  const waiting: { readonly only: Slot | undefined; resolve(slot: Slot): void; reject(reason: unknown): void }[] = [];
  let closed: Error | undefined;
  const left = (): Slot[] => [...holders].flatMap(([slot, signal]) => (signal?.aborted ? [slot] : []));
  return {
    all,
    acquire(signal, choose, asked) {
      if (closed) return Promise.reject(closed);
      const only = asked ?? (free.length > 0 ? (choose?.(free, left()) ?? free[0]) : undefined);
      if (only && free.includes(only)) {
        free.splice(free.indexOf(only), 1);
        holders.set(only, signal);
        return Promise.resolve(only);
      }
      if (signal?.aborted) return Promise.reject(signal.reason);
      return new Promise((resolve, reject) => {
        const giveUp = (): void => {
          waiting.splice(waiting.indexOf(entry), 1);
          reject(signal!.reason);
        };
        const settled = (): void => signal?.removeEventListener('abort', giveUp);
        const entry = {
          only,
          resolve: (slot: Slot): void => {
            settled();
            holders.set(slot, signal);
            resolve(slot);
          },
          reject: (reason: unknown): void => (settled(), reject(reason)),
        };
        waiting.push(entry);
        signal?.addEventListener('abort', giveUp, { once: true });
      });
    },
    release(slot) {
      holders.delete(slot);
      const next = waiting.findIndex(({ only }) => only === undefined || only === slot);
      if (next >= 0) waiting.splice(next, 1)[0].resolve(slot);
      else free.push(slot);
    },
    get active() {
      return n - free.length;
    },
    isActive: (slot) => !free.includes(slot),
    close(error) {
      closed = error;
      for (const entry of waiting.splice(0)) entry.reject(error);
    },
  };
}
