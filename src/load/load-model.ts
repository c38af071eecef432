/**
 * Loading of a model: open, plan, place, then read and prepare side by side. The plan is whole
 * before the first weight is read.
 */
import { createCpuBackend, type CpuBackend } from '../threads/cpu-backend.ts';
import { checkSpeculation, hasDraftModel, loadDraftModel } from './draft-model.ts';
import { loadWeights } from './load-weights.ts';
import { memorySum } from '../plan/memory-use.ts';
import { createModelEngine, type ModelEngine } from '../run/model-engine.ts';
import { mustBeInFiles } from '../plan/neurons.ts';
import { openVision, projectorOf } from './model-vision.ts';
import { openModel, type OpenedModel } from './open-model.ts';
import { placeModel } from './place-model.ts';
import { layoutOf, planToFit, type LayoutOptions, type Machine, type PlannedModel } from '../plan/plan-to-fit.ts';
import type { Platform } from '../platform.ts';
import { loadLimits, longestDraft, type SpeculationLimits } from '../generate/draft/options.ts';
import type { ModelSource } from '../io/model-files.ts';
import { resolveLoadOptions, type LoadOptions, type ResolvedLoadOptions } from '../load-options.ts';
import { Model } from '../model.ts';
import type { ImageTokens } from '../run/image-tokens.ts';
import { isaOf } from '../wasm/load.ts';
import { outOfMemory } from '../wasm/memory.ts';

/**
 * Makes the loadModel of an entry.
 * @param platformFor receives checked options
 */
export async function loadModelOn(
  platformFor: (options: ResolvedLoadOptions) => Platform | Promise<Platform>,
  source: ModelSource | readonly ModelSource[],
  given?: LoadOptions,
): Promise<Model> {
  const options = resolveLoadOptions(given);
  const platform = await platformFor(options);
  try {
    return await load(platform, source, options);
  } finally {
    platform.loaded?.();
  }
}

/** Threads and kernels, which start while the model's files are read. */
class StartingBackend {
  private readonly platform: Platform;
  private readonly options: ResolvedLoadOptions;
  private starting: Promise<CpuBackend> | undefined;

  constructor(platform: Platform, options: ResolvedLoadOptions) {
    this.platform = platform;
    this.options = options;
  }

  /** Starts them when first called. */
  start(): Promise<CpuBackend> {
    this.starting ??= createCpuBackend(this.platform, this.options);
    this.starting.catch(() => {}); // thrown where it is awaited
    return this.starting;
  }

  async close(): Promise<void> {
    const backend = await this.starting?.catch(() => undefined);
    await backend?.close();
  }
}

async function load(platform: Platform, source: ModelSource | readonly ModelSource[], options: ResolvedLoadOptions): Promise<Model> {
  const { signal, neuronWindow } = options;
  const limits = loadLimits(options.speculation);
  signal?.throwIfAborted();
  const begun = performance.now();
  const starting = new StartingBackend(platform, options);
  /** Ends what was started, last first, if loading fails. */
  const undo: (() => Promise<unknown>)[] = [() => starting.close()];
  try {
    // Threads start while the header is read, but threads of a draft model or an encoder of images
    // start before those of the model, because of V8's flags (Platform.module).
    const drafts = hasDraftModel(limits);
    const opened = await openModel(
      platform,
      source,
      options,
      (file) => void (drafts || projectorOf(options, file) !== undefined || starting.start()),
    );
    undo.unshift(() => opened.close()); // after everything that reads
    const conversations = import('../chat/conversations.ts');
    conversations.catch(() => {}); // thrown where it is awaited
    const draftModel = drafts ? await loadDraftModel(load.bind(undefined, platform), opened.tokenizer(), options) : undefined;
    if (draftModel) undo.push(() => draftModel.dispose());

    const seeing = await openVision(platform, opened, options, limits);
    undo.push(() => seeing.dispose());

    const backend = await starting.start();
    signal?.throwIfAborted();
    const planned = await seeing.planned((images) => plan(opened, options, limits, machineOf(platform, backend), images));
    const placed = await placeModel(backend, planned);
    const { fingerprint, tokenizer } = await loadWeights(placed, opened, options, platform.defaultThreads());

    const engine = await createModelEngine(placed, { parts: opened.parts, fingerprint, neuronWindow });
    undo.push(() => engine.dispose());
    const loadMs = performance.now() - begun;
    const { warmUp } = await import('./warm-up.ts');
    const warmupMs = await warmUp(engine, options.warmUp, signal);
    const memoryBytes = memorySum(engine.memory) + (draftModel?.stats.memoryBytes ?? 0);
    const stats = { loadMs, warmupMs, memoryBytes, memory: engine.memory };
    const facts = {
      ...options,
      adapters: opened.adapters,
      sampling: opened.sampling,
      notes: [...seeing.notes, ...(await notesOn(engine))],
    };
    const closeFiles = engine.streams ? opened.close : async () => {};
    const { vision } = seeing;
    const images = vision && {
      width: vision.width,
      modalities: vision.modalities,
      reader: (known: ImageTokens) => vision.reader(placed, tokenizer, known),
    };
    const model = new Model(
      opened.gguf.metadata,
      engine,
      tokenizer,
      stats,
      facts,
      await conversations,
      limits,
      draftModel,
      closeFiles,
      images,
    );
    if (!engine.streams) await opened.close();
    for (const warning of model.warnings) platform.warn?.(warning);
    return model;
  } catch (error) {
    for (const end of undo.reverse()) await end();
    throw outOfMemory('loading the model', error);
  }
}

const machineOf = ({ freeMemory }: Platform, { build, threads }: CpuBackend): Machine => ({
  isa: isaOf(build),
  threads,
  free: freeMemory?.() ?? Infinity,
});

/**
 * Plans a model for the machine. Whatever cannot run is refused here, before a weight is read.
 * @throws what layoutOf() and planToFit() throw; ERR_INVALID_ARGUMENT; ERR_SOURCE
 */
function plan(
  { gguf, parts, loras }: OpenedModel,
  options: ResolvedLoadOptions,
  limits: SpeculationLimits,
  machine: Machine,
  images: LayoutOptions['images'],
): PlannedModel {
  const maxOutputs = Math.max(options.maxOutputs, (options.parallel ?? 1) * (longestDraft(limits) + 1));
  const wanted = { ...options, loras, maxOutputs, images };
  const layout = layoutOf(gguf, wanted);
  checkSpeculation(layout, limits);
  if (options.neuronWindow !== undefined) mustBeInFiles(parts);
  return { layout, plan: planToFit(gguf, layout, wanted, machine) };
}

/** Notes about tensors that nothing reads; few files have any. */
const notesOn = async ({ unusedTensors }: ModelEngine): Promise<readonly string[]> =>
  unusedTensors.length > 0 ? (await import('../plan/file-kind.ts')).unusedNotes(unusedTensors) : [];
