/**
 * quantlet sparsify: writes a copy of a ReLU model in which only firing neurons are computed. The
 * order of the neurons comes from a text.
 */
import { HOT_NEURONS, SPARSE_THRESHOLD } from '../arch/sparse.ts';
import { bytesText } from '../bytes-text.ts';
import { createEngineOn } from '../core/create.ts';
import { platform } from '../entry/node-platform.ts';
import { QuantletError } from '../errors.ts';
import { withMetadata } from '../gguf/metadata.ts';
import { layoutGGUF } from '../gguf/write.ts';
import { nbytes, type Tensor } from '../graph/tensor.ts';
import { openModelFiles, tensorBytes, type ModelFiles } from '../io/model-files.ts';
import type { Model } from '../model.ts';
import { createFiring, type Firing } from '../sparsify/firing.ts';
import { changed, ordered, planSparsify, type SparsePlan } from '../sparsify/plan.ts';
import { createTrainer, trainerBytes, type Predictor } from '../sparsify/predictor.ts';
import { createScores, qualityAt, thresholdFor, type Quality, type Scores } from '../sparsify/scores.ts';
import { defaultThreads } from '../threads/node.ts';
import { TYPE } from '../type-traits.ts';
import { forTerminal, openModel, type Command } from './command.ts';
import { filesRead } from './files-read.ts';
import type { FlagKey, Values } from './flags.ts';
import { overridesOf, writtenOverrides } from './metadata.ts';
import { checkOutput, tell, type WriteAt } from './new-file.ts';
import { copyTensor, metadataOf, writeNewGGUF } from './new-gguf.ts';
import { parseOnlyFlags } from './parse-flags.ts';
import { progressBar } from './progress.ts';
import { checkWindows, mustPredict, overWindows, textOf, windowCount } from './windows.ts';

const KEYS = [
  'model',
  'overrideKv',
  'file',
  'prompt',
  'sparseFile',
  'ctx',
  'chunks',
  'hot',
  'bundle',
  'heads',
  'predictor',
  'predictorSteps',
  'recall',
  'threads',
  'json',
  'help',
] as const satisfies readonly FlagKey[];
type Flags = Values<(typeof KEYS)[number]>;

/**
 * Limits for the text: the number of its tokens, and the bytes to store for layers that are
 * measured at the same time.
 */
const MOST_TOKENS = 32768;
const MOST_BYTES = 2 ** 30;
/** One token in HELD_OUT is excluded from training, for evaluation. */
const HELD_OUT = 8;

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
  readonly values: Flags;
  readonly path: string;
  readonly plan: SparsePlan;
  readonly text: string;
  readonly rank: number;
  readonly steps: number;
  readonly threads: number;
  readonly signal: AbortSignal;
}

/**
 * Runs the text through the model, once for each set of layers that fits in memory, and measures
 * each layer.
 */
async function measure({
  values,
  path,
  plan,
  text,
  rank,
  steps,
  threads,
  signal,
}: Work): Promise<{ layers: LayerReport[]; tokens: number }> {
  const { nLayer, nEmbd, nFf, nCtxTrain } = plan.hp;
  const { ctx: nCtx = Math.min(512, nCtxTrain), chunks = -1, ...given } = values;
  const kept = new Set(plan.layers.flatMap(({ activations, seen }) => (rank > 0 ? [activations, seen] : [activations])));
  const model = await openModel({ ...given, model: path, ctx: nCtx, threads }, signal, {
    parallel: 1,
    batchSize: nCtx,
    maxOutputs: 1,
    warmUp: false,
    keptInputs: (name) => kept.has(name),
  });
  const bar = progressBar('sparsifying');
  const shape = { nEmbd, rank, neurons: nFf };
  const engine = rank > 0 ? await createEngineOn(platform, { threads, memoryBytes: trainerBytes(shape) }) : undefined;
  const trainer = engine && createTrainer(engine, shape, steps);
  try {
    mustPredict(model);
    const ids = model.tokenize(text);
    const nChunk = windowCount(ids.length, nCtx, Math.min(chunks < 0 ? Infinity : chunks, Math.max(1, Math.floor(MOST_TOKENS / nCtx))));
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
        bar.set((from + (some.length * done) / nChunk / (trainer ? 4 : 1)) / nLayer);
      }
      for (const [i, { firing, x }] of some.entries()) {
        const part = (of: number): void => bar.set((from + some.length / 4 + ((i + of) * 3) / 4) / nLayer);
        layers.push(await found({ firing, x, trained }, values.hot ?? Infinity, trainer, part, signal));
      }
    }
    return { layers, tokens };
  } finally {
    bar.end();
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
    throw new QuantletError('ERR_LOGITS', `what "${weight}" is given is not finite; the model's weights are damaged or overflow`);
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

/**
 * Writes the new file.
 * @returns its size in bytes
 */
async function write(
  model: ModelFiles,
  plan: SparsePlan,
  layers: readonly LayerReport[],
  threshold: number,
  {
    rank,
    output,
    overrides,
    signal,
  }: { readonly rank: number; readonly output: string; readonly overrides: Flags['overrideKv']; readonly signal: AbortSignal },
): Promise<number> {
  const { nEmbd, nFf } = plan.hp;
  const metadata = await metadataOf(model, signal);
  for (const [key, value] of Object.entries(writtenOverrides(overrides))) metadata.set(key, value);
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
  const bar = progressBar('writing');
  try {
    const fill = async (put: WriteAt): Promise<void> => {
      for (const [i, tensor] of plan.tensors.entries()) {
        const { source, beside, layer = -1, change } = tensor;
        const { offset: to, byteLength } = layout.tensors[i];
        if (change === 'copy') await copyTensor(put, model, source, to, signal, () => undefined);
        else {
          const data = await Promise.all([source, ...(beside ? [beside] : [])].map((of) => tensorBytes(model.parts, of, signal)));
          await put(changed(tensor, data, layer < 0 ? undefined : layers[layer].order), to);
        }
        bar.set((to + byteLength) / layout.byteLength);
      }
      for (const [i, { data }] of predictors.entries()) await put(data, layout.tensors[plan.tensors.length + i].offset);
    };
    await writeNewGGUF(output, layout, fill, signal);
  } finally {
    bar.end();
  }
  return layout.byteLength;
}

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;

export const sparsify: Command = {
  name: 'sparsify',
  synopsis: '-m FILE [-f TEXT] -o FILE [--predictor RANK] [--heads]',
  summary: 'make a copy of a ReLU model of which only the neurons that fire are computed, or of any whose heads can be left out',
  flags: KEYS,
  defaults: { ctx: '512' },
  notes:
    "The file is one of PowerInfer's: ffn_down_t has a row for each neuron, and fc1 and fc2 predict which fire. Without --predictor the gate says so, and the\nmodel gives what it gave. The text tells which neurons fire together, and those lie in groups of 16 then. Quantise the copy, not the model before.\nWith --heads the copy has attn_output transposed as well, for --attn-heads; a text and ReLU are for neurons alone.",
  examples: [
    'quantlet sparsify -m relu-F16.gguf -f text.txt -o sparse-F16.gguf',
    'quantlet sparsify -m relu-F16.gguf -f text.txt -o sparse-F16.gguf --predictor 256 --recall 0.98',
    'quantlet quantize sparse-F16.gguf sparse-Q4_0.gguf Q4_0',
    'quantlet sparsify -m any-F16.gguf -o heads-F16.gguf --heads',
  ],
  async run(argv, signal) {
    const values = parseOnlyFlags(argv, KEYS, 'give the text with -f', 'sparsify');
    checkWindows(values);
    const {
      model: path,
      sparseFile: output,
      predictor: rank = 0,
      predictorSteps: steps = 1500,
      recall = 0.99,
      threads = defaultThreads(),
      heads = false,
      bundle = false,
      json,
    } = values;
    const usage = (message: string): never => {
      throw new QuantletError('ERR_USAGE', message);
    };
    if (path === undefined) return usage('give the model with -m FILE');
    if (output === undefined) return usage('give the file to write with -o FILE');
    if (values.predictor !== undefined && rank < 1) usage(`--predictor is ${rank}; expected a rank of at least 1`);
    if (steps < 1) usage(`--predictor-steps is ${steps}; expected at least 1`);
    if (!(recall > 0 && recall <= 1)) usage(`--recall is ${recall}; expected a share above 0 and at most 1`);
    if (values.hot !== undefined && !(values.hot > 0 && values.hot <= 1))
      usage(`--hot is ${values.hot}; expected a share above 0 and at most 1`);
    if (rank === 0 && (values.recall ?? values.predictorSteps) !== undefined)
      usage('--recall and --predictor-steps are about predictors; ask for them with --predictor RANK');
    const text = await textOf(values);
    if (text === undefined && (rank > 0 || bundle || values.hot !== undefined))
      return usage('--predictor, --hot and --bundle are about neurons that a text has told of; give it with -f FILE');
    await checkOutput(output, filesRead(values));
    const files = await openModelFiles(platform, path, signal);
    const start = performance.now();
    try {
      const plan = planSparsify(withMetadata(files.gguf, overridesOf(values.overrideKv)), {
        neurons: text !== undefined,
        heads,
        bundle,
        rank,
      });
      const { layers, tokens } =
        text === undefined ? { layers: [], tokens: 0 } : await measure({ values, path, plan, text, rank, steps, threads, signal });
      const all = layers.map(({ scores }) => scores);
      const threshold = rank > 0 ? thresholdFor(all, recall) : 0;
      const bytes = await write(files, plan, layers, threshold, { rank, output, overrides: values.overrideKv, signal });
      const seconds = (performance.now() - start) / 1000;
      const quality = rank > 0 ? qualityAt(all, threshold) : undefined;
      const report = layers.map(({ fire, hot, groups, groupsOrdered, scores }) => ({
        fire,
        hot,
        groups,
        groups_ordered: groupsOrdered,
        predictor: quality && qualityAt([scores], threshold),
      }));
      if (json) tell(`${JSON.stringify({ output, tokens, threshold, ...quality, layers: report, bytes, seconds })}\n`);
      else {
        const found = ({ recall, precision, skipped }: Quality): string =>
          `recall ${percent(recall)}, precision ${percent(precision)}, ${percent(skipped)} of the neurons skipped`;
        const lines = report.map(
          ({ fire, hot, groups, groups_ordered: after, predictor }, il) =>
            `blk.${il}: ${percent(fire)} of the neurons fire, ${hot > 0 ? `${hot} are hot, ` : ''}of groups of 16 ${percent(groups)} before, ${percent(after)} in the new order${predictor ? `; ${found(predictor)}` : ''}`,
        );
        if (quality)
          lines.push(`all that are not hot, at ${threshold}, for the last ${Math.ceil(tokens / HELD_OUT)} tokens: ${found(quality)}`);
        lines.push(`wrote ${output}: ${tokens} tokens, ${bytesText(bytes)} in ${seconds.toFixed(2)} s`);
        tell(forTerminal(`${lines.join('\n')}\n`));
      }
      return 0;
    } finally {
      await files.close();
    }
  },
};
