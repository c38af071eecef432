/** DRY ("don't repeat yourself"): a penalty for tokens that lengthen a repetition. */
import type { SamplerStep } from './candidates.ts';
import { createHistory } from './history.ts';
import { log, pow } from './math.ts';

/** DRY as a step of the chain, with its own memory of the text. */
export interface Dry {
  readonly step: SamplerStep;
  accept(id: number): void;
  reset(): void;
}

export interface DryOptions {
  readonly multiplier: number;
  readonly base: number;
  readonly allowedLength: number;
  /** tokens searched; -1: all */
  readonly lastN: number;
  readonly sequenceBreakers: readonly string[];
}

/**
 * Subtracts multiplier * base^(n - allowedLength) from the logit of a token that would lengthen a
 * repetition of n tokens (DRY, by p-e-w; llama_sampler_init_dry). A repetition is not followed back
 * across a sequence breaker. Breakers are searched in the bytes of the text, so one that is split
 * between tokens is found, too.
 * @param pieceBytes bytes of a token
 */
export function createDry(options: DryOptions, nVocab: number, pieceBytes: (id: number) => Uint8Array): Dry {
  const { multiplier, base, allowedLength } = options;
  const history = createHistory(options.lastN, nVocab);
  const breakers = options.sequenceBreakers.map((breaker) => binary(new TextEncoder().encode(breaker)));
  const tailLength = breakers.reduce((longest, breaker) => Math.max(longest, breaker.length), 1) - 1;
  const longestFor = new Int32Array(nVocab);
  const touched: number[] = [];
  /** the largest power that stays finite in the floats of the logits */
  const maxExponent = base > 1.000001 ? Math.floor(88.7228391 / log(base)) : 0;
  let z = new Int32Array(256);
  /**
   * the end of the text, one byte shorter than the longest breaker; and the tokens since the last
   * breaker
   */
  let tail = '';
  let sinceBreaker = 0;

  function step({ logits }: { readonly logits: Float32Array }): void {
    const n = history.length;
    const limit = Math.min(n, sinceBreaker);
    if (n <= allowedLength || limit < allowedLength) return;
    if (z.length < n) z = new Int32Array(2 * n);
    zFunction(history.back, n, z);
    for (let k = 1; k < n; k++) {
      const repeated = Math.min(z[k], limit);
      // The token after the earlier occurrence would lengthen the repetition. z = 0 is not a
      // repetition, even if allowedLength is 0.
      if (repeated < 1 || repeated < allowedLength) continue;
      const next = history.back(k - 1);
      if (longestFor[next] === 0) touched.push(next);
      if (repeated > longestFor[next]) longestFor[next] = repeated;
    }
    for (const id of touched) {
      const repeated = longestFor[id];
      longestFor[id] = 0;
      if (breakers.length > 0 && containsBreaker(binary(pieceBytes(id)))) continue;
      logits[id] -= multiplier * pow(base, Math.min(repeated - allowedLength, maxExponent));
    }
    touched.length = 0;
  }

  function containsBreaker(text: string): boolean {
    return breakers.some((breaker) => text.includes(breaker));
  }

  return {
    step,
    accept(id) {
      history.push(id);
      sinceBreaker++;
      if (breakers.length === 0) return;
      const text = tail + binary(pieceBytes(id));
      if (containsBreaker(text)) sinceBreaker = 0;
      tail = sinceBreaker === 0 || tailLength === 0 ? '' : text.slice(-tailLength);
    },
    reset() {
      history.reset();
      tail = '';
      sinceBreaker = 0;
    },
  };
}

/** Bytes as a string with one character for each byte. */
function binary(bytes: Uint8Array): string {
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  return text;
}

/**
 * z[k] = number of tokens from k on that equal those from 0 on (Gusfield's Z algorithm, linear in
 * n); z[0] = n.
 */
function zFunction(at: (i: number) => number, n: number, z: Int32Array): void {
  z[0] = n;
  for (let k = 1, left = 0, right = 0; k < n; k++) {
    let length = k < right ? Math.min(z[k - left], right - k) : 0;
    while (k + length < n && at(length) === at(k + length)) length++;
    z[k] = length;
    if (k + length > right) {
      left = k;
      right = k + length;
    }
  }
}
