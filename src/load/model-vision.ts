/**
 * The projector of a model while it is loaded. One that the caller did not name, but that is in the
 * model's repository, is left out if it does not fit.
 */
import type { SpeculationLimits } from '../generate/draft/options.ts';
import type { ModelSource } from '../io/model-files.ts';
import type { ResolvedLoadOptions } from '../load-options.ts';
import type { LayoutOptions, PlannedModel } from '../plan/plan-to-fit.ts';
import type { OpenedFile, Platform } from '../platform.ts';
import type { LoadedMedia } from '../media/load.ts';
import type { OpenedModel } from './open-model.ts';

/** The projector that the caller names, or else the one in the model's repository. */
export const projectorOf = ({ mmproj }: ResolvedLoadOptions, { projector }: Pick<OpenedFile, 'projector'>): ModelSource | undefined =>
  mmproj === false ? undefined : (mmproj ?? projector);

/** The encoder of images of a model that is being loaded. */
export interface ModelVision {
  /** Undefined without a projector that fits. */
  readonly vision: LoadedMedia | undefined;
  /** Reason that the projector of the repository was left out. */
  readonly notes: readonly string[];
  /** Plans the model for images, or without them if it cannot take them. */
  planned(plan: (images: LayoutOptions['images']) => PlannedModel): Promise<PlannedModel>;
  dispose(): Promise<void>;
}

/**
 * Loads the encoder, if there is a projector.
 * @throws what loadMedia() throws for a projector that the caller named
 */
export async function openVision(
  platform: Platform,
  opened: OpenedModel,
  options: ResolvedLoadOptions,
  limits: SpeculationLimits,
): Promise<ModelVision> {
  const mmproj = projectorOf(options, opened);
  if (mmproj === undefined)
    return { vision: undefined, notes: [], planned: (plan) => Promise.resolve(plan(undefined)), dispose: async () => {} };
  // Loaded only if asked for, so that pages without images do not download it.
  const { checkTokenLimits, loadMedia, mustTakeImages, unfitNote } = await import('../media/load.ts');
  checkTokenLimits(options);
  const notes: string[] = [];
  let vision: LoadedMedia | undefined;
  /** Leaves the projector out. */
  const refuse = async (error: unknown): Promise<void> => {
    if (options.mmproj !== undefined) throw error;
    notes.push(unfitNote(error));
    await vision?.dispose();
    vision = undefined;
  };
  try {
    vision = await loadMedia(platform, mmproj, opened.gguf, options, limits);
    notes.push(...vision.notes);
  } catch (error) {
    await refuse(error);
  }
  return {
    get vision() {
      return vision;
    },
    notes,
    async planned(plan) {
      const planned = plan(vision);
      if (!vision) return planned;
      try {
        mustTakeImages(planned);
        return planned;
      } catch (error) {
        await refuse(error);
        return plan(undefined);
      }
    },
    dispose: async () => vision?.dispose(),
  };
}
