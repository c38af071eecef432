/** Temperature: fixed, zero (greedy), dynamic. */
import { argmax, softmax } from './candidates.ts';
import type { Candidates, SamplerStep } from './candidates.ts';
import { log, pow } from './math.ts';

/** Divides the logits by t > 0 (llama_sampler_init_temp); seen from the largest, so that a tiny t cannot make two of them infinite. */
export function temperatureStep(t: number): SamplerStep {
  return (c) => scaleLogits(c, t);
}

export function scaleLogits({ logits, size, sorted }: Candidates, t: number): void {
  const max = logits[sorted ? 0 : argmax(logits, size)];
  for (let i = 0; i < size; i++) logits[i] = (logits[i] - max) / t;
}

/** Temperature 0: the most probable candidate alone, the first of equals. */
export function greedyStep(): SamplerStep {
  return keepBest;
}

function keepBest(c: Candidates): void {
  const best = c.sorted ? 0 : argmax(c.logits, c.size);
  c.ids[0] = c.ids[best];
  c.logits[0] = c.logits[best];
  c.size = 1;
}

/**
 * Dynamic temperature: from t - range where one token is certain to t + range where all are alike, by the entropy's
 * share of the largest possible one, to the power of exponent (llama_sampler_init_temp_ext).
 */
export function dynamicTemperatureStep(t: number, range: number, exponent: number): SamplerStep {
  const coldest = Math.max(0, t - range);
  const hottest = t + range;
  return (c) => {
    if (c.size < 2) return;
    softmax(c);
    let entropy = 0;
    for (let i = 0; i < c.size; i++) {
      if (c.p[i] > 0) entropy -= c.p[i] * log(c.p[i]);
    }
    // rounding may put the entropy just outside 0 .. log(size)
    const share = Math.min(Math.max(entropy / log(c.size), 0), 1);
    const dynamic = coldest + (hottest - coldest) * pow(share, exponent);
    if (dynamic > 0) scaleLogits(c, dynamic);
    else keepBest(c);
  };
}
