/** Printed lines of `quantlet perplexity --kl-divergence`, as llama-perplexity has them. */
import { DP_PERCENTILES, KLD_PERCENTILES, percentName, type KlStatistics, type KlSummary, type Uncertain } from '../tools/kl-stats.ts';

export const KL_HEAD =
  'chunk             PPL               ln(PPL(Q)/PPL(base))          KL Divergence              Δp RMS            Same top p\n';

const cell = ({ mean: m, err }: Uncertain, width: number, digits: number, factor = 1): string =>
  `${(m * factor).toFixed(digits).padStart(width)} ± ${(err * factor).toFixed(digits).padStart(width)}`;

export const klLine = (chunk: number, s: KlSummary): string => {
  return `${String(chunk).padStart(4)}    ${cell(s.ppl, 9, 4)}    ${cell(s.lnPplRatio, 10, 5)}    ${cell(s.kld, 10, 5)}    ${cell(s.rmsDp, 6, 3, 100)} %    ${cell(s.sameTop, 6, 3, 100)} %\n`;
};

const percentLabel = (p: number): string =>
  p === 100 ? 'Maximum' : p === 50 ? 'Median ' : p === 0 ? 'Minimum' : `${p.toFixed(1).padStart(4)}%  `;

export function klReport(r: KlStatistics): string {
  const line = (name: string, value: Uncertain): string => `${name.padEnd(30)}: ${cell(value, 10, 6)}`;
  const percent = ({ mean: m, err }: Uncertain): string => `${(100 * m).toFixed(3).padStart(6)} ± ${(100 * err).toFixed(3).padStart(5)} %`;
  return [
    '====== Perplexity statistics ======',
    line('Mean PPL(Q)', r.ppl),
    line('Mean PPL(base)', r.basePpl),
    `Cor(ln(PPL(Q)), ln(PPL(base))): ${(100 * r.correlation).toFixed(2).padStart(6)}%`,
    line('Mean ln(PPL(Q)/PPL(base))', r.lnPplRatio),
    line('Mean PPL(Q)/PPL(base)', { mean: Math.exp(r.lnPplRatio.mean), err: Math.exp(r.lnPplRatio.mean) * r.lnPplRatio.err }),
    '',
    '====== KL divergence statistics ======',
    `Mean    KLD: ${cell(r.kld, 10, 6)}`,
    ...KLD_PERCENTILES.map((p) => `${percentLabel(p)} KLD: ${r.kldPercentiles[percentName(p)].toFixed(6).padStart(10)}`),
    '',
    '====== Token probability statistics ======',
    `Mean    Δp: ${percent(r.dp)}`,
    ...DP_PERCENTILES.map((p) => `${percentLabel(p)} Δp: ${(100 * r.dpPercentiles[percentName(p)]).toFixed(3).padStart(6)}%`),
    `RMS Δp    : ${percent(r.rmsDp)}`,
    `Same top p: ${percent(r.sameTop)}`,
    '',
  ].join('\n');
}
