/**
 * Makes a model runnable: plans its graph, creates the memories, starts the threads and reads the
 * weights.
 */
import type { KvCache, Wants } from '../arch/architecture.ts';
import type { HParams } from '../arch/hparams.ts';
import { ropeTable } from '../arch/rope-table.ts';
import type { OpenedGGUF } from '../gguf/split.ts';
import type { InputSumTensors } from '../graph/input-sums.ts';
import type { Tensor } from '../graph/tensor.ts';
import { writeInputs } from './batch-inputs.ts';
import type { Claiming } from './early-weights.ts';
import { createCpuBackend, type CompiledKernels, type CpuBackend } from './cpu-backend.ts';
import { bytesInStep } from './links.ts';
import type { MemoryParts } from './memory-use.ts';
import type { RopeTable } from './sequence-leaves.ts';
import type { ModelPass, ModelPlan, Streams } from './model-plan.ts';
import { layoutOf, planToFit, READERS, type LayoutOptions, type ModelLayout } from './plan-to-fit.ts';
import type { Platform } from './platform.ts';
import { fillingOf, readByThreads, readWeights, type Reading } from './read-weights.ts';
import { createWeightStream, type Streamed } from './stream-weights.ts';
import { readTokenRows } from './token-rows.ts';
import type { Batch } from './batch.ts';
import type { NeuronReads } from './neuron-window.ts';
import { mustBeInFiles } from './neurons.ts';
import { createStateCells, type StateCells } from './state-cells.ts';
import { tensorFloats } from '../io/model-files.ts';
import type { Bytes } from '../io/source.ts';
import type { ResolvedLoadOptions } from '../load-options.ts';
import { yieldToEventLoop, type Executor } from '../threads/executor.ts';
import { isaOf, type Build } from '../wasm/load.ts';
import { reach } from '../wasm/memory.ts';

/** Options of loadModel() that the engine needs. */
export interface ModelEngineOptions
  extends LayoutOptions, Pick<ResolvedLoadOptions, 'threads' | 'build' | 'turbo' | 'signal' | 'onProgress'> {
  /**
   * Runs on this thread while others read the weights. Returns how many tokens the first step will
   * have, if known.
   */
  readonly meanwhile: () => number | undefined;
}

/**
 * Steps of at most this many tokens are bound by reading the weights, or in small models by
 * barriers. generationThreads compute them.
 */
const FEW_TOKENS = 4;

export interface ModelEngine {
  readonly executor: Executor;
  readonly build: Build;
  /** True if the kernels have 256-bit code. */
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
  /** State cells of a slot; undefined if there are no recurrent layers. */
  statesOf(index: number): StateCells | undefined;
  /**
   * Sums for each matrix whose inputs are measured: every step adds the squares of its inputs,
   * column by column.
   */
  readonly inputSums: ReadonlyMap<string, InputSumTensors>;
  /** Inputs of each weight whose inputs are kept, for the last step's tokens: f32 [ne0, tokens]. */
  readonly keptInputs: ReadonlyMap<string, Tensor>;
  /** Distinguishes these weights from other weights of the same shapes. */
  readonly fingerprint: string;
  /** Kind of result that a step gives for each of its outputs. */
  readonly wants: Wants;
  /** True if weights are read for every step, so the files have to stay open. */
  readonly streams: boolean;
  /** Counts of what has been read of neurons that stay in the file. */
  readonly neurons: NeuronReads | undefined;
  /** Tensors of the file that no op reads. */
  readonly unusedTensors: readonly string[];
  /** Form in memory of weights of IQ1 to IQ3 and TQ1_0, if there are any. */
  readonly iqWeights: ModelPlan['iqWeights'];
  /** Passes of a step, for benches that time single records. */
  readonly passes: readonly ModelPass[];
  /**
   * Threads for steps of at most FEW_TOKENS. warmUp() finds the fastest number for this model and
   * machine.
   */
  generationThreads: number;
  step(batch: Batch, signal?: AbortSignal): Promise<(i: number) => Float32Array>;
  /** Frees memory and threads. Afterwards nothing reads the files. */
  dispose(): Promise<void>;
}

/**
 * @param starting backend whose threads may be running already; the engine owns it from now on,
 * even if this throws
 */
export async function createModelEngine(
  platform: Platform,
  { gguf, parts }: OpenedGGUF,
  options: ModelEngineOptions,
  starting: Promise<CpuBackend>,
): Promise<ModelEngine> {
  const { layout, model, executor, fingerprint, build, turbo, threads } =
    (await load(platform, { gguf, parts }, options, starting, platform.growsMemory)) ??
    (await load(platform, { gguf, parts }, options, createCpuBackend(platform, options)))!;
  const { hparams, wants, parallel, cells } = layout;
  const streamed = new Map<Streams, Streamed>();
  for (const { streams } of [...model.encoder, ...model.passes])
    if (streams && !streamed.has(streams))
      streamed.set(streams, { window: streams.window, filling: fillingOf(executor, parts, streams.weights, model.packings) });
  const stream = createWeightStream([...streamed.values()]);
  const streamOf = ({ streams }: ModelPass): Streamed | undefined => streams && streamed.get(streams);
  const neuronPasses = model.passes.flatMap((pass) => pass.neurons ?? []);
  const neurons =
    neuronPasses.length > 0
      ? (await import('./neuron-window.ts')).createNeuronWindow(executor, parts, neuronPasses, options.neuronWindow ?? 0)
      : undefined;
  const engine: ModelEngine = {
    executor,
    streams: streamed.size > 0 || model.tokenRows.length > 0 || neurons !== undefined,
    neurons: neurons?.reads,
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
    statesOf: (index) =>
      model.states.length > 0 ? createStateCells({ ...cells, first: index * (cells.working + cells.checkpoints) }) : undefined,
    inputSums: model.inputSums,
    keptInputs: model.keptInputs,
    fingerprint,
    wants,
    unusedTensors: model.unusedTensors,
    iqWeights: model.iqWeights,
    passes: model.passes,
    generationThreads: threads,
    step,
    async dispose() {
      await executor.dispose();
      await stream.close();
      await neurons?.close();
    },
  };
  return engine;

  async function step(batch: Batch, signal?: AbortSignal): Promise<(i: number) => Float32Array> {
    const { inputs, result } = model;
    const { nTokens, nOutputs } = batch;
    const passes = batch.encodes ? model.encoder : model.passes;
    await writeInputs(executor, inputs, batch);
    for (const rows of model.tokenRows) await readTokenRows(executor, parts, rows, batch.ids.subarray(0, nTokens), signal);
    const threads = nTokens <= FEW_TOKENS ? engine.generationThreads : executor.threads;
    const width = result.ne[0];
    const reads = { at: result.data, length: 4 * width * nOutputs };
    const step = passes.map(({ plan, placed, crossings }) => ({
      plan: placed.at,
      from: 0,
      to: plan.records.length,
      carries: crossings.map(({ from, to }) => ({ from: from.data, to: to.data, length: bytesInStep(from, nTokens, nOutputs) })),
    }));
    // Runs passes together up to the next one that has to wait for weights.
    for (let from = 0; from < step.length;) {
      const waitsFor = streamOf(passes[from]);
      const more = passes.slice(from + 1).findIndex((pass) => streamOf(pass) ?? pass.neurons);
      const to = waitsFor ? from + 1 : more < 0 ? step.length : from + 1 + more;
      if (waitsFor) await stream.ready(waitsFor, signal);
      if (passes[from].neurons) await neurons!.ready(passes[from].neurons!, nTokens, signal);
      await executor.run(
        { passes: step.slice(from, to), nTokens, nOutputs, threads, ...(to === step.length && nOutputs > 0 && { reads }) },
        signal,
      );
      if (waitsFor && !passes.slice(to).some((pass) => streamOf(pass) === waitsFor)) stream.done(waitsFor);
      from = to;
    }
    const rows = await executor.read(reads.at, reads.length);
    return (i) => new Float32Array(rows.buffer, rows.byteOffset + 4 * width * i, width);
  }
}

/** A model whose weights are in memory. */
interface Loaded extends Pick<CpuBackend, 'build' | 'threads'>, Pick<CompiledKernels, 'turbo'> {
  readonly layout: ModelLayout;
  readonly model: ModelPlan;
  readonly executor: Executor;
  readonly fingerprint: string;
}

/**
 * Plans the model, starts threads and reads weights. If a model surely fits, its weights get
 * addresses first, and threads read them while this thread plans the rest. Both take about as long,
 * because most of reading is the system's work of finding memory.
 *
 * @param early true if reading may begin before the plan
 * @returns undefined if the plan gives the weights other addresses; nothing is left open then
 */
async function load(
  platform: Platform,
  { gguf, parts }: OpenedGGUF,
  options: ModelEngineOptions,
  starting: Promise<CpuBackend>,
  early?: boolean,
): Promise<Loaded | undefined> {
  const backend = await starting;
  const { build, threads } = backend;
  const free = platform.freeMemory?.() ?? Infinity;
  let executor: Executor | undefined;
  let reading: Reading | undefined;
  let read: Promise<unknown> | undefined;
  let claiming: Claiming | undefined;
  const close = async (): Promise<void> => {
    await (executor ?? { dispose: backend.close }).dispose();
    await read?.catch(() => {}); // the readers use the files until then
  };
  try {
    options.signal?.throwIfAborted();
    const layout = layoutOf(gguf, options);
    if (options.neuronWindow !== undefined) mustBeInFiles(parts);
    const places = early ? await import('./early-weights.ts') : undefined; // not in pages
    const first = places?.buildEarly(gguf, layout, options, { threads, free });
    const growing = first && backend.growing(first.bytes);
    if (growing && threads < platform.defaultThreads()) claiming = places!.claimPages(growing.memory, first.bytes);
    const { turbo } = await backend.compiled();
    if (growing) {
      executor = await growing.start();
      reading = readByThreads(executor, parts, first.resident, [first.packing], options);
      read = reading?.done;
      await yieldToEventLoop(); // lets threads begin before this thread is busy planning
    }
    const model = planToFit(gguf, layout, options, { isa: isaOf(build), threads, free }, first?.graph);
    if (growing && !places!.isOf(first, model)) {
      await close();
      return undefined;
    }
    if (growing) reach(growing.memory, model.memories[0]);
    executor ??= await backend.start(model.memories, [...model.encoder, ...model.passes].some(({ streams }) => streams) ? READERS : 0);
    const fingerprint = readWeights(executor, parts, model, options, reading);
    fingerprint.catch(() => {}); // awaited below
    read = fingerprint;
    // The rest of this thread's work takes about as long as reading, so let the readers begin
    // first.
    if (executor.load) await yieldToEventLoop();
    for (const { plan, placed } of [...model.encoder, ...model.passes]) {
      await executor.write(placed.at, placed.encode());
      for (const { data, values } of plan.constants) await executor.write(data, values!());
    }
    for (const table of model.tables) {
      const bytes = new Uint8Array((await angles(table, parts)).buffer);
      for (const { data } of table.tensors) await executor.write(data, bytes);
    }
    const firstTokens = options.meanwhile();
    if (growing && turbo && firstTokens) await places!.rehearse(executor, model, firstTokens, fingerprint, claiming, options.signal);
    return { layout, model, executor, fingerprint: await fingerprint, build, turbo, threads };
  } catch (error) {
    await close();
    throw error;
  } finally {
    claiming?.stop();
  }
}

/** Angles of a rope table, with the file's frequency factors if it has any. */
async function angles({ params, factors, tensors: [tensor] }: RopeTable, parts: readonly Bytes[]): Promise<Float32Array> {
  if (!factors) return ropeTable(params, tensor.ne[1]);
  return ropeTable({ ...params, factors: await tensorFloats(parts, factors) }, tensor.ne[1]);
}
