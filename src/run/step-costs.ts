/**
 * Cost of a step of n tokens, learnt from the steps that ran. It decides how many tokens of a draft
 * are worth verifying at once.
 */

export interface StepCosts {
  /**
   * Records the time of a step whose tokens all have logits. Times of 0 are ignored: some clocks
   * stand still during a computation.
   */
  learn(nTokens: number, ms: number): void;
  /**
   * Expected milliseconds of a step. Before anything was learnt, only ratios of results mean
   * something.
   */
  of(nTokens: number): number;
}

/** A step's time grows like n to this power if nothing is known. */
const GROWTH = 0.8;
/** Weight of a new measurement in the mean. */
const RATE = 0.25;
/** Cap of a measurement, in multiples of the mean: above it, something else had the processor. */
const OUTLIER = 2;
/**
 * Steps after which a mean is forgotten. If one was too high, its number of tokens would never be
 * tried again; and costs grow with the sequence.
 */
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
