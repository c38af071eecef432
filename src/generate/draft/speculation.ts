/**
 * Speculative decoding. Drafters propose the next tokens, the model computes them in one step, and
 * the sampler draws position by position, as it would without drafts. A token's logits have the
 * same bits alone and in a step of many tokens, so ids, text and log probabilities are the same.
 */
import type { ModelInternals } from '../../run/model-internals.ts';
import type { Scheduler } from '../../run/scheduler.ts';
import type { Slots } from '../../run/slots.ts';
import { QuantletError } from '../../errors.ts';
import type { Tokenizer } from '../../tokenize/tokenizer.ts';
import { createDraftSimple } from './draft-simple.ts';
import type { Drafter, Drafting, Speculation } from './drafter.ts';
import { createLatch, type Latch } from './latch.ts';
import { createNgramPool } from './ngram-mod.ts';
import { createNgramSimple } from './ngram-simple.ts';
import { generateLimits, type SpeculationLimits, type SpeculationType } from './options.ts';

/** The draft model, if draft-simple is among the types. */
export interface DraftModel {
  readonly internals: ModelInternals;
  dispose(): Promise<void>;
}

/** @param nVocab tokens of the main model */
export function createSpeculation(
  loaded: SpeculationLimits,
  { costs }: Scheduler,
  slots: Slots,
  nVocab: number,
  draftModel: DraftModel | undefined,
): Speculation {
  const pool = createNgramPool(loaded.ngramMod.nMatch);
  const beside = (): number => Math.max(slots.active - 1, 0);
  return {
    start(options, slot, signal) {
      const limits = generateLimits(loaded, options);
      const create: Record<SpeculationType, () => Drafter> = {
        'ngram-simple': () => createNgramSimple(limits.ngramSimple),
        'ngram-mod': () => pool.drafter(limits.ngramMod),
        'draft-simple': () => createDraftSimple(draftModel!.internals, slot.index, nVocab, limits.draft, signal),
      };
      return limits.types.length === 0
        ? undefined
        : createDrafting(limits.types.map((type) => ({ drafter: create[type](), latch: createLatch(costs, beside), guess: -1 })));
    },
    rest: () => draftModel?.internals.engine.executor.rest(),
    dispose: async () => draftModel?.dispose(),
  };
}

/** A drafter, its latch, and the first token of its draft if the draft was not used (else -1). */
interface Source {
  readonly drafter: Drafter;
  readonly latch: Latch;
  guess: number;
}

function createDrafting(sources: readonly Source[]): Drafting {
  /**
   * Last draft: its tokens, its source (undefined: no draft), the time it took, and the length of
   * the sequence before it.
   */
  const last: number[] = [];
  let used: Source | undefined;
  let ms = 0;
  let before = 0;
  let begun = false;

  const learn = (tokens: readonly number[]): void => {
    if (before === 0) return;
    let right = 0;
    while (right < last.length && tokens[before + right] === last[right]) right++;
    for (const source of sources) {
      if (source === used) source.latch.verified(last.length, right, ms);
      else source.latch.plain(source.guess < 0 ? undefined : source.guess === tokens[before]);
    }
  };
  const use = (source: Source, out: readonly number[], from: number, time: number): void => {
    used = source;
    ms = time;
    for (let i = from; i < out.length; i++) last.push(out[i]);
  };
  const ask = async (source: Source, tokens: readonly number[], most: number, out: number[]): Promise<void> => {
    const from = out.length;
    const start = performance.now();
    await source.drafter.draft(tokens, most, out);
    use(source, out, from, performance.now() - start);
  };

  return {
    begin(tokens) {
      begun = true;
      return sources.find(({ drafter }) => drafter.begin)?.drafter.begin!(tokens);
    },
    propose(tokens, most, out) {
      learn(tokens);
      const from = out.length;
      used = undefined;
      last.length = 0;
      before = tokens.length;
      for (const source of sources) {
        source.guess = -1;
        if (used) continue;
        if (!source.drafter.free) {
          const n = begun ? source.latch.plan(most) : 0;
          if (n > 0) return ask(source, tokens, n, out);
          continue;
        }
        source.drafter.draft(tokens, Math.max(most, 1), out);
        if (out.length === from) continue;
        source.guess = out[from];
        out.length = from + source.latch.plan(Math.min(out.length - from, most));
        if (out.length > from) use(source, out, from, 0);
      }
      return undefined;
    },
  };
}

/**
 * As in llama.cpp, the first tokens may differ (names of unknown, beginning, end and padding vary),
 * and so may the padding at the end of the vocabulary.
 */
const FIRST_COMPARED = 5;
const MOST_PADDING = 128;

/** @throws ERR_INVALID_ARGUMENT if the draft model's tokens differ from the main model's */
export function checkVocabularies(model: Tokenizer, draft: Tokenizer): void {
  const refuse = (what: string): never => {
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `the draft model has a different vocabulary: ${what}; expected a small model of the same family`,
    );
  };
  if (draft.model !== model.model) refuse(`its tokenizer is ${draft.model}, the model's ${model.model}`);
  if (Math.abs(draft.nVocab - model.nVocab) > MOST_PADDING) refuse(`it has ${draft.nVocab} tokens, the model ${model.nVocab}`);
  if (draft.addBos !== model.addBos || (model.addBos && draft.special.bos !== model.special.bos))
    refuse('its texts begin with a different token');
  for (let id = FIRST_COMPARED; id < Math.min(model.nVocab, draft.nVocab); id++) {
    if (draft.tokenText(id) !== model.tokenText(id))
      refuse(`its token ${id} is ${JSON.stringify(draft.tokenText(id))}, the model's ${JSON.stringify(model.tokenText(id))}`);
  }
}
