/** A model that is ready to run: its memories, threads and weights, and the steps that it computes. */
import type { KvCache, Wants } from '../arch/architecture.ts';
import type { HParams } from '../arch/hparams.ts';
import type { InputSumTensors } from '../graph/input-sums.ts';
import type { Tensor } from '../graph/tensor.ts';
import { writeInputs } from './batch-inputs.ts';
import type { CompiledKernels, CpuBackend } from '../threads/cpu-backend.ts';
import { bytesInStep } from '../plan/links.ts';
import type { MemoryParts } from '../plan/memory-use.ts';
import type { ModelPass, ModelPlan, Streams } from '../plan/model-plan.ts';
import type { PlannedModel } from '../plan/plan-to-fit.ts';
import { fillingOf } from './fill-weights.ts';
import { createWeightStream, type Streamed } from './stream-weights.ts';
import { readTokenRows } from './token-rows.ts';
import type { Batch } from './batch.ts';
import type { NeuronReads } from './neuron-window.ts';
import { createStateCells, type StateCells } from './state-cells.ts';
import type { Bytes } from '../io/source.ts';
import type { Executor } from '../threads/executor.ts';
import type { Build } from '../wasm/load.ts';

/**
 * Steps of at most this many tokens are bound by reading the weights, or in small models by
 * barriers. generationThreads compute them.
 */
const FEW_TOKENS = 4;

/** A model with memory for everything. Nothing is in it yet. */
export interface PlacedModel extends PlannedModel, Pick<CpuBackend, 'build' | 'threads'>, Pick<CompiledKernels, 'turbo'> {
  readonly executor: Executor;
}

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
 * @param weights files of the weights, which have been read once, and their fingerprint
 */
export async function createModelEngine(
  { layout, plan: model, executor, build, turbo, threads }: PlacedModel,
  {
    parts,
    fingerprint,
    neuronWindow = 0,
  }: { readonly parts: readonly Bytes[]; readonly fingerprint: string; readonly neuronWindow?: number | undefined },
): Promise<ModelEngine> {
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
      ? (await import('./neuron-window.ts')).createNeuronWindow(executor, parts, neuronPasses, neuronWindow)
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
