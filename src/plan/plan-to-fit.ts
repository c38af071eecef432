/**
 * Chooses a model's layout from its file, the options and the machine. Used to load a model, and to
 * tell what loading would take.
 */
import type { Architecture, Wants } from '../arch/architecture.ts';
import { readHParams, type HParams } from '../arch/hparams.ts';
import { findArchitecture } from '../arch/registry.ts';
import { QuantletError } from '../errors.ts';
import { getArchitecture } from '../gguf/metadata.ts';
import type { GGUF } from '../gguf/types.ts';
import { KV_SPLIT } from '../graph/layout.ts';
import type { ResolvedLoadOptions } from '../load-options.ts';
import type { Isa } from '../packed-format.ts';
import { MEMORY_LIMIT } from '../wasm/memory.ts';
import type { Loras } from './lora.ts';
import { layerTooLarge, memorySum, notEnough } from './memory-use.ts';
import type { ModelPlanOptions } from './plan-options.ts';
import type { ModelPlan } from './model-plan.ts';
import { planModel } from './plan-model.ts';

/** Options of loadModel() that decide how large things are. */
export interface LayoutOptions extends Pick<
  ResolvedLoadOptions,
  | 'embeddings'
  | 'weightsMemory'
  | 'neuronWindow'
  | 'contextLength'
  | 'parallel'
  | 'batchSize'
  | 'ctxCheckpoints'
  | 'checkpointMinStep'
  | 'cacheTypeK'
  | 'cacheTypeV'
  | 'cacheRotation'
  | 'actBits'
  | 'iqWeights'
  | 'unifiedMax'
  | 'attnHeads'
> {
  /** Maximum number of logits of one step. */
  readonly maxOutputs: number;
  /** Fewest memories that layers are divided into, if there are enough layers. */
  readonly links: number;
  /** Selects matrices, by name, whose inputs are measured. */
  readonly inputSums?: ((matrix: string) => boolean) | undefined;
  /** Selects weights, by name, whose inputs are kept for the host to read after a step. */
  readonly keptInputs?: ((weight: string) => boolean) | undefined;
  /** Images that the model will see. Default: none. */
  readonly images?: { readonly width: number; readonly wholeTokens: number } | undefined;
  /**
   * LoRA adapters. `part` of their tensors numbers the adapters' files after those of the model.
   */
  readonly loras: Loras;
}

/** Facts of a model that its file and the options decide, whatever the machine. */
export interface ModelLayout {
  readonly architecture: Architecture;
  readonly hparams: HParams;
  readonly wants: Wants;
  readonly parallel: number;
  /**
   * Cells of a slot's recurrent states: for the last tokens, for checkpoints; and the tokens
   * between two checkpoints.
   */
  readonly cells: { readonly working: number; readonly checkpoints: number; readonly step: number };
}

/** A model's layout, and the plan that gives everything an address. */
export interface PlannedModel {
  readonly layout: ModelLayout;
  readonly plan: ModelPlan;
}

/**
 * Machine to plan for: the kernels' instructions, threads that compute, bytes of memory that are
 * free.
 */
export interface Machine {
  readonly isa: Isa;
  readonly threads: number;
  readonly free: number;
}

/** Threads that read weights while others compute. With two, one reads while the other packs. */
export const READERS = 2;
/**
 * Caches grow with the context: a model trained for 128k tokens would take gigabytes that few
 * conversations use.
 */
const DEFAULT_CONTEXT = 4096;
/**
 * Default number of sequences for models that make vectors: texts are short, and one step reads the
 * weights once for all of them.
 */
const ENCODER_PARALLEL = 8;

/** @throws ERR_UNSUPPORTED_ARCH, ERR_GGUF_INVALID, ERR_INVALID_ARGUMENT */
export function layoutOf(gguf: GGUF, options: LayoutOptions): ModelLayout {
  const architecture = findArchitecture(getArchitecture(gguf));
  const hparams = readHParams(gguf);
  const wants = wantsOf(hparams, options.embeddings);
  // Only generation takes tokens back: drafts, which are computed together, and the end of a
  // conversation that was changed.
  const generates = wants === 'logits';
  const parallel = options.parallel ?? (generates ? 1 : ENCODER_PARALLEL);
  const cells = {
    working: generates && options.maxOutputs > parallel ? 2 : 1,
    checkpoints: generates ? options.ctxCheckpoints : 0,
    step: options.checkpointMinStep,
  };
  return { architecture, hparams, wants, parallel, cells };
}

/** Options of a plan. */
function planOptions(
  { hparams, wants, parallel, cells }: ModelLayout,
  options: LayoutOptions,
  chosen: Pick<ModelPlanOptions, 'threads' | 'contextLength' | 'rowsFromFile' | 'fastWeights' | 'links'>,
): ModelPlanOptions {
  const { contextLength } = chosen;
  // In an encoder every token sees the whole text, so a step has to hold a whole sequence.
  // A step also holds an image without causal order, next to the tokens of all other sequences.
  const least = options.images && options.images.wholeTokens > 0 ? options.images.wholeTokens + parallel : 0;
  const batchSize = Math.max(options.batchSize, hparams.causal && !hparams.decoder ? least : contextLength);
  return {
    ...chosen,
    weightsMemory: options.weightsMemory ?? Infinity,
    neuronsFromFile: options.neuronWindow !== undefined,
    readers: READERS,
    wants,
    parallel,
    stateCells: cells.working + cells.checkpoints,
    batchSize,
    maxOutputs: wants === 'logits' ? options.maxOutputs : batchSize,
    cacheTypeK: options.cacheTypeK,
    cacheTypeV: options.cacheTypeV,
    cacheRotation: options.cacheRotation,
    actBits: options.actBits,
    unifiedMax: options.unifiedMax,
    attnHeads: options.attnHeads,
    loras: options.loras,
    imageWidth: options.images?.width ?? 0,
    inputSums: options.inputSums,
    keptInputs: options.keptInputs,
  };
}

/** Context length to try first. */
const wantedContext = ({ nCtxTrain }: HParams, { contextLength }: LayoutOptions): number =>
  contextLength || (contextLength === 0 ? nCtxTrain : Math.min(nCtxTrain, DEFAULT_CONTEXT));

/**
 * Plans a model for the free memory. Weights of IQ1 to IQ3 and TQ1_0 get the faster form if asked,
 * or with 'auto' if the model then takes at most half of the free memory. If the free memory is
 * unknown (browsers), 'auto' keeps them compact, because such a file may have been chosen for its
 * size.
 *
 * @throws ERR_OUT_OF_MEMORY if nothing fits, naming remedies; ERR_MISSING_TENSOR, ERR_TENSOR_SHAPE,
 * ERR_UNSUPPORTED_TYPE
 */
export function planToFit(gguf: GGUF, layout: ModelLayout, options: LayoutOptions, { isa, threads, free }: Machine): ModelPlan {
  const { architecture, hparams } = layout;
  const planWith = (contextLength: number, rowsFromFile: boolean, fastWeights: boolean, links: number): ModelPlan => {
    const wanted = planOptions(layout, options, { threads, contextLength, rowsFromFile, fastWeights, links });
    return planModel(gguf, architecture, hparams, isa, wanted);
  };
  const planFor = (contextLength: number, rowsFromFile: boolean, fast = options.iqWeights === 'fast'): ModelPlan =>
    inMemories((links) => planWith(contextLength, rowsFromFile, fast, links), options.links);
  const fits = (plan: ModelPlan): boolean => each(plan) && memorySum(plan.memory) <= free;
  const wanted = wantedContext(hparams, options);
  // Before the context shrinks, tables that can stay in the file do. A context that the caller
  // chose must fit.
  let model = planFor(wanted, false);
  if (!fits(model)) model = planFor(wanted, true);
  for (let n = wanted; !options.contextLength && !fits(model) && n > 2 * KV_SPLIT;) model = planFor((n = n >> 1), true);
  if (!each(model)) throw layerTooLarge(model);
  if (!fits(model)) throw notEnough(model, free, options.iqWeights === 'fast' && hasFast(gguf));
  if (options.iqWeights !== 'auto' || options.weightsMemory !== undefined || free === Infinity || !hasFast(gguf)) return model;
  const fast = planFor(model.contextLength, false, true);
  return each(fast) && memorySum(fast.memory) <= free / 2 ? fast : model;
}

/** True if some weights can be packed as a faster type. */
const hasFast = (gguf: GGUF): boolean => [...gguf.tensors.values()].some(({ type }) => type.kernels?.fast);

/** True if every memory can be created. */
const each = ({ memories }: ModelPlan): boolean => memories.every((bytes) => bytes <= MEMORY_LIMIT);

/**
 * Plans with as few links as possible, at least `links`. If one layer is too large for a memory,
 * more links do not help, and the plan does not fit.
 */
function inMemories(planWith: (links: number) => ModelPlan, links: number): ModelPlan {
  let model = planWith(links);
  for (let n = links; !each(model) && model.memories.length === n;) {
    n = Math.max(n + 1, Math.ceil(memorySum(model.memory) / MEMORY_LIMIT));
    model = planWith(n);
  }
  return model;
}

/**
 * Kind of result that the model gives: what its file is made for, unless the caller says otherwise.
 */
function wantsOf({ arch, causal, decoder, pooling }: HParams, embeddings: boolean | undefined): Wants {
  if (decoder && embeddings)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `${arch} models have a decoder and make no vectors; for vectors, convert only the encoder (${arch}encoder)`,
    );
  if (embeddings === false && !causal)
    throw new QuantletError('ERR_INVALID_ARGUMENT', `embeddings is false, but ${arch} models make vectors and no text; leave it out`);
  if (embeddings !== undefined) return embeddings ? 'embeddings' : 'logits';
  return pooling === 'rank' ? 'ranks' : !causal || (pooling !== 'none' && !decoder) ? 'embeddings' : 'logits';
}
