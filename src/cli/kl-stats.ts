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

/** Statistics of one line of progress. */
export function klSummary({ nll, nllBase, kld, dp, same }: KlValues) {
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
    base_ppl: { mean: Math.exp(logBase.mean), err: Math.exp(logBase.mean) * logBase.err },
    correlation: log.err * logBase.err > 0 ? covariance / (log.err * logBase.err) : 1,
    ln_ppl_ratio: ratio,
    kld: uncertain(kld),
    dp: uncertain(dp),
    rms_dp: { mean: rms, err: rms > 0 ? (0.5 / rms) * square.err : 0 },
    same_top: { mean: top, err: n > 1 ? Math.sqrt((top * (1 - top)) / (n - 1)) : 0 },
  };
}

const KLD_PERCENTILES = [100, 99.9, 99, 95, 90, 50, 10, 5, 1, 0.1, 0];
const DP_PERCENTILES = [100, 99.9, 99, 95, 90, 75, 50, 25, 10, 5, 1, 0.1, 0];

const percentName = (p: number): string => (p === 100 ? 'max' : p === 50 ? 'median' : p === 0 ? 'min' : `p${p}`);

/** All statistics, percentiles included. */
export function klResult(values: KlValues) {
  const of = (a: readonly number[], percents: readonly number[]): { readonly [percent: string]: number } => {
    const sorted = [...a].sort((x, y) => x - y);
    return Object.fromEntries(percents.map((p) => [percentName(p), percentile(sorted, p / 100)]));
  };
  return { ...klSummary(values), kld_percentiles: of(values.kld, KLD_PERCENTILES), dp_percentiles: of(values.dp, DP_PERCENTILES) };
}
export type KlResult = ReturnType<typeof klResult>;

export const KL_HEAD =
  'chunk             PPL               ln(PPL(Q)/PPL(base))          KL Divergence              Δp RMS            Same top p\n';

const cell = ({ mean: m, err }: Uncertain, width: number, digits: number, factor = 1): string =>
  `${(m * factor).toFixed(digits).padStart(width)} ± ${(err * factor).toFixed(digits).padStart(width)}`;

export const klLine = (chunk: number, values: KlValues): string => {
  const s = klSummary(values);
  return `${String(chunk).padStart(4)}    ${cell(s.ppl, 9, 4)}    ${cell(s.ln_ppl_ratio, 10, 5)}    ${cell(s.kld, 10, 5)}    ${cell(s.rms_dp, 6, 3, 100)} %    ${cell(s.same_top, 6, 3, 100)} %\n`;
};

const percentLabel = (p: number): string =>
  p === 100 ? 'Maximum' : p === 50 ? 'Median ' : p === 0 ? 'Minimum' : `${p.toFixed(1).padStart(4)}%  `;

export function klReport(r: KlResult): string {
  const line = (name: string, value: Uncertain): string => `${name.padEnd(30)}: ${cell(value, 10, 6)}`;
  const percent = ({ mean: m, err }: Uncertain): string => `${(100 * m).toFixed(3).padStart(6)} ± ${(100 * err).toFixed(3).padStart(5)} %`;
  return [
    '====== Perplexity statistics ======',
    line('Mean PPL(Q)', r.ppl),
    line('Mean PPL(base)', r.base_ppl),
    `Cor(ln(PPL(Q)), ln(PPL(base))): ${(100 * r.correlation).toFixed(2).padStart(6)}%`,
    line('Mean ln(PPL(Q)/PPL(base))', r.ln_ppl_ratio),
    line('Mean PPL(Q)/PPL(base)', { mean: Math.exp(r.ln_ppl_ratio.mean), err: Math.exp(r.ln_ppl_ratio.mean) * r.ln_ppl_ratio.err }),
    '',
    '====== KL divergence statistics ======',
    `Mean    KLD: ${cell(r.kld, 10, 6)}`,
    ...KLD_PERCENTILES.map((p) => `${percentLabel(p)} KLD: ${r.kld_percentiles[percentName(p)].toFixed(6).padStart(10)}`),
    '',
    '====== Token probability statistics ======',
    `Mean    Δp: ${percent(r.dp)}`,
    ...DP_PERCENTILES.map((p) => `${percentLabel(p)} Δp: ${(100 * r.dp_percentiles[percentName(p)]).toFixed(3).padStart(6)}%`),
    `RMS Δp    : ${percent(r.rms_dp)}`,
    `Same top p: ${percent(r.same_top)}`,
    '',
  ].join('\n');
}
