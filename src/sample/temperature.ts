import { argmax } from './candidates.ts';
import type { Candidates, SamplerStep } from './candidates.ts';

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
  return (c) => {
    const best = c.sorted ? 0 : argmax(c.logits, c.size);
    c.ids[0] = c.ids[best];
    c.logits[0] = c.logits[best];
    c.size = 1;
  };
}
