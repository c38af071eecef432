/** Log probabilities of a token and of the most probable tokens. */
import { QuantletError } from '../errors.ts';
import { argmax, hasNonFinite, heapSelect } from './candidates.ts';
import { exp, log } from './math.ts';

export interface TokenLogprob {
  readonly id: number;
  readonly logprob: number;
}

export interface Logprobs extends TokenLogprob {
  /** the n most probable tokens, descending; equal ones by ascending id */
  readonly top: readonly TokenLogprob[];
}

/**
 * Natural log probabilities in the model's own distribution, before any sampler step.
 * @param logits ne [n_vocab], never written
 * @param n number of most probable tokens
 * @throws ERR_LOGITS on NaN or Infinity, ERR_INVALID_ARGUMENT for a wrong id or n
 */
export function logprobs(logits: Float32Array, id: number, n: number): Logprobs {
  if (!Number.isInteger(id) || id < 0 || id >= logits.length)
    throw new QuantletError('ERR_INVALID_ARGUMENT', `the token is ${id}; expected an id from 0 to ${logits.length - 1}`);
  if (!Number.isInteger(n) || n < 0)
    throw new QuantletError('ERR_INVALID_ARGUMENT', `top_logprobs is ${n}; expected a whole number of at least 0`);
  hasNonFinite(logits);
  const max = logits[argmax(logits, logits.length)];
  if (max === -Infinity) throw new QuantletError('ERR_LOGITS', 'all logits are -Infinity; expected at least one token that can be chosen');
  let sum = 0;
  for (let i = 0; i < logits.length; i++) sum += exp(logits[i] - max);
  const logSum = max + log(sum);
  const k = Math.min(n, logits.length);
  const ids = new Int32Array(k);
  const values = new Float32Array(k);
  if (k > 0) selectInto(logits, ids, values);
  return { id, logprob: logits[id] - logSum, top: Array.from(ids, (topId, i) => ({ id: topId, logprob: values[i] - logSum })) };
}

/** Selects the ids.length largest logits, descending, without copying all logits. */
function selectInto(logits: Float32Array, ids: Int32Array, values: Float32Array): void {
  const k = ids.length;
  // The buffer has the best k so far, then up to k more that are above the least of them. When it
  // is full, the best k are selected again.
  const waitingIds = new Int32Array(2 * k);
  const waiting = new Float32Array(2 * k);
  let size = 0;
  let least = -Infinity;
  for (let id = 0; id < logits.length; id++) {
    if (size >= k && !(logits[id] > least)) continue;
    waitingIds[size] = id;
    waiting[size++] = logits[id];
    if (size === k || size === 2 * k) {
      heapSelect(waitingIds, waiting, size, k);
      size = k;
      least = waiting[k - 1];
    }
  }
  heapSelect(waitingIds, waiting, size, k);
  ids.set(waitingIds.subarray(0, k));
  values.set(waiting.subarray(0, k));
}
