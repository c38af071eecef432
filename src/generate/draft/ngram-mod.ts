/**
 * llama.cpp's ngram-mod: a table from the hash of n tokens to the token that followed them, shared
 * by all sequences of a model. A draft follows the table from token to token, so its length is not
 * fixed. N-grams with equal hashes replace each other, which can make a draft wrong but never the
 * text.
 */
import type { Drafter } from './drafter.ts';
import type { NgramModOptions } from './options.ts';

/** log2 of the number of entries: 16 MiB, of which only written pages take memory. */
const LOG2_ENTRIES = 22;
/** Number of used entries at which the table is emptied, because collisions become frequent. */
const FULL = 2 ** LOG2_ENTRIES / 4;
/** Multiplier of the linear congruential hash: odd, with mixed bits. */
const MULTIPLIER = 0x9e3779b1;

/** The table of one model. */
export interface NgramPool {
  /** Creates a drafter for one sequence. */
  drafter(options: Required<Pick<NgramModOptions, 'nMin' | 'nMax'>>): Drafter;
}

/** @param n tokens of an n-gram */
export function createNgramPool(n: number): NgramPool {
  /** Token + 1; 0: empty. Allocated on first use. */
  let next: Int32Array | undefined;
  let used = 0;
  // Rolling hash: the hash of tokens t is the sum of t[i] * MULTIPLIER ** (n - 1 - i). The next
  // window's hash follows by removing the oldest token.
  let oldest = 1;
  for (let i = 0; i < n; i++) oldest = Math.imul(oldest, MULTIPLIER);
  const roll = (hash: number, token: number, out: number): number =>
    (Math.imul(hash, MULTIPLIER) + token + 1 - Math.imul(out + 1, oldest)) | 0;
  const grow = (hash: number, token: number): number => (Math.imul(hash, MULTIPLIER) + token + 1) | 0;
  /** Uses the high bits, because the low bits of such a hash depend on few tokens. */
  const entryOf = (hash: number): number => hash >>> (32 - LOG2_ENTRIES);

  const add = (hash: number, token: number): void => {
    next ??= new Int32Array(2 ** LOG2_ENTRIES);
    const at = entryOf(hash);
    if (next[at] === 0 && ++used > FULL) {
      next.fill(0);
      used = 1;
    }
    next[at] = token + 1;
  };

  return {
    drafter({ nMin, nMax }) {
      /** Number of tokens seen, and the hash of the last n of them. */
      let seen = 0;
      let hash = 0;
      return {
        free: true,
        draft(tokens, most, out) {
          for (; seen < tokens.length; seen++) {
            if (seen >= n) add(hash, tokens[seen]);
            hash = seen >= n ? roll(hash, tokens[seen], tokens[seen - n]) : grow(hash, tokens[seen]);
          }
          if (seen < n || !next) return;
          const from = out.length;
          let h = hash;
          for (let i = 0; i < nMax; i++) {
            const token = next[entryOf(h)] - 1;
            if (token < 0) {
              if (i < nMin) out.length = from;
              break;
            }
            out.push(token);
            h = roll(h, token, i < n ? tokens[seen - n + i] : out[from + i - n]);
          }
          if (out.length > from + most) out.length = from + most;
        },
      };
    },
  };
}
