/** quantlet sparsify: makes a copy of a ReLU model in which only firing neurons are computed. */
import { bytesText } from '../bytes-text.ts';
import { QuantletError } from '../errors.ts';
import { pick } from '../options.ts';
import type { PredictorQuality } from '../sparsify/scores.ts';
import { HELD_OUT, SPARSIFY_OPTIONS, sparsifyWith, type SparsifyResult } from '../tools/sparsify.ts';
import { checkKinds } from './check-kinds.ts';
import { forTerminal, openModel, type Command } from './command.ts';
import { filesRead } from './files-read.ts';
import type { FlagKey, Values } from './flags.ts';
import { writtenOverrides } from './metadata.ts';
import { checkOutput, tell } from './output.ts';
import { parseOnlyFlags } from './parse-flags.ts';
import { phaseBars } from './progress.ts';
import { snakeCase } from './snake-case.ts';
import { checkWindows, textOf, windowOptions } from './window-flags.ts';

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

const usage = (message: string): QuantletError => new QuantletError('ERR_USAGE', message);
const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;

export const sparsify: Command = {
  name: 'sparsify',
  synopsis: '-m FILE [-f TEXT] -o FILE [--predictor RANK] [--heads]',
  summary: 'make a copy of a ReLU model that computes only the neurons that fire, or of any model that can skip heads',
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
    const { model: path, sparseFile: output, recall, json } = values;
    if (path === undefined) throw usage('give the model with -m FILE');
    if (output === undefined) throw usage('give the file to write with -o FILE');
    checkFlags(values);
    const text = await textOf(values);
    const { predictor, predictorSteps, hot, bundle, heads, threads } = values;
    if (text === undefined && (predictor !== undefined || bundle || hot !== undefined))
      throw usage('--predictor, --hot and --bundle need a text that neurons fire for; give it with -f FILE');
    await checkOutput(output, filesRead(values));
    const bars = phaseBars();
    const start = performance.now();
    const { batchSize: _, ...windows } = windowOptions(values);
    try {
      const result = await sparsifyWith((needed) => openModel(values, signal, needed), path, output, {
        ...{ text, ...windows, hot, bundle, heads, predictor, predictorSteps, recall, threads, signal },
        overrideKv: writtenOverrides(values.overrideKv),
        onProgress: bars.set,
      });
      bars.end();
      const seconds = (performance.now() - start) / 1000;
      if (json) {
        const { predictors, bytes, tokens, threshold, layers } = result;
        tell(`${JSON.stringify(snakeCase({ output, tokens, threshold, ...predictors, layers, bytes, seconds }))}\n`);
      } else tell(forTerminal(report(output, result, seconds)));
      return 0;
    } finally {
      bars.end();
    }
  },
};

/** @throws ERR_USAGE for values out of range, and flags that do not fit together */
function checkFlags(values: Flags): void {
  checkKinds(values, pick(SPARSIFY_OPTIONS, 'predictor', 'predictorSteps', 'recall', 'hot'));
  const { predictor, predictorSteps, recall } = values;
  if (predictor === undefined && (recall ?? predictorSteps) !== undefined)
    throw usage('--recall and --predictor-steps need predictors; add --predictor RANK');
}

function report(output: string, { layers, predictors, threshold, tokens, bytes }: SparsifyResult, seconds: number): string {
  const found = ({ recall, precision, skipped }: PredictorQuality): string =>
    `recall ${percent(recall)}, precision ${percent(precision)}, ${percent(skipped)} of the neurons skipped`;
  const lines = layers.map(
    ({ fire, hot, groups, groupsOrdered, predictor }, il) =>
      `blk.${il}: ${percent(fire)} of the neurons fire, ${hot > 0 ? `${hot} are hot, ` : ''}of groups of 16 ${percent(groups)} before, ${percent(groupsOrdered)} in the new order${predictor ? `; ${found(predictor)}` : ''}`,
  );
  if (predictors)
    lines.push(`all that are not hot, at ${threshold}, for the last ${Math.ceil(tokens / HELD_OUT)} tokens: ${found(predictors)}`);
  lines.push(`wrote ${output}: ${tokens} tokens, ${bytesText(bytes)} in ${seconds.toFixed(2)} s`);
  return `${lines.join('\n')}\n`;
}
