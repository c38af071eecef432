/** The draft model of speculation, which is loaded before the model that it drafts for. */
import type { HParams } from '../arch/hparams.ts';
import { QuantletError } from '../errors.ts';
import type { SpeculationLimits } from '../generate/draft/options.ts';
import { checkVocabularies } from '../generate/draft/speculation.ts';
import type { ModelSource } from '../io/model-files.ts';
import { resolveLoadOptions, type LoadOptions, type ResolvedLoadOptions } from '../load-options.ts';
import type { Model } from '../model.ts';
import { pick } from '../options.ts';
import type { Tokenizer } from '../tokenize/tokenizer.ts';
import type { ModelLayout } from '../plan/plan-to-fit.ts';

/**
 * Options that a draft model shares with its model: where it comes from, how it computes, and how
 * many tokens its sequences have. All others are about the model's own file.
 */
const SHARED = [
  'hub',
  'headers',
  'cache',
  'build',
  'turbo',
  'wasm',
  'createWorker',
  'threads',
  'contextLength',
  'parallel',
  'batchSize',
  'ctxCheckpoints',
  'checkpointMinStep',
  'cacheRotation',
  'actBits',
  'iqWeights',
  'weightsMemory',
  'links',
  'firstPrompt',
  'warmUp',
  'signal',
] as const satisfies readonly (keyof LoadOptions)[];

/** True if tokens are drafted by a model. */
export const hasDraftModel = ({ types }: SpeculationLimits): boolean => types.includes('draft-simple');

/**
 * Loads the draft model, with a sequence for each sequence of the main model.
 * @param load loads a model
 * @param tokenizer of the main model
 * @throws ERR_INVALID_ARGUMENT for another vocabulary, before the main model's weights are read
 */
export async function loadDraftModel(
  load: (source: ModelSource | readonly ModelSource[], options: ResolvedLoadOptions) => Promise<Model>,
  tokenizer: Tokenizer,
  options: ResolvedLoadOptions,
): Promise<Model> {
  const { model: source, threads = options.threads, cacheTypeK, cacheTypeV } = options.speculation!.draft!;
  const shared = pick(options, ...SHARED);
  const model = await load(source!, resolveLoadOptions({ ...shared, embeddings: false, mmproj: false, threads, cacheTypeK, cacheTypeV }));
  try {
    checkVocabularies(tokenizer, model.internals.tokenizer);
    refuseEncoder(model.internals.engine.hparams, 'be a draft model');
    return model;
  } catch (error) {
    await model.dispose();
    throw error;
  }
}

/**
 * Refuses speculation that a model cannot have.
 * @throws ERR_INVALID_ARGUMENT
 */
export function checkSpeculation({ hparams, wants }: ModelLayout, limits: SpeculationLimits): void {
  if (limits.types.length > 0 && wants !== 'logits')
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `speculation is for models that generate text; this ${hparams.arch} model makes ${wants}`,
    );
  if (hasDraftModel(limits)) refuseEncoder(hparams, 'have a draft model');
}

/**
 * Refuses models with an encoder for drafts: a draft model continues a text, and the prompt that an
 * encoder has read is not part of the text.
 * @throws ERR_INVALID_ARGUMENT
 */
function refuseEncoder({ arch, decoder }: HParams, what: string): void {
  if (decoder)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `a ${arch} model cannot ${what}, because its encoder reads the prompt; leave it out (drafts of n-grams work)`,
    );
}
