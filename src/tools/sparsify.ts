/**
 * Sparse models: a copy of a ReLU model in which only firing neurons are computed, or of any model
 * whose attention heads may be skipped. The order of the neurons comes from a text.
 */
import { HOT_NEURONS, SPARSE_THRESHOLD } from '../arch/sparse.ts';
import { createEngineOn } from '../core/create.ts';
import { QuantletError } from '../errors.ts';
import { withMetadata } from '../gguf/metadata.ts';
import { layoutGGUF } from '../gguf/write.ts';
import { nbytes, type Tensor } from '../graph/tensor.ts';
import { openModelFiles, tensorBytes, type ModelFiles } from '../io/model-files.ts';
import type { LoadOptions } from '../load-options.ts';
import type { Model } from '../model.ts';
import { checkOptions, checkValue, KIND, whole, type Kinds } from '../options.ts';
import { createFiring, type Firing } from '../sparsify/firing.ts';
import { changed, ordered, planSparsify, type SparsePlan } from '../sparsify/plan.ts';
import { createTrainer, trainerBytes, type Predictor } from '../sparsify/predictor.ts';
import { createScores, qualityAt, thresholdFor, type PredictorQuality, type Scores } from '../sparsify/scores.ts';
import { THREADS } from '../threads/executor.ts';
import { defaultThreads } from '../threads/node.ts';
import { TYPE } from '../type-traits.ts';
import {
  loaderOf,
  partsOf,
  PATH,
  pathOf,
  readOverrides,
  signalOf,
  toolPlatform,
  writtenOverrides,
  type FilePath,
  type MeasuredModel,
  type Overrides,
  type ToolOptions,
} from './common.ts';
import { checkOutput, type WriteAt } from './new-file.ts';
import { copyTensor, metadataOf, writeNewGGUF } from './new-gguf.ts';
import { mustPredict, overWindows, windowCount } from './windows.ts';
import { refuseOtherKinds } from '../plan/file-kind.ts';

export interface SparsifyOptions extends ToolOptions {
  /** Text that tells which neurons fire. Needed unless only `heads` are wanted. */
  text?: string | undefined;
  /** Tokens of a window of the text, at least 4. Default: the trained context, at most 512. */
  contextLength?: number | undefined;
  /** Most windows of the text. Default: all, up to 32768 tokens. */
  chunks?: number | undefined;
  /** Neurons that fire for at least this fraction of the tokens are always computed. Default: none. */
  hot?: number | undefined;
  /** Stores a neuron's rows of `ffn_up` and `ffn_down_t` together. Default false. */
  bundle?: boolean | undefined;
  /** Adds rows of attention's heads, for the option attnHeads of loadModel. Default false. */
  heads?: boolean | undefined;
  /** Rank of predictors of the neurons that fire. Default: the gate itself tells which fire. */
  predictor?: number | undefined;
  /** Steps of the training of a predictor. Default 1500. */
  predictorSteps?: number | undefined;
  /** Fraction of firing neurons that predictors must find. Default 0.99. */
  recall?: number | undefined;
  /** Replaces metadata of the model, here and in the new file. */
  overrideKv?: Overrides | undefined;
  /** Threads that compute. Default: the cores this process may use. */
  threads?: number | undefined;
}

/** Result for a layer. */
export interface SparseLayer {
  /** Fraction of neurons that fire, averaged over the tokens. */
  readonly fire: number;
  /** Number of neurons that are always computed. */
  readonly hot: number;
  /** Fraction of groups of 16 neurons with one that fires: in the model's order, in the new one. */
  readonly groups: number;
  readonly groupsOrdered: number;
  readonly predictor?: PredictorQuality | undefined;
}

export interface SparsifyResult {
  /** Number of measured tokens; 0 without a text. */
  readonly tokens: number;
  /** Score from which a predictor takes a neuron to fire. */
  readonly threshold: number;
  readonly predictors?: PredictorQuality | undefined;
  readonly layers: readonly SparseLayer[];
  /** Bytes of the new file. */
  readonly bytes: number;
}

export const SPARSIFY_OPTIONS: Kinds<SparsifyOptions> = {
  text: KIND.string,
  contextLength: whole(4),
  chunks: KIND.size,
  hot: KIND.share,
  bundle: KIND.boolean,
  heads: KIND.boolean,
  predictor: KIND.size,
  predictorSteps: KIND.size,
  recall: KIND.share,
  overrideKv: KIND.object,
  threads: THREADS,
  signal: KIND.signal,
  onProgress: KIND.function,
};

/**
 * Limits for the text: the number of its tokens, and the bytes to store for layers that are
 * measured at the same time.
 */
const MOST_TOKENS = 32768;
const MOST_BYTES = 2 ** 30;
/** One token in HELD_OUT is excluded from training, for evaluation. */
export const HELD_OUT = 8;

/** Results for one layer. */
interface LayerReport {
  /** The new order of the neurons; the first `hot` of them are always computed. */
  readonly order: Uint32Array;
  readonly hot: number;
  /**
   * Fraction of neurons that fire, averaged over tokens, and fraction of groups of 16 neurons with
   * at least one that fires, in the file's order and in the new order.
   */
  readonly fire: number;
  readonly groups: number;
  readonly groupsOrdered: number;
  readonly predictor: Predictor | undefined;
  readonly scores: Scores;
}

interface Work {
  readonly load: (needed: LoadOptions) => Promise<Model>;
  readonly plan: SparsePlan;
  readonly text: string;
  readonly options: SparsifyOptions;
  readonly rank: number;
  readonly threads: number;
  readonly signal: AbortSignal;
}

/**
 * Runs the text through the model, once for each set of layers that fits in memory, and measures
 * each layer.
 */
async function measure({ load, plan, text, options, rank, threads, signal }: Work): Promise<{ layers: LayerReport[]; tokens: number }> {
  const { nLayer, nEmbd, nFf, nCtxTrain } = plan.hp;
  const { contextLength: nCtx = Math.min(512, nCtxTrain), chunks = Infinity, predictorSteps = 1500, hot = Infinity, onProgress } = options;
  const report = (layersDone: number): void => onProgress?.({ phase: 'sparsifying', done: layersDone, total: nLayer });
  const kept = new Set(plan.layers.flatMap(({ activations, seen }) => (rank > 0 ? [activations, seen] : [activations])));
  const model = await load({
    contextLength: nCtx,
    threads,
    signal,
    parallel: 1,
    batchSize: nCtx,
    maxOutputs: 1,
    warmUp: false,
    keptInputs: (name) => kept.has(name),
  });
  const shape = { nEmbd, rank, neurons: nFf };
  const engine = rank > 0 ? await createEngineOn(toolPlatform(), { threads, memoryBytes: trainerBytes(shape) }) : undefined;
  const trainer = engine && createTrainer(engine, shape, predictorSteps);
  try {
    mustPredict(model);
    const ids = model.tokenize(text);
    const nChunk = windowCount(ids.length, nCtx, Math.min(chunks, Math.max(1, Math.floor(MOST_TOKENS / nCtx))));
    const tokens = nChunk * nCtx;
    const trained = tokens - Math.ceil(tokens / HELD_OUT);
    const atOnce = Math.max(1, Math.floor(MOST_BYTES / (tokens * (nFf / 8 + (rank > 0 ? 4 * nEmbd : 0)))));
    const layers: LayerReport[] = [];
    for (let from = 0; from < nLayer; from += atOnce) {
      const some = plan.layers.slice(from, from + atOnce).map((names) => ({
        ...names,
        firing: createFiring(nFf, tokens),
        x: new Float32Array(rank > 0 ? tokens * nEmbd : 0),
      }));
      let done = 0;
      const nothing = { onLogits: () => undefined, result: undefined };
      for await (const _ of overWindows(
        model,
        { ids, nCtx, nChunk, parallel: 1, computed: nCtx, outputsFrom: nCtx, signal },
        () => nothing,
      )) {
        for (const { activations, seen, firing, x } of some) {
          firing.add(await lastInputs(model, activations, nCtx));
          if (rank > 0) x.set(await lastInputs(model, seen, nCtx), done * nCtx * nEmbd);
        }
        done++;
        report(from + (some.length * done) / nChunk / (trainer ? 4 : 1));
      }
      for (const [i, { firing, x }] of some.entries()) {
        const part = (of: number): void => report(from + some.length / 4 + ((i + of) * 3) / 4);
        layers.push(await found({ firing, x, trained }, hot, trainer, part, signal));
      }
    }
    return { layers, tokens };
  } finally {
    trainer?.dispose();
    await engine?.dispose();
    await model.dispose();
  }
}

/** Inputs of a weight in the last step: f32 [ne0, nTokens]. */
async function lastInputs(model: Model, weight: string, nTokens: number): Promise<Float32Array> {
  const { keptInputs, executor } = model.internals.engine;
  const t: Tensor = keptInputs.get(weight)!;
  const bytes = await executor.read(t.data, (nbytes(t) / t.ne[1]) * nTokens);
  const values = new Float32Array(bytes.slice().buffer);
  if (!values.every(Number.isFinite))
    throw new QuantletError('ERR_LOGITS', `the input of "${weight}" is not finite; the model's weights are damaged or overflow`);
  return values;
}

async function found(
  examples: { readonly firing: Firing; readonly x: Float32Array; readonly trained: number },
  least: number,
  trainer: ReturnType<typeof createTrainer> | undefined,
  onStep: (part: number) => void,
  signal: AbortSignal,
): Promise<LayerReport> {
  const { firing } = examples;
  const { neurons, counts, tokens } = firing;
  const hot = firing.hot(least);
  const order = firing.order(hot);
  const predictor = await trainer?.train(examples, onStep, signal);
  const scores = createScores();
  if (predictor) await trainer!.judge(predictor, examples, order.subarray(hot), scores, signal);
  return {
    order,
    hot,
    fire: counts.reduce((sum, n) => sum + n, 0) / neurons / tokens,
    groups: firing.groupsRead(Uint32Array.from(counts.keys())),
    groupsOrdered: firing.groupsRead(order),
    predictor,
    scores,
  };
}

interface Written extends Pick<SparsifyOptions, 'overrideKv' | 'onProgress'> {
  readonly rank: number;
  readonly output: string;
  readonly signal: AbortSignal;
}

/**
 * Writes the new file.
 * @returns its size in bytes
 */
async function write(
  model: ModelFiles,
  plan: SparsePlan,
  layers: readonly LayerReport[],
  threshold: number,
  { rank, output, overrideKv, signal, onProgress }: Written,
): Promise<number> {
  const { nEmbd, nFf } = plan.hp;
  const metadata = await metadataOf(model, signal);
  for (const [key, value] of Object.entries(writtenOverrides(overrideKv))) metadata.set(key, value);
  if (layers.length > 0) metadata.set(SPARSE_THRESHOLD, { type: 'f32', value: threshold });
  const hot = Uint32Array.from(layers, (layer) => layer.hot);
  if (hot.some((n) => n > 0)) metadata.set(HOT_NEURONS, { type: 'arr[u32]', value: hot });
  const predictors = layers.flatMap(({ predictor, order }, il) =>
    predictor
      ? [
          { name: `blk.${il}.fc1.weight`, type: TYPE.f32, ne: [nEmbd, rank], data: new Uint8Array(predictor.fc1.buffer) },
          { name: `blk.${il}.fc2.weight`, type: TYPE.f32, ne: [rank, nFf], data: ordered(new Uint8Array(predictor.fc2.buffer), order) },
        ]
      : [],
  );
  const layout = layoutGGUF(metadata, [...plan.tensors, ...predictors]);
  const fill = async (put: WriteAt): Promise<void> => {
    for (const [i, tensor] of plan.tensors.entries()) {
      const { source, beside, layer = -1, change } = tensor;
      const { offset: to, byteLength } = layout.tensors[i];
      if (change === 'copy') await copyTensor(put, model, source, to, signal, () => undefined);
      else {
        const data = await Promise.all([source, ...(beside ? [beside] : [])].map((of) => tensorBytes(model.parts, of, signal)));
        await put(changed(tensor, data, layer < 0 ? undefined : layers[layer].order), to);
      }
      onProgress?.({ phase: 'writing', done: to + byteLength, total: layout.byteLength });
    }
    for (const [i, { data }] of predictors.entries()) await put(data, layout.tensors[plan.tensors.length + i].offset);
  };
  await writeNewGGUF(output, layout, fill, signal);
  return layout.byteLength;
}

/** @throws ERR_INVALID_ARGUMENT for options that need others */
function checkTogether({ text, predictor, bundle, hot, recall, predictorSteps }: SparsifyOptions): void {
  const refuse = (message: string): never => {
    throw new QuantletError('ERR_INVALID_ARGUMENT', message);
  };
  if (predictor === undefined && (recall ?? predictorSteps) !== undefined)
    refuse('recall and predictorSteps need predictors; add the option predictor');
  if (text === undefined && (predictor !== undefined || bundle || hot !== undefined))
    refuse('predictor, hot and bundle need a text that neurons fire for; give it as text');
}

/**
 * Writes a copy of a model in PowerInfer's layout: `ffn_down_t` has a row for each neuron, in an
 * order in which neurons that fire together are close, and predictors tell which fire. Without
 * predictors the copy computes what the model does. Sources: PowerInfer (arXiv 2312.12456), Deja Vu
 * (arXiv 2310.17157).
 * @param input a GGUF file of f32, f16 or bf16 whose feed-forwards have ReLU, or any for `heads`
 * @throws QuantletError ERR_INVALID_ARGUMENT for wrong options, an output that is an input, or a
 * model without ReLU, that is sparse already, rotated or quantised; ERR_UNSUPPORTED_ARCH;
 * ERR_LOGITS; ERR_IO; as reading does; `signal.reason`
 */
export const sparsify = (input: FilePath, output: FilePath, options?: SparsifyOptions): Promise<SparsifyResult> =>
  sparsifyWith(undefined, input, output, options);

/**
 * As sparsify().
 * @param model loads the input; by default loadModel does
 */
export async function sparsifyWith(
  model: MeasuredModel | undefined,
  input: FilePath,
  output: FilePath,
  options?: SparsifyOptions,
): Promise<SparsifyResult> {
  const given = checkOptions('sparsify', options, SPARSIFY_OPTIONS);
  checkValue('sparsify', 'input', input, PATH);
  checkValue('sparsify', 'output', output, PATH);
  checkTogether(given);
  const {
    text,
    predictor: rank = 0,
    recall = 0.99,
    threads = defaultThreads(),
    heads = false,
    bundle = false,
    overrideKv,
    onProgress,
  } = given;
  const [from, to, signal] = [pathOf(input), pathOf(output), signalOf(given.signal)];
  await checkOutput(to, partsOf(from));
  const files = await openModelFiles(toolPlatform(), from, signal);
  try {
    const overrides = readOverrides(overrideKv);
    refuseOtherKinds(files.gguf);
    const plan = planSparsify(withMetadata(files.gguf, overrides), { neurons: text !== undefined, heads, bundle, rank });
    const load = loaderOf(model ?? from, { overrideKv: overrides }, onProgress);
    const { layers, tokens } =
      text === undefined ? { layers: [], tokens: 0 } : await measure({ load, plan, text, options: given, rank, threads, signal });
    const all = layers.map(({ scores }) => scores);
    const threshold = rank > 0 ? thresholdFor(all, recall) : 0;
    const bytes = await write(files, plan, layers, threshold, { rank, output: to, overrideKv, signal, onProgress });
    const quality = (of: readonly Scores[]): PredictorQuality | undefined => (rank > 0 ? qualityAt(of, threshold) : undefined);
    return {
      ...{ tokens, threshold, bytes },
      predictors: quality(all),
      layers: layers.map(({ fire, hot, groups, groupsOrdered, scores }) => ({
        ...{ fire, hot, groups, groupsOrdered },
        predictor: quality([scores]),
      })),
    };
  } finally {
    await files.close();
  }
}
