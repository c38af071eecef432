/** Makes a model runnable: plans its graph, makes the memory once, starts the threads and streams the weights into their places. */
import type { Wants } from '../arch/architecture.ts';
import { readHParams, type HParams } from '../arch/hparams.ts';
import { findArchitecture } from '../arch/registry.ts';
import { ropeTable } from '../arch/rope-table.ts';
import { QuantletError } from '../errors.ts';
import { getArchitecture } from '../gguf/metadata.ts';
import type { OpenedGGUF } from '../gguf/split.ts';
import { KV_SPLIT } from '../graph/layout.ts';
import { RUN_WORDS } from '../graph/recurrent.ts';
import type { InputSumTensors } from '../graph/input-sums.ts';
import type { Tensor } from '../graph/tensor.ts';
import { createCpuBackend } from './cpu-backend.ts';
import type { Loras } from './lora.ts';
import { bytesInStep } from './links.ts';
import { memorySum, notEnough, type MemoryParts } from './memory-use.ts';
import {
  inMemories,
  planInMemories,
  planModel,
  type KvCache,
  type ModelPass,
  type ModelPlan,
  type Placed,
  type RopeTable,
  type Streams,
} from './model-plan.ts';
import type { Platform } from './platform.ts';
import { fillingOf, readWeights } from './read-weights.ts';
import { createWeightStream, type Streamed } from './stream-weights.ts';
import type { Batch } from './scheduler.ts';
import { createStateCells, type StateCells } from './state-cells.ts';
import type { Bytes } from '../io/source.ts';
import type { ResolvedLoadOptions } from '../load-options.ts';
import { yieldToEventLoop, type Executor } from '../threads/executor.ts';
import type { Build } from '../wasm/load.ts';

/** Of what loadModel was told, and what the files said. */
export interface ModelEngineOptions extends Pick<
  ResolvedLoadOptions,
  | 'embeddings'
  | 'threads'
  | 'build'
  | 'turbo'
  | 'weightsMemory'
  | 'contextLength'
  | 'parallel'
  | 'batchSize'
  | 'ctxCheckpoints'
  | 'checkpointMinStep'
  | 'cacheTypeK'
  | 'cacheTypeV'
  | 'unifiedMax'
  | 'signal'
  | 'onProgress'
> {
  /** Tokens of the vocabulary, as the tokenizer counted them. */
  readonly nVocab: number;
  /** What this thread can do while others read the weights. */
  readonly meanwhile: () => void;
  /** Logits of one step at most. */
  readonly maxOutputs: number;
  /** Memories that layers are divided into at least, where there are so many layers. */
  readonly links: number;
  /** Which matrices' inputs are measured, by their names. */
  readonly inputSums: ((matrix: string) => boolean) | undefined;
  /** LoRA adapters. `part` of their tensors counts the adapters' files after those of the model. */
  readonly loras: Loras;
}

/** Threads that read weights while the others compute: one reads while the other packs what it has read. */
const READERS = 2;
/** Caches grow with the context: a model trained for 128k tokens would take gigabytes that few conversations use. */
export const DEFAULT_CONTEXT = 4096;
/** Sequences at once for models that make vectors, by default: texts are short, and one step reads all weights for however many of them. */
const ENCODER_PARALLEL = 8;
/** Steps of at most this many tokens are bound by reading the weights (or, in small models, by barriers): generationThreads compute them. */
const FEW_TOKENS = 4;

export interface ModelEngine {
  readonly executor: Executor;
  readonly build: Build;
  /** Whether the kernels have 256-bit code. */
  readonly turbo: boolean;
  readonly hparams: HParams;
  readonly contextLength: number;
  /** Cells of a slot: the context rounded up to whole KV splits. */
  readonly slotCells: number;
  readonly batchSize: number;
  readonly maxOutputs: number;
  readonly memory: MemoryParts;
  readonly parallel: number;
  readonly caches: readonly KvCache[];
  /** States of recurrent layers, f32 [..., cells of all slots]. */
  readonly states: readonly Tensor[];
  /** The cells of a slot in them; none where there are no such layers. */
  statesOf(index: number): StateCells | undefined;
  /** For each matrix whose inputs are measured: where every step adds the squares of its inputs, column by column. */
  readonly inputSums: ReadonlyMap<string, InputSumTensors>;
  /** Distinguishes these weights from others of the same shapes. */
  readonly fingerprint: string;
  /** What a step gives for each of its outputs. */
  readonly wants: Wants;
  /** Whether weights are read for every step: the files have to stay open. */
  readonly streams: boolean;
  /** What a step computes, pass by pass: for benches that time single records. */
  readonly passes: readonly Placed[];
  /** Threads for steps of at most FEW_TOKENS; warmUp() sets it to what is fastest for this model on this machine. */
  generationThreads: number;
  step(batch: Batch, signal?: AbortSignal): Promise<(i: number) => Float32Array>;
  /** Frees memory and threads. Afterwards nothing reads the files. */
  dispose(): Promise<void>;
}

export async function createModelEngine(
  platform: Platform,
  { gguf, parts }: OpenedGGUF,
  options: ModelEngineOptions,
): Promise<ModelEngine> {
  const architecture = findArchitecture(getArchitecture(gguf));
  const hparams = readHParams(gguf);
  if (hparams.nVocab !== options.nVocab)
    throw new QuantletError(
      'ERR_GGUF_INVALID',
      `the metadata says that the vocabulary has ${hparams.nVocab} tokens, but it lists ${options.nVocab}: the file is damaged`,
    );
  const wants: Wants = wantsOf(hparams, options.embeddings);
  const parallel = options.parallel ?? (wants === 'logits' ? 1 : ENCODER_PARALLEL);
  const backend = await createCpuBackend(platform, options);
  const { build, threads } = backend;
  const wanted = options.contextLength || (options.contextLength === 0 ? hparams.nCtxTrain : Math.min(hparams.nCtxTrain, DEFAULT_CONTEXT));
  // In an encoder every token sees the whole text, so a step has to hold a whole sequence.
  const batchFor = (contextLength: number): number => (hparams.causal ? options.batchSize : Math.max(options.batchSize, contextLength));
  // Only what generates takes tokens back: drafts, which are computed together, and a conversation's end that was changed.
  const generates = wants === 'logits';
  const cells = {
    working: generates && options.maxOutputs > parallel ? 2 : 1,
    checkpoints: generates ? options.ctxCheckpoints : 0,
    step: options.checkpointMinStep,
  };
  const stateCells = cells.working + cells.checkpoints;
  const planWith = (contextLength: number, links: number): ModelPlan => {
    const batchSize = batchFor(contextLength);
    return planModel(gguf, architecture, hparams, backend.facts, {
      links,
      weightsMemory: options.weightsMemory ?? Infinity,
      readers: READERS,
      wants,
      parallel,
      stateCells,
      contextLength,
      batchSize,
      maxOutputs: wants === 'logits' ? options.maxOutputs : batchSize,
      threads,
      cacheTypeK: options.cacheTypeK,
      cacheTypeV: options.cacheTypeV,
      unifiedMax: options.unifiedMax,
      loras: options.loras,
      inputSums: options.inputSums,
    });
  };
  const free = platform.freeMemory?.() ?? Infinity;
  const fits = (plan: ModelPlan): boolean => inMemories(plan) && memorySum(plan.memory) <= free;
  const planFor = (contextLength: number): ModelPlan => planInMemories((links) => planWith(contextLength, links), options.links);
  let model: ModelPlan;
  let executor: Executor;
  try {
    options.signal?.throwIfAborted();
    // A context nobody asked for shrinks to what fits; one that was asked for must fit.
    model = planFor(wanted);
    for (let n = wanted; !options.contextLength && !fits(model) && n > 2 * KV_SPLIT;) model = planFor((n = n >> 1));
    if (inMemories(model) && !fits(model)) throw notEnough(model.memory, free, model.contextLength);
    executor = await backend.start(model.memories, model.resident.length < model.weights.length ? READERS : 0);
  } catch (error) {
    await backend.close();
    throw error;
  }
  const { turbo, facts } = await backend.compiled();
  const reading = readWeights(executor, facts, parts, model, options);
  reading.catch(() => {}); // awaited below
  let fingerprint: string;
  try {
    // What this thread has to do takes about as long as the other threads read: they are told to first.
    if (executor.load) await yieldToEventLoop();
    for (const { plan, placed } of model.passes) {
      await executor.write(placed.at, placed.encode());
      for (const { data, values } of plan.constants) await executor.write(data, values!());
    }
    for (const table of model.tables) {
      const bytes = new Uint8Array((await angles(table, parts)).buffer);
      for (const { data } of table.tensors) await executor.write(data, bytes);
    }
    options.meanwhile();
    fingerprint = await reading;
  } catch (error) {
    await executor.dispose();
    await Promise.allSettled([reading]); // reads the files until then
    throw error;
  }
  const { passes } = model;
  const streamed = new Map<Streams, Streamed>();
  for (const { streams } of passes)
    if (streams && !streamed.has(streams))
      streamed.set(streams, { window: streams.window, filling: fillingOf(executor, facts, parts, streams.weights, model.packings) });
  const stream = createWeightStream([...streamed.values()]);
  const streamOf = ({ streams }: ModelPass): Streamed | undefined => streams && streamed.get(streams);
  const engine: ModelEngine = {
    executor,
    streams: streamed.size > 0,
    build,
    turbo,
    hparams,
    contextLength: model.contextLength,
    slotCells: model.slotCells,
    batchSize: model.batchSize,
    maxOutputs: model.maxOutputs,
    memory: model.memory,
    parallel,
    caches: model.caches,
    states: model.states,
    statesOf: (index) => (model.states.length > 0 ? createStateCells({ ...cells, first: index * stateCells }) : undefined),
    inputSums: model.inputSums,
    fingerprint,
    wants,
    passes: model.passes,
    generationThreads: threads,
    step,
    async dispose() {
      await executor.dispose();
      await stream.close();
    },
  };
  return engine;

  async function step(batch: Batch, signal?: AbortSignal): Promise<(i: number) => Float32Array> {
    const { inputs, result } = model;
    const { nTokens, nOutputs } = batch;
    for (const name of ['ids', 'pos', 'cells', 'first', 'visible', 'outputs'] as const) {
      const values = batch[name];
      const bytes = new Uint8Array(values.buffer, values.byteOffset, 4 * (name === 'outputs' ? nOutputs : nTokens));
      for (const { data } of inputs[name]) await executor.write(data, bytes);
    }
    const runs = new Uint8Array(batch.runs.buffer, batch.runs.byteOffset, 4 * RUN_WORDS * batch.nRuns);
    for (const { data } of inputs.runs) await executor.write(data, runs);
    const threads = nTokens <= FEW_TOKENS ? engine.generationThreads : executor.threads;
    const width = result.ne[0];
    const reads = { at: result.data, length: 4 * width * nOutputs };
    const step = passes.map(({ plan, placed, crossings }) => ({
      plan: placed.at,
      from: 0,
      to: plan.records.length,
      carries: crossings.map(({ from, to }) => ({ from: from.data, to: to.data, length: bytesInStep(from, nTokens, nOutputs) })),
    }));
    // Passes go together up to the next one whose weights have to be waited for.
    for (let from = 0; from < step.length;) {
      const waitsFor = streamOf(passes[from]);
      const more = passes.slice(from + 1).findIndex(streamOf);
      const to = waitsFor ? from + 1 : more < 0 ? step.length : from + 1 + more;
      if (waitsFor) await stream.ready(waitsFor, signal);
      await executor.run({ passes: step.slice(from, to), nTokens, nOutputs, threads, ...(to === step.length && { reads }) }, signal);
      if (waitsFor && !passes.slice(to).some((pass) => streamOf(pass) === waitsFor)) stream.done(waitsFor);
      from = to;
    }
    const rows = await executor.read(reads.at, reads.length);
    return (i) => new Float32Array(rows.buffer, rows.byteOffset + 4 * width * i, width);
  }
}

/** What the model is to give: what its file is made for, unless the caller says otherwise. */
export function wantsOf({ arch, causal, pooling }: HParams, embeddings: boolean | undefined): Wants {
  if (embeddings === false && !causal)
    throw new QuantletError('ERR_INVALID_ARGUMENT', `embeddings is false, but ${arch} models make vectors and no text; leave it out`);
  if (embeddings !== undefined) return embeddings ? 'embeddings' : 'logits';
  return pooling === 'rank' ? 'ranks' : !causal || pooling !== 'none' ? 'embeddings' : 'logits';
}

/** The angles of a rope table, with the file's frequency factors where it has some. */
async function angles({ params, factors, tensors: [tensor] }: RopeTable, parts: readonly Bytes[]): Promise<Float32Array> {
  if (!factors) return ropeTable(params, tensor.ne[1]);
  const bytes = await parts[factors.part].read(factors.offset, factors.offset + factors.byteLength);
  return ropeTable({ ...params, factors: new Float32Array(bytes.slice().buffer) }, tensor.ne[1]);
}
