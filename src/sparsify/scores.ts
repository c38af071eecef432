/**
 * Quality of predictors for every threshold at once. Scores are counted in bins, separately for
 * neurons that fire and neurons that do not.
 */

/** Bins per unit of the score, and the largest score that is distinguished. */
const PER_UNIT = 64;
const MOST = 32;
const BINS = 2 * MOST * PER_UNIT;

export interface Scores {
  /** Counts a neuron's score. */
  add(score: number, fires: boolean): void;
  /**
   * Numbers of neurons, over all tokens, that score at least the threshold: those that fire
   * (`firing`), and the others (`idle`). The threshold is a multiple of 1 / PER_UNIT.
   */
  above(threshold: number): { readonly firing: number; readonly idle: number };
}

export function createScores(): Scores {
  const firing = new Float64Array(BINS);
  const idle = new Float64Array(BINS);
  const bin = (score: number): number => Math.min(BINS - 1, Math.max(0, Math.floor((score + MOST) * PER_UNIT) || 0));
  const from = (counts: Float64Array, at: number): number => counts.subarray(at).reduce((sum, n) => sum + n, 0);
  return {
    add: (score, fires) => void (fires ? firing : idle)[bin(score)]++,
    above: (threshold) => ({ firing: from(firing, bin(threshold)), idle: from(idle, bin(threshold)) }),
  };
}

/**
 * Quality of predictors, on tokens that they were not trained with. Recall: fraction of the firing
 * neurons that are computed. Precision: fraction of the computed neurons that fire. Skipped:
 * fraction of all neurons that are not computed.
 */
export interface PredictorQuality {
  readonly recall: number;
  readonly precision: number;
  readonly skipped: number;
}

/** Quality of all these scores together. */
export function qualityAt(scores: readonly Scores[], threshold: number): PredictorQuality {
  const sum = (at: number): { firing: number; idle: number } =>
    scores.map((s) => s.above(at)).reduce((a, b) => ({ firing: a.firing + b.firing, idle: a.idle + b.idle }), { firing: 0, idle: 0 });
  const found = sum(threshold);
  const all = sum(-Infinity);
  const computed = found.firing + found.idle;
  return {
    recall: all.firing === 0 ? 1 : found.firing / all.firing,
    precision: computed === 0 ? 1 : found.firing / computed,
    skipped: 1 - computed / Math.max(1, all.firing + all.idle),
  };
}

/** Largest threshold with at least this recall. */
export function thresholdFor(scores: readonly Scores[], recall: number): number {
  let [low, high] = [0, BINS]; // the recall of bin `low` is sufficient
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (qualityAt(scores, middle / PER_UNIT - MOST).recall >= recall) low = middle;
    else high = middle;
  }
  return low === 0 ? -Infinity : low / PER_UNIT - MOST;
}
