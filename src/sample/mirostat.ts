/** Mirostat versions 1 and 2. */
import { pick, selectTop, softmax, sortCandidates } from './candidates.ts';
import type { Candidates } from './candidates.ts';
import { log, pow } from './math.ts';
import type { Random } from './random.ts';

/** Final step that draws the token, and adapts to the surprise of the drawn tokens. */
export interface Mirostat {
  /** @returns the index of the chosen candidate */
  draw(candidates: Candidates): number;
  reset(): void;
}

const LN2 = 0.6931471805599453;
/** Number of tokens from which llama.cpp estimates the slope of the distribution. */
const M = 100;

/**
 * Mirostat 1 and 2 (Basu et al., 2020). Keeps the surprise of the drawn tokens near tau bits. mu is
 * the largest surprise that a candidate may have; each draw corrects mu by its error.
 */
export function createMirostat(version: number, tau: number, eta: number, nVocab: number, random: Random): Mirostat {
  let mu = 2 * tau;
  return {
    draw(c) {
      sortCandidates(c);
      softmax(c);
      if (version === 1) selectTop(c, topKFor(c, mu, nVocab));
      else keepSurpriseBelow(c, mu);
      softmax(c);
      const chosen = pick(c, random.next());
      mu -= eta * (-log(c.p[chosen]) / LN2 - tau);
      return chosen;
    },
    reset() {
      mu = 2 * tau;
    },
  };
}

function keepSurpriseBelow(c: Candidates, mu: number): void {
  let keep = 1;
  while (keep < c.size && -log(c.p[keep]) / LN2 <= mu) keep++;
  c.size = keep;
}

/**
 * k for which a Zipf distribution, fitted to the most probable tokens, has the expected surprise
 * mu.
 */
function topKFor({ p, size }: Candidates, mu: number, nVocab: number): number {
  let sumTB = 0;
  let sumTT = 0;
  for (let i = 0; i < M - 1 && i < size - 1 && p[i + 1] > 0; i++) {
    const t = log((i + 2) / (i + 1));
    sumTB += t * log(p[i] / p[i + 1]);
    sumTT += t * t;
  }
  if (sumTT === 0) return 1;
  const s = sumTB / sumTT;
  const epsilon = s - 1;
  // Equal probabilities give the fitted exponent 0, whose root is undefined. All tokens then have
  // the same surprise.
  if (s < 1e-9) return mu * LN2 >= log(size) ? size : 1;
  // Limit for epsilon -> 0, where the formula is 0 / 0.
  const share = Math.abs(epsilon) < 1e-9 ? 1 / log(nVocab) : epsilon / (1 - pow(nVocab, -epsilon));
  const k = pow(share * pow(2, mu), 1 / s);
  return k < size ? Math.max(Math.trunc(k), 1) : size;
}
