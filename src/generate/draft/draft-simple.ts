/**
 * llama.cpp's draft-simple: a small second model with the same vocabulary predicts the next tokens.
 */
import type { ModelInternals } from '../../run/model-internals.ts';
import { QuantletError } from '../../errors.ts';
import type { Drafter } from './drafter.ts';
import type { DraftSimpleOptions } from './options.ts';

/**
 * @param model the draft model. Each slot of the main model has one of the same index here, which
 * keeps the part of the sequence that was computed.
 * @param nVocab vocabulary of the main model; a draft model may have some more tokens
 */
export function createDraftSimple(
  model: ModelInternals,
  index: number,
  nVocab: number,
  { nMax, nMin, pMin }: Required<DraftSimpleOptions>,
  signal: AbortSignal | undefined,
): Drafter {
  const { engine, scheduler, slots } = model;
  const slot = slots.all[index];
  /** Most probable next token of the draft model, and its probability. */
  let likely = -1;
  let probability = 0;
  const look = (logits: Float32Array): void => {
    likely = 0;
    for (let i = 1; i < logits.length; i++) if (logits[i] > logits[likely]) likely = i;
    if (pMin === 0) return;
    let sum = 0;
    for (let i = 0; i < logits.length; i++) sum += Math.exp(logits[i] - logits[likely]);
    probability = 1 / sum;
  };

  /**
   * Computes tokens after those in the slot, with logits for the last. Returns false if they exceed
   * the context or the vocabulary.
   */
  const compute = async (ids: readonly number[]): Promise<boolean> => {
    if (slot.tokens.length + ids.length > engine.contextLength || ids.some((id) => id >= engine.hparams.nVocab)) return false;
    await scheduler.submit(slot, ids, ids.length - 1, look, signal);
    return true;
  };
  /**
   * Holds the slot while `work` computes, so that other steps wait only for slots that are
   * drafting. If a worker is lost, only the draft is lost.
   */
  const holding = async (work: () => Promise<void>): Promise<void> => {
    await slots.acquire(signal, () => slot);
    try {
      await work();
    } catch (error) {
      if (!(error instanceof QuantletError) || error.code !== 'ERR_WORKER_LOST') throw error;
    } finally {
      slots.release(slot);
    }
  };

  return {
    free: false,
    begin: (tokens) => holding(async () => void (await compute(tokens.slice(slot.begin(tokens))))),
    async draft(tokens, most, out) {
      const from = out.length;
      const until = from + Math.min(most, nMax);
      await holding(async () => {
        for (let ids = tokens.slice(slot.begin(tokens)); out.length < until && (await compute(ids)); ids = [likely]) {
          if (likely >= nVocab || probability < pMin) break;
          out.push(likely);
        }
      });
      if (out.length - from < nMin) out.length = from;
    },
  };
}
