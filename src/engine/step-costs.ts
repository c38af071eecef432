/** What a step of n tokens costs, learnt from the steps that were run: it says how many tokens of a draft are worth verifying at once. */

export interface StepCosts {
  /** A step of so many tokens, all of them with logits, took so long. Clocks that stand still while computing teach nothing. */
  learn(nTokens: number, ms: number): void;
  /** Expected milliseconds of a step of so many tokens. Before anything was learnt only the ratio of two such numbers means something. */
  of(nTokens: number): number;
}

/** A step's time grows like n to this power where nothing is known: 8 sequences make 1.4 times the tokens of one, 64 tokens twice as many. */
const GROWTH = 0.8;
/** What one more measurement counts. */
const RATE = 0.25;
/** A measurement that is this many times the mean counts only as that: something else had the processor. */
const OUTLIER = 2;
/** Steps after which a measurement is forgotten: one that was too high would never be made again, and costs grow with the sequence. */
const FRESH = 512;
/** One bucket for each n up to 16, then one for every 8, up to 16 + 8 * 48 tokens. */
const BUCKETS = 65;
const bucketOf = (n: number): number => Math.min(n <= 16 ? n : 14 + Math.ceil(n / 8), BUCKETS - 1);

export function createStepCosts(): StepCosts {
  /** Milliseconds divided by n ** GROWTH, so that a neighbour's mean can stand in. */
  const means = new Float64Array(BUCKETS);
  const learntAt = new Float64Array(BUCKETS).fill(-Infinity);
  let steps = 0;
  const known = (bucket: number): boolean => bucket > 0 && bucket < BUCKETS && steps - learntAt[bucket] < FRESH;
  return {
    learn(nTokens, ms) {
      if (!(ms > 0)) return;
      const bucket = bucketOf(nTokens);
      const x = ms / nTokens ** GROWTH;
      means[bucket] = known(bucket) ? means[bucket] + RATE * (Math.min(x, OUTLIER * means[bucket]) - means[bucket]) : x;
      learntAt[bucket] = ++steps;
    },
    of(nTokens) {
      const bucket = bucketOf(nTokens);
      for (let d = 0; d < BUCKETS; d++) {
        const near = known(bucket - d) ? bucket - d : bucket + d;
        if (known(near)) return means[near] * nTokens ** GROWTH;
      }
      return nTokens ** GROWTH;
    },
  };
}
