/** Temperature: fixed, zero (greedy), dynamic. */
import { argmax, softmax } from './candidates.ts';
import type { Candidates, SamplerStep } from './candidates.ts';
import { log, pow } from './math.ts';

/**
 * Divides the logits by t > 0 (llama_sampler_init_temp). The largest logit is subtracted first, so
 * that a tiny t cannot make several logits infinite.
 */
export function temperatureStep(t: number): SamplerStep {
  return (c) => scaleLogits(c, t);
}

export function scaleLogits({ logits, size, sorted }: Candidates, t: number): void {
  const max = logits[sorted ? 0 : argmax(logits, size)];
  for (let i = 0; i < size; i++) logits[i] = (logits[i] - max) / t;
}

/** Temperature 0: keeps only the most probable candidate, of equals the first. */
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
 * Dynamic temperature: t - range if one token is certain, up to t + range if all are equally
 * probable. The position in between is (entropy / greatest possible entropy)^exponent
 * (llama_sampler_init_temp_ext).
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
    // Rounding may move the entropy slightly outside 0 .. log(size).
    const share = Math.min(Math.max(entropy / log(c.size), 0), 1);
    const dynamic = coldest + (hottest - coldest) * pow(share, exponent);
    if (dynamic > 0) scaleLogits(c, dynamic);
    else keepBest(c);
  };
}
