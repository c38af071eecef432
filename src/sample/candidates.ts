/** Candidates: the tokens that a sampler can still choose, as its steps reduce them. */
import { QuantletError } from '../errors.ts';
import { exp } from './math.ts';

/**
 * Tokens that can still be chosen: one buffer for the life of a sampler, reduced in place by each
 * step. After loadCandidates() it has every token, with ids[i] = i. `sorted`: logits descend, equal
 * ones by ascending id.
 */
export interface Candidates {
  /** token ids, ne [n_vocab], the first `size` valid */
  readonly ids: Int32Array;
  /** logits of those tokens, ne [n_vocab] */
  readonly logits: Float32Array;
  /** probabilities, ne [n_vocab]; valid after softmax() until logits or size change */
  readonly p: Float64Array;
  size: number;
  sorted: boolean;
  /** true if a logit may be -Infinity, so that dropBanned() has work to do */
  banned: boolean;
}

/** One step of a sampler: removes candidates or changes their logits. */
export type SamplerStep = (candidates: Candidates) => void;

interface Workspace {
  readonly identity: Int32Array;
  keys: Uint32Array[];
  ids: Int32Array | undefined;
}
const workspaces = new WeakMap<Candidates, Workspace>();

export function createCandidates(nVocab: number): Candidates {
  const candidates = {
    ids: new Int32Array(nVocab),
    logits: new Float32Array(nVocab),
    p: new Float64Array(nVocab),
    size: 0,
    sorted: false,
    banned: false,
  };
  const identity = new Int32Array(nVocab);
  for (let i = 0; i < nVocab; i++) identity[i] = i;
  workspaces.set(candidates, { identity, keys: [], ids: undefined });
  return candidates;
}

/**
 * Loads the logits of a whole vocabulary. -Infinity bans a token.
 * @throws QuantletError ERR_LOGITS for NaN or +Infinity, ERR_INVALID_ARGUMENT if the length is not
 * n_vocab
 */
export function loadCandidates(c: Candidates, logits: Float32Array): void {
  const n = c.ids.length;
  if (logits.length !== n)
    throw new QuantletError('ERR_INVALID_ARGUMENT', `there are ${logits.length} logits; expected one for each of ${n} tokens`);
  c.banned = hasNonFinite(logits);
  c.logits.set(logits);
  c.ids.set(workspaces.get(c)!.identity);
  c.size = n;
  c.sorted = false;
}

/**
 * Tells if a logit is -Infinity.
 * @throws QuantletError ERR_LOGITS for NaN or +Infinity, which no softmax can use
 */
export function hasNonFinite(logits: Float32Array): boolean {
  // A finite number * 0 is 0, while NaN and Infinity give NaN. Four sums, so that an addition need
  // not wait for the one before it.
  let a = 0;
  let b = 0;
  let c = 0;
  let d = 0;
  let i = 0;
  for (const end = logits.length - 3; i < end; i += 4) {
    a += logits[i] * 0;
    b += logits[i + 1] * 0;
    c += logits[i + 2] * 0;
    d += logits[i + 3] * 0;
  }
  for (; i < logits.length; i++) a += logits[i] * 0;
  if (a + b + c + d === 0) return false;
  for (i = 0; i < logits.length; i++) {
    const v = logits[i];
    if (v !== v || v === Infinity) {
      throw new QuantletError(
        'ERR_LOGITS',
        `the logit of token ${i} is ${v}; expected a number: the model's file is damaged, or its weights overflow`,
      );
    }
  }
  return true;
}

/** Index of the largest of the first n logits; lowest index if there are several. */
export function argmax(logits: Float32Array, n: number): number {
  let best = 0;
  let top = logits[0];
  for (let i = 1; i < n; i++) {
    if (logits[i] > top) {
      top = logits[i];
      best = i;
    }
  }
  return best;
}

/** Keeps the candidates for which keep(i) is true, in their order. */
export function keepWhere(c: Candidates, keep: (i: number) => boolean): void {
  let size = 0;
  for (let i = 0; i < c.size; i++) {
    if (!keep(i)) continue;
    c.ids[size] = c.ids[i];
    c.logits[size] = c.logits[i];
    size++;
  }
  c.size = size;
}

/**
 * Wraps a step that indexes logits by token id, so that it works on candidates in any order and
 * number.
 */
export function indexedById(step: SamplerStep, nVocab: number): SamplerStep {
  const logits = new Float32Array(nVocab);
  return (c) => {
    for (let i = 0; i < c.size; i++) logits[c.ids[i]] = c.logits[i];
    step({ ...c, logits });
    for (let i = 0; i < c.size; i++) c.logits[i] = logits[c.ids[i]];
    c.sorted = false;
  };
}

/**
 * Removes banned tokens. Afterwards ids[i] = i no longer holds.
 * @throws QuantletError ERR_LOGITS if no token is left
 */
export function dropBanned(c: Candidates): void {
  if (c.banned) {
    keepWhere(c, (i) => c.logits[i] !== -Infinity);
    c.banned = false;
  }
  if (c.size === 0) throw new QuantletError('ERR_LOGITS', 'all logits are -Infinity; expected at least one token that can be chosen');
}

/**
 * p = softmax(logits) over the candidates, in their order.
 * @returns the sum of exp(logit - largest logit)
 */
export function softmax(c: Candidates): number {
  const { logits, p, size } = c;
  const max = logits[c.sorted ? 0 : argmax(logits, size)];
  let sum = 0;
  for (let i = 0; i < size; i++) sum += p[i] = exp(logits[i] - max);
  for (let i = 0; i < size; i++) p[i] /= sum;
  return sum;
}

/**
 * Keeps the k largest logits, sorted. Up to 1024 by a heap in the first k slots, which costs one
 * comparison for a token that does not enter it.
 */
export function selectTop(c: Candidates, k: number): void {
  if (k > c.size) k = c.size;
  if (!c.sorted) {
    if (k <= 1024) heapSelect(c.ids, c.logits, c.size, k);
    else radixSort(c);
    c.sorted = true;
  }
  c.size = k;
}

/** Sorts by descending logit, equal logits by ascending id. */
export function sortCandidates(c: Candidates): void {
  selectTop(c, c.size);
}

/**
 * Moves the k largest of n to the front, descending. Ids must ascend: a later token then loses
 * every tie.
 */
export function heapSelect(ids: Int32Array, logits: Float32Array, n: number, k: number): void {
  for (let i = (k >> 1) - 1; i >= 0; i--) siftDown(ids, logits, i, k, ids[i], logits[i]);
  let least = logits[0];
  for (let i = k; i < n; i++) {
    if (logits[i] > least) {
      siftDown(ids, logits, 0, k, ids[i], logits[i]);
      least = logits[0];
    }
  }
  for (let end = k - 1; end > 0; end--) {
    const id = ids[end];
    const logit = logits[end];
    ids[end] = ids[0];
    logits[end] = logits[0];
    siftDown(ids, logits, 0, end, id, logit);
  }
}

/**
 * Inserts (id, logit) into the free place i of a heap. The root is the least: the lowest logit, of
 * equal ones the highest id.
 */
function siftDown(ids: Int32Array, logits: Float32Array, i: number, size: number, id: number, logit: number): void {
  for (;;) {
    let child = 2 * i + 1;
    if (child >= size) break;
    const right = child + 1;
    if (right < size && (logits[right] < logits[child] || (logits[right] === logits[child] && ids[right] > ids[child]))) child = right;
    const v = logits[child];
    if (v > logit || (v === logit && ids[child] < id)) break;
    ids[i] = ids[child];
    logits[i] = v;
    i = child;
  }
  ids[i] = id;
  logits[i] = logit;
}

/**
 * Stable radix sort with three digits of 11 bits. Keys are made from the bits of the floats so that
 * they ascend as logits descend.
 */
function radixSort(c: Candidates): void {
  const n = c.size;
  const work = workspaces.get(c)!;
  work.ids ??= new Int32Array(c.ids.length);
  if (work.keys.length === 0) work.keys = [new Uint32Array(c.ids.length), new Uint32Array(c.ids.length), new Uint32Array(3 * 2048)];
  let [keys, otherKeys] = work.keys;
  const counts = work.keys[2].fill(0);
  let ids: Int32Array = c.ids;
  let otherIds = work.ids;
  const bits = new Uint32Array(c.logits.buffer, c.logits.byteOffset, n);
  for (let i = 0; i < n; i++) {
    const u = bits[i] === 0x80000000 ? 0 : bits[i];
    const key = (u & 0x80000000 ? u : ~u & 0x7fffffff) >>> 0;
    keys[i] = key;
    counts[key & 2047]++;
    counts[2048 + ((key >>> 11) & 2047)]++;
    counts[4096 + (key >>> 22)]++;
  }
  for (let digit = 0; digit < 3; digit++) {
    const base = digit * 2048;
    const shift = digit * 11;
    for (let j = base, at = 0; j < base + 2048; j++) {
      const count = counts[j];
      counts[j] = at;
      at += count;
    }
    for (let i = 0; i < n; i++) {
      const to = counts[base + ((keys[i] >>> shift) & 2047)]++;
      otherKeys[to] = keys[i];
      otherIds[to] = ids[i];
    }
    [keys, otherKeys] = [otherKeys, keys];
    [ids, otherIds] = [otherIds, ids];
  }
  // The number of digits is odd, so the result is in the workspace.
  c.ids.set(n === ids.length ? ids : ids.subarray(0, n));
  for (let i = 0; i < n; i++) {
    const key = keys[i];
    bits[i] = key & 0x80000000 ? key : ~key & 0x7fffffff;
  }
}

/**
 * Index i for which u (0 <= u < 1) falls into p[i]'s part of the cumulative sum. The sum of p may
 * differ from 1 by rounding.
 */
export function pick(c: Candidates, u: number): number {
  const { p, size } = c;
  let sum = 0;
  for (let i = 0; i < size; i++) sum += p[i];
  const target = u * sum;
  let last = 0;
  for (let i = 0, at = 0; i < size; i++) {
    if (p[i] === 0) continue;
    at += p[i];
    if (at > target) return i;
    last = i;
  }
  return last;
}
