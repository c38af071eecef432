/**
 * Statistics of a model against a base, as in llama-perplexity: means with standard errors,
 * percentiles.
 */

export interface Uncertain {
  readonly mean: number;
  /** Standard error. */
  readonly err: number;
}

/** Up to this number of values, llama.cpp gives no standard error. */
const FEW = 10;

const mean = (a: ArrayLike<number>, f = (x: number, _i: number): number => x): number => {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += f(a[i], i);
  return sum / a.length;
};

const uncertain = (a: ArrayLike<number>, f = (x: number): number => x): Uncertain => {
  const m = mean(a, f);
  const variance = mean(a, (x) => f(x) ** 2) - m * m;
  return { mean: m, err: variance > 0 && a.length > FEW ? Math.sqrt(variance / (a.length - 1)) : 0 };
};

/**
 * Percentile by linear interpolation, as in llama.cpp.
 * @param sorted values in ascending order
 */
const percentile = (sorted: readonly number[], fraction: number): number => {
  const p = fraction * (sorted.length - 1);
  const i = Math.floor(p);
  return (1 - (p - i)) * sorted[i] + (p - i) * sorted[Math.min(i + 1, sorted.length - 1)];
};

/** Values of all counted tokens so far, in the order of the text. */
export interface KlValues {
  /** -ln p of the model and of the base. */
  readonly nll: number[];
  readonly nllBase: number[];
  readonly kld: number[];
  /** p of the model minus p of the base. */
  readonly dp: number[];
  /** Number of tokens with the same most probable token in both. */
  same: number;
}

export const klValues = (): KlValues => ({ nll: [], nllBase: [], kld: [], dp: [], same: 0 });

/** Means over the counted tokens, with their standard errors. */
export interface KlSummary {
  /** Perplexity of the model, and of the base. */
  readonly ppl: Uncertain;
  readonly basePpl: Uncertain;
  /** Correlation of the logarithms of both. */
  readonly correlation: number;
  readonly lnPplRatio: Uncertain;
  /** KL divergence from the base, in nats. */
  readonly kld: Uncertain;
  /** Probability of the text's token: the model's minus the base's; and its root mean square. */
  readonly dp: Uncertain;
  readonly rmsDp: Uncertain;
  /** Fraction of tokens with the same most probable token. */
  readonly sameTop: Uncertain;
}

/** KlSummary with percentiles: `min`, `p0.1`, `p1` ... `median` ... `p99.9`, `max`. */
export interface KlStatistics extends KlSummary {
  readonly kldPercentiles: Readonly<Record<string, number>>;
  readonly dpPercentiles: Readonly<Record<string, number>>;
}

/** Statistics of one line of progress. */
export function klSummary({ nll, nllBase, kld, dp, same }: KlValues): KlSummary {
  const n = nll.length;
  const log = uncertain(nll);
  const logBase = uncertain(nllBase);
  const covariance = n < FEW ? 0 : (mean(nll, (x, i) => x * nllBase[i]) - log.mean * logBase.mean) / (n - 1);
  const ratio: Uncertain = { mean: log.mean - logBase.mean, err: Math.sqrt(Math.max(0, log.err ** 2 + logBase.err ** 2 - 2 * covariance)) };
  const square = uncertain(dp, (x) => x * x);
  const rms = Math.sqrt(square.mean);
  const top = same / n;
  return {
    ppl: { mean: Math.exp(log.mean), err: Math.exp(log.mean) * log.err },
    basePpl: { mean: Math.exp(logBase.mean), err: Math.exp(logBase.mean) * logBase.err },
    correlation: log.err * logBase.err > 0 ? covariance / (log.err * logBase.err) : 1,
    lnPplRatio: ratio,
    kld: uncertain(kld),
    dp: uncertain(dp),
    rmsDp: { mean: rms, err: rms > 0 ? (0.5 / rms) * square.err : 0 },
    sameTop: { mean: top, err: n > 1 ? Math.sqrt((top * (1 - top)) / (n - 1)) : 0 },
  };
}

export const KLD_PERCENTILES = [100, 99.9, 99, 95, 90, 50, 10, 5, 1, 0.1, 0];
export const DP_PERCENTILES = [100, 99.9, 99, 95, 90, 75, 50, 25, 10, 5, 1, 0.1, 0];

export const percentName = (p: number): string => (p === 100 ? 'max' : p === 50 ? 'median' : p === 0 ? 'min' : `p${p}`);

/** All statistics, percentiles included. */
export function klStatistics(values: KlValues): KlStatistics {
  const of = (a: readonly number[], percents: readonly number[]): { readonly [percent: string]: number } => {
    const sorted = [...a].sort((x, y) => x - y);
    return Object.fromEntries(percents.map((p) => [percentName(p), percentile(sorted, p / 100)]));
  };
  return { ...klSummary(values), kldPercentiles: of(values.kld, KLD_PERCENTILES), dpPercentiles: of(values.dp, DP_PERCENTILES) };
}
