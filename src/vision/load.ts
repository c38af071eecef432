/** Loading of a projector next to its model. */
import { readHParams } from '../arch/hparams.ts';
import { deepstackLayers } from '../arch/images.ts';
import { QuantletError, type QuantletErrorCode } from '../errors.ts';
import { getArchitecture } from '../gguf/metadata.ts';
import type { GGUF } from '../gguf/types.ts';
import type { SpeculationLimits } from '../generate/draft/options.ts';
import type { ModelSource } from '../io/model-files.ts';
import type { ResolvedLoadOptions } from '../load-options.ts';
import type { PlannedModel } from '../plan/plan-to-fit.ts';
import type { Platform } from '../platform.ts';
import type { ImageReader, ImageTokens } from '../run/image-tokens.ts';
import type { Tokenizer } from '../tokenize/tokenizer.ts';
import { loadEncoder, openProjector, Vision } from './vision.ts';

/** A projector and its encoder, ready for a model. */
export interface LoadedVision {
  /** Numbers of an image token's embedding. */
  readonly width: number;
  /** Tokens that a step has to hold together. */
  readonly wholeTokens: number;
  /** Reader of images for the planned model. */
  reader(model: PlannedModel, tokenizer: Tokenizer, images: ImageTokens): ImageReader;
  dispose(): Promise<void>;
}

/**
 * Opens the projector of a model, checks that both fit, and loads its weights.
 * @throws ERR_INVALID_ARGUMENT for options that images exclude, and for the projector of another
 * model; ERR_UNSUPPORTED_ARCH; what opening and reading throw
 */
export async function loadVision(
  platform: Platform,
  source: ModelSource,
  gguf: GGUF,
  options: ResolvedLoadOptions,
  speculation: SpeculationLimits,
): Promise<LoadedVision> {
  const { signal, threads, build, turbo } = options;
  mustHoldImages(options, speculation);
  const hparams = readHParams(gguf);
  const width = hparams.nEmbd * (1 + deepstackLayers(gguf, getArchitecture(gguf)));
  const limits = { min: options.imageMinTokens, max: options.imageMaxTokens };
  const projector = await openProjector(platform, source, { width, limits, signal });
  const encoder = await loadEncoder(platform, projector, { threads, build, turbo, signal });
  return {
    width,
    wholeTokens: projector.wholeTokens,
    reader: ({ plan }, tokenizer, images) => new Vision(projector, encoder, tokenizer, images, (plan.inputs.height?.length ?? 0) > 0),
    dispose: () => encoder.dispose(),
  };
}

/** @throws ERR_INVALID_ARGUMENT */
export function checkTokenLimits({ imageMinTokens: least = 0, imageMaxTokens: most = Infinity }: ResolvedLoadOptions): void {
  if (least > most)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `imageMinTokens is ${least}, and imageMaxTokens ${most}; expected the first to be the smaller one`,
    );
}

/** Errors of a projector that is no damaged file, but cannot be used with this model and these options. */
const UNFIT: readonly QuantletErrorCode[] = [
  'ERR_UNSUPPORTED_ARCH',
  'ERR_UNSUPPORTED_TYPE',
  'ERR_INVALID_ARGUMENT',
  'ERR_MISSING_TENSOR',
  'ERR_TENSOR_SHAPE',
];

/**
 * Note on a projector that nobody asked for, and that is left out because it does not fit.
 * @throws other errors
 */
export function unfitNote(error: unknown): string {
  if (!(error instanceof QuantletError) || !UNFIT.includes(error.code)) throw error;
  return `the model sees no images, because the projector in its repository cannot be used: ${error.message}; mmproj: false leaves it out`;
}

/** Refuses options that change sequences in ways that images cannot follow yet. */
function mustHoldImages({ embeddings, lora, links, unifiedMax }: ResolvedLoadOptions, { types }: SpeculationLimits): void {
  const refuse = (what: string): never => {
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `mmproj is set, and so is ${what}, which does not work with images yet; leave out one of them`,
    );
  };
  if (types.length > 0) refuse(`speculation (${types.join(', ')})`);
  if (embeddings) refuse('embeddings');
  if (lora.length > 0) refuse('lora');
  if (links > 1) refuse('links');
  if (unifiedMax !== undefined) refuse('unifiedMax');
}

/**
 * @throws ERR_UNSUPPORTED_ARCH for a model whose graph takes no images; ERR_INVALID_ARGUMENT for one
 * that needs several memories
 */
export function mustTakeImages({ plan, layout }: PlannedModel): void {
  if (!plan.inputs.rows?.length)
    throw new QuantletError(
      'ERR_UNSUPPORTED_ARCH',
      `mmproj is set, and ${layout.hparams.arch} models do not take images here yet; expected a model that a projector was made for`,
    );
  if (plan.memories.length > 1)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      'mmproj is set, and the model needs more than one memory, which does not work with images yet; take a smaller model or context',
    );
}
