/**
 * Slots of the KV cache: as many as sequences that a model computes at the same time. A slot knows
 * which tokens its cells hold, and every change of a sequence is one of its operations. Steps
 * (scheduler.ts) and restored sequences (generate/saved-sequence.ts) fill the cells.
 */

import { wholeImages } from './image-tokens.ts';
import type { StateCells } from './state-cells.ts';

/**
 * Run of cells of the KV cache for one sequence, and the tokens whose keys and values the first of
 * them hold.
 */
export interface Slot {
  readonly index: number;
  /** The cell of the sequence's first token; position i lies in cell `firstCell + i`. */
  readonly firstCell: number;
  /** Most tokens. */
  readonly capacity: number;
  /**
   * In the order of their positions. They stay when the sequence has ended: a later prompt may
   * begin with them.
   */
  readonly tokens: readonly number[];
  /**
   * Number of first tokens that a step can continue after. All of them, unless recurrent states of
   * the last ones were lost: those are computed again with the next tokens.
   */
  readonly computed: number;
  /**
   * Prompt whose keys and values an encoder has left for the tokens, if the model has an encoder.
   */
  readonly encoded: readonly number[];
  /** States of recurrent layers, if the model has any. */
  readonly states: StateCells | undefined;
  /**
   * Number of a prompt's first tokens that need not be computed again. Never includes the last one,
   * because its logits are wanted.
   */
  reusable(prompt: readonly number[]): number;
  /**
   * Begins a prompt: keeps its reusable tokens and drops all others. Returns how many tokens were
   * kept; the rest is to be submitted.
   */
  begin(prompt: readonly number[]): number;
  /** Drops all tokens from this position on. */
  truncate(length: number): void;
  /** Drops the last n tokens: the next ones take their positions and cells. */
  rollBack(n: number): void;
  /**
   * Records that the next cells hold the keys and values of these tokens (of the first n). Only for
   * the scheduler and restored sequences, which fill the cells.
   */
  append(tokens: ArrayLike<number>, n?: number): void;
  /**
   * Records the prompt that an encoder has read; [] while it reads another one. Drops all tokens.
   */
  encode(prompt: readonly number[]): void;
}

function createSlot(index: number, capacity: number, states: StateCells | undefined): Slot {
  const tokens: number[] = [];
  let encoded: readonly number[] = [];
  const within = (length: number): number => (states ? states.reach(length) : length);
  const reusable = (prompt: readonly number[]): number =>
    wholeImages(prompt, within(wholeImages(prompt, Math.min(sharedLength(tokens, prompt), prompt.length - 1))));
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

/** Number of first tokens that two sequences share. */
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
   * Takes a slot, first come first served. If several are free, `choose` picks one. It gets the
   * free slots, the one that was free longest first, and the slots that will soon be free: the
   * signal of their sequence has aborted, but its step is not over. With `only`, takes this slot
   * and no other.
   */
  acquire(signal?: AbortSignal, choose?: (free: readonly Slot[], left: readonly Slot[]) => Slot, only?: Slot): Promise<Slot>;
  /** Gives a slot back. What it holds stays until another sequence takes it. */
  release(slot: Slot): void;
  /** Slots that are taken. */
  readonly active: number;
  isActive(slot: Slot): boolean;
  /** Rejects all waiting and later calls with this error. */
  close(error: Error): void;
}

/**
 * @param capacity cells of a slot
 * @param statesOf state cells of the slot with this index
 */
export function createSlots(n: number, capacity: number, statesOf: (index: number) => StateCells | undefined = () => undefined): Slots {
  const all = Array.from({ length: n }, (_, i) => createSlot(i, capacity, statesOf(i)));
  const free = [...all];
  /** Signals of the sequences that hold slots. */
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
