/** Loading of a projector next to its model. */
import { readHParams } from '../arch/hparams.ts';
import type { AudioProjector, Hearing } from '../audio/hearing.ts';
import { deepstackLayers } from '../arch/images.ts';
import type { Encoder } from '../encoder/encoder.ts';
import { encodersOf } from '../encoder/projector-file.ts';
import { QuantletError, type QuantletErrorCode } from '../errors.ts';
import { getArchitecture } from '../gguf/metadata.ts';
import type { GGUF } from '../gguf/types.ts';
import type { SpeculationLimits } from '../generate/draft/options.ts';
import { openModelFiles, type ModelFiles, type ModelSource } from '../io/model-files.ts';
import type { ResolvedLoadOptions } from '../load-options.ts';
import type { PlannedModel } from '../plan/plan-to-fit.ts';
import type { Platform } from '../platform.ts';
import type { ImageReader, ImageTokens, Modalities } from '../run/image-tokens.ts';
import type { Tokenizer } from '../tokenize/tokenizer.ts';
import { ImageEncoder } from '../vision/encoder.ts';
import { Vision, visionProjector, type Projector } from '../vision/vision.ts';
import { MediaReader } from './reader.ts';

/** A projector and its encoders, ready for a model. */
export interface LoadedMedia {
  readonly modalities: Modalities;
  /** Encoders of the file that are left out, and why. */
  readonly notes: readonly string[];
  /** Numbers of an image token's embedding. */
  readonly width: number;
  /** Tokens that a step has to hold together. */
  readonly wholeTokens: number;
  /** Reader of images and sounds for the planned model. */
  reader(model: PlannedModel, tokenizer: Tokenizer, images: ImageTokens): ImageReader;
  dispose(): Promise<void>;
}

/** The encoders of a file, ready to encode. */
interface Encoders {
  readonly seeing: { readonly projector: Projector; readonly encoder: ImageEncoder } | undefined;
  readonly hearing: { readonly projector: AudioProjector; readonly encoder: Encoder; readonly Hearing: typeof Hearing } | undefined;
}

/**
 * Opens the projector of a model, checks that both fit, and loads its weights.
 * @throws ERR_INVALID_ARGUMENT for options that images exclude, and for the projector of another
 * model; ERR_UNSUPPORTED_ARCH; what opening and reading throw
 */
export async function loadMedia(
  platform: Platform,
  source: ModelSource,
  gguf: GGUF,
  options: ResolvedLoadOptions,
  speculation: SpeculationLimits,
): Promise<LoadedMedia> {
  mustHoldImages(options, speculation);
  const { nEmbd } = readHParams(gguf);
  const width = nEmbd * (1 + deepstackLayers(gguf, getArchitecture(gguf)));
  const notes: string[] = [];
  const files = await openModelFiles(platform, source, options.signal);
  let encoders: Encoders;
  try {
    encoders = await loadEncoders(platform, files, { width, nEmbd, options, notes });
  } finally {
    await files.close();
  }
  const { seeing, hearing } = encoders;
  return {
    modalities: { vision: seeing !== undefined, audio: hearing !== undefined },
    notes,
    width,
    wholeTokens: seeing?.projector.wholeTokens ?? 0,
    reader({ plan }, tokenizer, images) {
      const hasRows = (plan.inputs.height?.length ?? 0) > 0;
      return new MediaReader(
        seeing && new Vision(seeing.projector, seeing.encoder, tokenizer, images, hasRows),
        hearing && new hearing.Hearing(hearing.projector, hearing.encoder, { tokenizer, images, width }),
      );
    },
    dispose: async () => void (await Promise.all([seeing?.encoder.dispose(), hearing?.encoder.dispose()])),
  };
}

/** Reads the headers of the file's projectors, checks their widths, and starts their encoders. */
async function loadEncoders(
  platform: Platform,
  files: ModelFiles,
  given: { readonly width: number; readonly nEmbd: number; readonly options: ResolvedLoadOptions; readonly notes: string[] },
): Promise<Encoders> {
  const { width, nEmbd, options, notes } = given;
  const { signal, threads, build, turbo, imageMinTokens: min, imageMaxTokens: max } = options;
  const { gguf } = files;
  const has = encodersOf(gguf);
  /** A projector of the file, or a note if it does not run and the file has another one. */
  const ifItRuns = <T>(what: string, read: () => T): T | undefined => {
    try {
      return read();
    } catch (error) {
      if (!(has.images && has.sounds && error instanceof QuantletError && error.code === 'ERR_UNSUPPORTED_ARCH')) throw error;
      notes.push(`the model takes no ${what}: ${error.message}`);
      return undefined;
    }
  };
  // Pages without sounds do not download their encoders.
  const audio = has.sounds ? await import('../audio/hearing.ts') : undefined;
  const vision = has.images ? ifItRuns('images', () => visionProjector(gguf, { min, max })) : undefined;
  const sound = audio && ifItRuns('sounds', () => audio.audioProjector(gguf));
  mustFit(vision?.width ?? width, width);
  mustFit(sound?.width ?? nEmbd, nEmbd);
  const start = { threads, build, turbo, signal };
  const seeing = vision && { projector: vision, encoder: await ImageEncoder.load(platform, files, vision, start) };
  try {
    const hearing = audio &&
      sound && { projector: sound, encoder: await audio.loadAudioEncoder(platform, files, sound, start), Hearing: audio.Hearing };
    return { seeing, hearing };
  } catch (error) {
    await seeing?.encoder.dispose();
    throw error;
  }
}

/** @throws ERR_INVALID_ARGUMENT */
function mustFit(found: number, width: number): void {
  if (found !== width)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `mmproj makes embeddings of ${found} numbers, and the model takes ${width}; expected the projector that was made for this model`,
    );
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
  return `the model takes neither images nor sounds, because the projector in its repository cannot be used: ${error.message}; mmproj: false leaves it out`;
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
