import { createCandidates, dropBanned, loadCandidates, pick, softmax } from './candidates.ts';
import type { SamplerStep } from './candidates.ts';
import { createHistory } from './history.ts';
import type { History } from './history.ts';
import { resolveSamplerOptions } from './options.ts';
import type { SamplerOptions } from './options.ts';
import { penaltiesStep } from './penalties.ts';
import { createRandom } from './random.ts';
import { greedyStep, temperatureStep } from './temperature.ts';
import { minPStep, topKStep, topPStep } from './truncate.ts';

export { SAMPLER_DEFAULTS } from './options.ts';
export type { SamplerOptions } from './options.ts';

/** Chooses tokens for one sequence. Same options, seed, logits and accepted tokens: same choices, on every platform. */
export interface Sampler {
  /** the seed in use, also where it was drawn by chance */
  readonly seed: number;
  /**
   * @param logits ne [n_vocab], never written
   * @returns a token id, not yet accepted
   * @throws QuantletError ERR_LOGITS where the logits give no distribution (NaN, +Infinity, all -Infinity)
   */
  sample(logits: Float32Array): number;
  /** Takes a token of the sequence, prompt tokens too, into the history that penalties look at. */
  accept(id: number): void;
  /** Forgets the sequence and starts the random numbers from the beginning. */
  reset(): void;
}

/**
 * The chain in llama.cpp's order: penalties, top_k, top_p, min_p, temperature, and a draw from what is left.
 * @throws QuantletError ERR_INVALID_ARGUMENT
 */
export function createSampler(options: SamplerOptions, nVocab: number): Sampler {
  const o = resolveSamplerOptions(options);
  const random = createRandom(o.seed);
  const candidates = createCandidates(nVocab);
  const histories: History[] = [];
  /** steps on the whole vocabulary, ids[i] = i; then those on what is left of it */
  const whole: SamplerStep[] = [];
  const chain: SamplerStep[] = [];

  if (o.repeatLastN !== 0 && (o.repeatPenalty !== 1 || o.frequencyPenalty !== 0 || o.presencePenalty !== 0)) {
    const history = createHistory(o.repeatLastN, nVocab);
    histories.push(history);
    whole.push(penaltiesStep(history, o.repeatPenalty, o.frequencyPenalty, o.presencePenalty));
  }
  if (o.temperature <= 0) {
    // top_k, top_p and min_p never remove the most probable token: greedy needs none of them
    chain.push(greedyStep());
  } else {
    if (o.topK > 0) chain.push(topKStep(o.topK));
    if (o.topP < 1) chain.push(topPStep(o.topP));
    if (o.minP > 0) chain.push(minPStep(o.minP));
    chain.push(temperatureStep(o.temperature));
  }

  return {
    seed: random.seed,
    sample(logits) {
      loadCandidates(candidates, logits);
      for (const step of whole) step(candidates);
      dropBanned(candidates);
      for (const step of chain) step(candidates);
      if (candidates.size === 1) return candidates.ids[0];
      softmax(candidates);
      return candidates.ids[pick(candidates, random.next())];
    },
    accept(id) {
      for (const history of histories) history.push(id);
    },
    reset() {
      for (const history of histories) history.reset();
      random.reset();
    },
  };
}
