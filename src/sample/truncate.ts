/**
 * Steps that remove improbable tokens: top-k, top-p, min-p, typical, top-n-sigma; and XTC, which
 * removes probable ones.
 */
import { argmax, keepWhere, selectTop, softmax, sortCandidates } from './candidates.ts';
import type { Candidates, SamplerStep } from './candidates.ts';
import { exp, log } from './math.ts';
import type { Random } from './random.ts';

/** Keeps the k largest logits (llama_sampler_init_top_k). */
export function topKStep(k: number): SamplerStep {
  return (c) => selectTop(c, k);
}

/**
 * Nucleus sampling (Holtzman et al., 2019): keeps the most probable tokens until their
 * probabilities sum to p.
 */
export function topPStep(p: number, minKeep: number): SamplerStep {
  return (c) => {
    if (!c.sorted && c.size > 256 && minKeep <= 1) sortLikely(c, p);
    else {
      sortCandidates(c);
      softmax(c);
    }
    let sum = 0;
    let keep = 0;
    while (keep < c.size) {
      sum += c.p[keep++];
      if (sum >= p && keep >= minKeep) break;
    }
    c.size = keep;
  };
}

/**
 * Sorts the tokens that may be needed to reach p, and drops all others: tokens with a probability
 * up to (1 - p) / n sum to at most 1 - p. This leaves a few thousand tokens of a vocabulary, so
 * sorting is cheap.
 */
function sortLikely(c: Candidates, p: number): void {
  const sum = softmax(c);
  // slightly lower, because the sums are rounded
  const least = ((1 - p) / c.size) * (1 - 1e-6);
  keepWhere(c, (i) => c.p[i] > least);
  sortCandidates(c);
  const { logits, size } = c;
  for (let i = 0; i < size; i++) c.p[i] = exp(logits[i] - logits[0]) / sum;
}

/**
 * Keeps tokens at least minP times as probable as the most probable one. Compares logits, so no
 * softmax is needed.
 */
export function minPStep(minP: number, minKeep: number): SamplerStep {
  const below = log(minP);
  return (c) => {
    const { logits } = c;
    if (minKeep > 1) sortCandidates(c);
    if (c.sorted) {
      const least = logits[0] + below;
      let keep = 1;
      while (keep < c.size && (keep < minKeep || logits[keep] >= least)) keep++;
      c.size = keep;
    } else {
      const least = logits[argmax(logits, c.size)] + below;
      keepWhere(c, (i) => logits[i] >= least);
    }
  };
}

/**
 * Keeps logits no more than n standard deviations below the largest (Tang et al., 2024:
 * top-n-sigma).
 */
export function topNSigmaStep(n: number): SamplerStep {
  return (c) => {
    const { logits, size } = c;
    let sum = 0;
    for (let i = 0; i < size; i++) sum += logits[i];
    const mean = sum / size;
    let squares = 0;
    for (let i = 0; i < size; i++) squares += (logits[i] - mean) * (logits[i] - mean);
    const least = logits[argmax(logits, size)] - n * Math.sqrt(squares / size);
    keepWhere(c, (i) => logits[i] >= least);
  };
}

/**
 * Locally typical sampling (Meister et al., 2022): keeps the tokens whose surprise is nearest to
 * the entropy, until their probabilities exceed p.
 */
export function typicalStep(p: number, minKeep: number, nVocab: number): SamplerStep {
  const logitOf = new Float32Array(nVocab);
  const pOf = new Float64Array(nVocab);
  return (c) => {
    softmax(c);
    let entropy = 0;
    for (let i = 0; i < c.size; i++) {
      if (c.p[i] > 0) entropy -= c.p[i] * log(c.p[i]);
    }
    for (let i = 0; i < c.size; i++) {
      const id = c.ids[i];
      logitOf[id] = c.logits[i];
      pOf[id] = c.p[i];
      // negated, because the sort is descending
      c.logits[i] = -Math.abs(-log(c.p[i]) - entropy);
    }
    c.sorted = false;
    sortCandidates(c);
    let sum = 0;
    let keep = 0;
    while (keep < c.size) {
      sum += pOf[c.ids[keep++]];
      if (sum > p && keep >= minKeep) break;
    }
    c.size = keep;
    for (let i = 0; i < keep; i++) c.logits[i] = logitOf[c.ids[i]];
    c.sorted = false;
  };
}

/**
 * Exclude top choices: with this probability, removes all tokens at or above the threshold except
 * the least probable of them.
 */
export function xtcStep(probability: number, threshold: number, minKeep: number, random: Random): SamplerStep {
  return (c) => {
    if (c.size < 2 || random.next() > probability) return;
    sortCandidates(c);
    softmax(c);
    let likely = 0;
    while (likely < c.size && c.p[likely] >= threshold) likely++;
    const drop = likely - 1;
    if (drop < 1 || c.size - drop < minKeep) return;
    c.ids.copyWithin(0, drop, c.size);
    c.logits.copyWithin(0, drop, c.size);
    c.size -= drop;
  };
}
