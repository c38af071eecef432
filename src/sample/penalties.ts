/** Repeat, frequency and presence penalties, and the logit bias. */
import type { SamplerStep } from './candidates.ts';
import type { History } from './history.ts';

/** Largest float: a negative penalty must not make a logit Infinity. */
export const LOGIT_MAX = 3.4028234663852886e38;

/**
 * Repeat, frequency and presence penalties for the tokens of `history`
 * (llama_sampler_init_penalties). Needs the whole vocabulary, where ids[i] = i.
 */
export function penaltiesStep(history: History, repeat: number, frequency: number, presence: number): SamplerStep {
  return ({ logits }) => {
    for (let i = 0, n = history.length; i < n; i++) {
      if (!history.isNewest(i)) continue;
      const id = history.back(i);
      const logit = logits[id];
      // Dividing a negative logit would make its token more probable.
      const repeated = logit <= 0 ? logit * repeat : logit / repeat;
      logits[id] = Math.min(repeated - history.count(id) * frequency - presence, LOGIT_MAX);
    }
  };
}

/**
 * Adds to the logits of some tokens (llama_sampler_init_logit_bias). Needs the whole vocabulary.
 */
export function logitBiasStep(entries: readonly (readonly [id: number, bias: number])[]): SamplerStep {
  return (c) => {
    for (const [id, bias] of entries) {
      c.logits[id] = Math.min(c.logits[id] + bias, LOGIT_MAX);
      if (bias === -Infinity) c.banned = true;
    }
  };
}
