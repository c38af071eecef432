/** Loading of a model: files and header, threads, a draft model, the engine. */
import type { HParams } from './arch/hparams.ts';
import { memorySum } from './engine/memory-use.ts';
import { createCpuBackend, type CpuBackend } from './engine/cpu-backend.ts';
import { createModelEngine } from './engine/model-engine.ts';
import { QuantletError } from './errors.ts';
import { withThreshold } from './arch/sparse.ts';
import { withMetadata } from './gguf/metadata.ts';
import type { GGUF } from './gguf/types.ts';
import type { OpenedLoras } from './engine/lora.ts';
import { openModelFiles, type ModelSource } from './io/model-files.ts';
import { resolveLoadOptions, type LoadOptions, type ResolvedLoadOptions } from './load-options.ts';
import type { Platform } from './engine/platform.ts';
import { loadLimits, longestDraft, type SpeculationLimits } from './generate/draft/options.ts';
import { checkVocabularies } from './generate/draft/speculation.ts';
import type { FileSampling } from './sample/file-defaults.ts';
import { createTokenizer, type Tokenizer } from './tokenize/tokenizer.ts';
import { outOfMemory } from './wasm/memory.ts';
import { Model } from './model.ts';

/**
 * Refuses models with an encoder for drafts: a draft model continues a text, and the prompt that an
 * encoder has read is not part of the text.
 * @throws ERR_INVALID_ARGUMENT
 */
function refuseEncoder({ arch, decoder }: HParams, what: string): void {
  if (decoder)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `a ${arch} model cannot ${what}: its encoder reads the prompt, which no other model sees; leave it out (drafts of n-grams work)`,
    );
}

/**
 * Loads the draft model, with a sequence for each sequence of the main model.
 * @throws ERR_INVALID_ARGUMENT for another vocabulary, before the main model's weights are read
 */
async function loadDraftModel(
  platform: Platform,
  tokenizer: Tokenizer,
  options: ResolvedLoadOptions,
  { types }: SpeculationLimits,
): Promise<Model | undefined> {
  const { model: source, threads = options.threads, cacheTypeK, cacheTypeV } = options.speculation?.draft ?? {};
  if (source === undefined || !types.includes('draft-simple')) return undefined;
  const {
    speculation: _,
    lora: __,
    onProgress: ___,
    maxOutputs: ____,
    unifiedMax: _____,
    overrideKv: ______,
    sparseThreshold: _______,
    attnHeads: ________,
    ...same
  } = options;
  const model = await loadOn(platform, source, resolveLoadOptions({ ...same, embeddings: false, threads, cacheTypeK, cacheTypeV }));
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
 * Checks and defaults that few files need; their code is loaded only then, so that pages rarely
 * download it.
 */
async function fileFacts(gguf: GGUF): Promise<FileSampling> {
  const { metadata, tensors } = gguf;
  const type = metadata.get('general.type') ?? 'model';
  if (type !== 'model' || !metadata.has('tokenizer.ggml.model') || tensors.size === 0)
    (await import('./engine/file-kind.ts')).refuseWithoutModel(gguf);
  const isSet = [...metadata.keys()].some((key) => key.startsWith('general.sampling.'));
  return isSet ? (await import('./sample/file-defaults.ts')).fileSampling(gguf) : { defaults: {}, warnings: [] };
}

/** Length of a prompt that surely has more tokens than the widest step with kernels of its own. */
const FEW_CHARACTERS = 256;

/** Approximate number of tokens of the first step. */
function firstTokens(tokenizer: Tokenizer, prompt: string | undefined): number | undefined {
  if (prompt === undefined) return undefined;
  try {
    return tokenizer.encode(prompt.slice(0, FEW_CHARACTERS), { parseSpecial: true }).length;
  } catch {
    return undefined; // the call to generate reports the error
  }
}

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
    return await loadOn(platform, source, options);
  } finally {
    platform.loaded?.();
  }
}

async function loadOn(platform: Platform, source: ModelSource | readonly ModelSource[], options: ResolvedLoadOptions): Promise<Model> {
  const { signal, parallel = 1, maxOutputs } = options;
  const limits = loadLimits(options.speculation);
  signal?.throwIfAborted();
  const begun = performance.now();
  // Start threads while the header is read, on other CPU cores if available. A draft model starts
  // its threads first, because of V8's flags: see Platform.
  let starting: Promise<CpuBackend> | undefined;
  const start = (): void => {
    starting = createCpuBackend(platform, options);
    starting.catch(() => {}); // thrown by createModelEngine()
  };
  const giveUp = async (): Promise<void> =>
    starting?.then(
      (backend) => backend.close(),
      () => {},
    );
  const onOpen = limits.types.includes('draft-simple') ? undefined : start;
  const {
    gguf: file,
    parts: modelParts,
    close,
  } = await openModelFiles(platform, source, signal, onOpen).catch(async (error: unknown) => {
    await giveUp();
    throw error;
  });
  let adapters: OpenedLoras | undefined, draftModel: Model | undefined;
  const closeFiles = (): Promise<unknown> => Promise.all([close(), adapters?.close()]);
  let keepsFiles = false;
  try {
    const gguf = withThreshold(withMetadata(file, options.overrideKv), options.sparseThreshold);
    const sampling = await fileFacts(gguf);
    // Load the code for adapters only if there are any, so that pages rarely download it.
    adapters =
      options.lora.length > 0
        ? await (await import('./engine/lora.ts')).openLoras(platform, options.lora, gguf, modelParts, signal)
        : { adapters: [], loras: new Map(), parts: modelParts, close: async () => {} };
    const { loras, parts } = adapters;
    const tokenizer = createTokenizer(gguf.metadata);
    draftModel = await loadDraftModel(platform, tokenizer, options, limits);
    const mine = starting ?? createCpuBackend(platform, options);
    starting = undefined;
    const conversations = import('./chat/conversations.ts');
    conversations.catch(() => {}); // thrown where it is awaited
    const engine = await createModelEngine(
      platform,
      { gguf, parts },
      {
        ...options,
        meanwhile: () => {
          tokenizer.prepare();
          return firstTokens(tokenizer, options.firstPrompt);
        },
        maxOutputs: Math.max(maxOutputs, parallel * (longestDraft(limits) + 1)),
        loras,
      },
      mine,
    );
    const loadMs = performance.now() - begun;
    try {
      if (limits.types.length > 0 && engine.wants !== 'logits')
        throw new QuantletError(
          'ERR_INVALID_ARGUMENT',
          `speculation is for models that generate text; this ${engine.hparams.arch} model makes ${engine.wants}`,
        );
      if (draftModel) refuseEncoder(engine.hparams, 'have a draft model');
      keepsFiles = engine.streams;
      const { warmUp } = await import('./engine/warm-up.ts');
      const warmupMs = await warmUp(engine, options.warmUp, signal);
      const { unusedTensors } = engine;
      const notes = unusedTensors.length > 0 ? (await import('./engine/file-kind.ts')).unusedNotes(unusedTensors) : [];
      const model = new Model(
        gguf.metadata,
        engine,
        tokenizer,
        { loadMs, warmupMs, memoryBytes: memorySum(engine.memory) + (draftModel?.stats.memoryBytes ?? 0), memory: engine.memory },
        { ...options, adapters: adapters.adapters, sampling, notes },
        await conversations,
        limits,
        draftModel,
        keepsFiles ? closeFiles : async () => {},
      );
      for (const warning of model.warnings) platform.warn?.(warning);
      return model;
    } catch (error) {
      keepsFiles = false;
      await engine.dispose();
      throw error;
    }
  } catch (error) {
    await giveUp();
    await draftModel?.dispose();
    throw outOfMemory('loading the model', error);
  } finally {
    if (!keepsFiles) await closeFiles();
  }
}
