import type { Work } from '../slices.ts';

/**
 * Merges of neighbouring symbols. Symbols are small integers, whose meaning only the caller knows.
 */
export interface MergeRules {
  /** A handle for the merge of these two neighbours, or -1. */
  find(left: number, right: number): number;
  /** Priority of a merge: the smallest comes first, and of equal ones the leftmost. */
  priority(merge: number): number;
  /** Symbol that replaces the merged pair. */
  result(merge: number): number;
}

// With fewer symbols, scanning every pair again is faster than a queue. Words of ordinary text are
// shorter.
const scanLimit = 24;
/** Symbols or merges between two points where the work may pause. */
const stride = 2048;

/**
 * Merges neighbours, best first, until no merge applies: the loop shared by byte-pair encoding and
 * SentencePiece's BPE. Changes `symbols` in place and returns its new length. O(n log n), also for
 * a text without a single space.
 */
export function* mergeSymbols(symbols: number[], rules: MergeRules): Work<number> {
  return symbols.length <= scanLimit ? mergeByScan(symbols, rules) : yield* mergeByQueue(symbols, rules);
}

function mergeByScan(symbols: number[], rules: MergeRules): number {
  let n = symbols.length;
  const merges: number[] = [];
  for (let i = 0; i + 1 < n; i++) merges.push(rules.find(symbols[i], symbols[i + 1]));
  for (;;) {
    let best = -1;
    let bestPriority = Infinity;
    for (let i = 0; i + 1 < n; i++) {
      const merge = merges[i];
      if (merge < 0) continue;
      const priority = rules.priority(merge);
      if (best < 0 || priority < bestPriority) {
        best = i;
        bestPriority = priority;
      }
    }
    if (best < 0) break;
    symbols[best] = rules.result(merges[best]);
    n--;
    for (let i = best + 1; i < n; i++) {
      symbols[i] = symbols[i + 1];
      merges[i] = merges[i + 1];
    }
    if (best > 0) merges[best - 1] = rules.find(symbols[best - 1], symbols[best]);
    if (best + 1 < n) merges[best] = rules.find(symbols[best], symbols[best + 1]);
  }
  symbols.length = n;
  return n;
}

function* mergeByQueue(symbols: number[], rules: MergeRules): Work<number> {
  const n = symbols.length;
  const prev = new Int32Array(n);
  const next = new Int32Array(n);
  const current = new Int32Array(n).fill(-1);
  for (let i = 0; i < n; i++) {
    prev[i] = i - 1;
    next[i] = i + 1 < n ? i + 1 : -1;
  }

  // A binary heap of (priority, left position, merge). An entry is stale if `current[left]` is
  // another merge by now.
  const priorities: number[] = [];
  const lefts: number[] = [];
  const merges: number[] = [];
  const before = (a: number, b: number): boolean =>
    priorities[a] < priorities[b] || (priorities[a] === priorities[b] && lefts[a] < lefts[b]);
  const swap = (a: number, b: number): void => {
    let t = priorities[a];
    priorities[a] = priorities[b];
    priorities[b] = t;
    t = lefts[a];
    lefts[a] = lefts[b];
    lefts[b] = t;
    t = merges[a];
    merges[a] = merges[b];
    merges[b] = t;
  };
  const consider = (left: number): void => {
    if (left < 0) return;
    const right = next[left];
    const merge = right < 0 ? -1 : rules.find(symbols[left], symbols[right]);
    current[left] = merge;
    if (merge < 0) return;
    let at = priorities.push(rules.priority(merge)) - 1;
    lefts.push(left);
    merges.push(merge);
    for (let up = (at - 1) >> 1; at > 0 && before(at, up); at = up, up = (at - 1) >> 1) swap(at, up);
  };
  const pop = (): void => {
    const last = priorities.length - 1;
    swap(0, last);
    priorities.pop();
    lefts.pop();
    merges.pop();
    for (let at = 0; ;) {
      let child = 2 * at + 1;
      if (child >= last) break;
      if (child + 1 < last && before(child + 1, child)) child++;
      if (!before(child, at)) break;
      swap(at, child);
      at = child;
    }
  };

  for (let i = 0; i + 1 < n; i++) {
    if ((i + 1) % stride === 0) yield;
    consider(i);
  }
  for (let done = 1; priorities.length > 0; done++) {
    if (done % stride === 0) yield;
    const left = lefts[0];
    const merge = merges[0];
    pop();
    if (current[left] !== merge) continue;
    const right = next[left];
    symbols[left] = rules.result(merge);
    symbols[right] = -1;
    current[right] = -1;
    next[left] = next[right];
    if (next[left] >= 0) prev[next[left]] = left;
    consider(prev[left]);
    consider(left);
  }
  let kept = 0;
  for (let i = 0; i >= 0; i = next[i]) symbols[kept++] = symbols[i];
  symbols.length = kept;
  return kept;
}

/**
 * Open-addressing hash table from a pair of symbols to an integer. Takes half the memory of a Map,
 * and no key objects.
 */
export interface PairTable {
  get(left: number, right: number): number | undefined;
  set(left: number, right: number, value: number): void;
}

export function createPairTable(expected: number): PairTable {
  let size = 1024;
  while (size < expected * 2) size *= 2;
  let cells = new Int32Array(size * 3).fill(-1);
  let count = 0;
  // Multipliers (one from Knuth's golden ratio) that spread consecutive ids over the table.
  const slot = (left: number, right: number): number => {
    let at = Math.imul(left, 0x9e3779b1) ^ Math.imul(right, 0x85ebca6b);
    at = (at ^ (at >>> 15)) & (size - 1);
    while (cells[at * 3] >= 0 && (cells[at * 3] !== left || cells[at * 3 + 1] !== right)) at = (at + 1) & (size - 1);
    return at * 3;
  };
  const set = (left: number, right: number, value: number): void => {
    if (count * 2 > size) {
      const old = cells;
      size *= 2;
      cells = new Int32Array(size * 3).fill(-1);
      count = 0;
      for (let i = 0; i < old.length; i += 3) if (old[i] >= 0) set(old[i], old[i + 1], old[i + 2]);
    }
    const at = slot(left, right);
    if (cells[at] < 0) count++;
    cells[at] = left;
    cells[at + 1] = right;
    cells[at + 2] = value;
  };
  return {
    get: (left, right) => {
      const at = slot(left, right);
      return cells[at] < 0 ? undefined : cells[at + 2];
    },
    set,
  };
}
