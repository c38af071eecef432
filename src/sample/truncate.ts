import { argmax, keepWhere, selectTop, softmax, sortCandidates } from './candidates.ts';
import type { SamplerStep } from './candidates.ts';
import { log } from './math.ts';

/** Keeps the k largest logits (llama_sampler_init_top_k). */
export function topKStep(k: number): SamplerStep {
  return (c) => selectTop(c, k);
}

/** Nucleus sampling (Holtzman et al., 2019): the shortest run of most probable tokens that reaches p in sum. */
export function topPStep(p: number): SamplerStep {
  return (c) => {
    sortCandidates(c);
    softmax(c);
    let sum = 0, keep = 0;
    while (keep < c.size) {
      sum += c.p[keep++];
      if (sum >= p) break;
    }
    c.size = keep;
  };
}

/** Keeps tokens at least minP times as probable as the most probable one; a logit comparison, so no softmax is needed. */
export function minPStep(minP: number): SamplerStep {
  const below = log(minP);
  return (c) => {
    const { logits } = c;
    if (c.sorted) {
      const least = logits[0] + below;
      let keep = 1;
      while (keep < c.size && logits[keep] >= least) keep++;
      c.size = keep;
    } else {
      const least = logits[argmax(logits, c.size)] + below;
      keepWhere(c, (i) => logits[i] >= least);
    }
  };
}
