/**
 * quantlet imatrix: the command line of llama-imatrix. Measures how much a text uses each input of
 * a model's matrices, for quantize --imatrix.
 */
import { platform } from '../entry/node-platform.ts';
import { QuantletError } from '../errors.ts';
import { nbytes, type Tensor } from '../graph/tensor.ts';
import type { Model } from '../model.ts';
import { joinImatrices, readImatrixSums, writeImatrix, writeImatrixDat, type ImatrixSums, type InputSums } from '../quantize/imatrix.ts';
import { pickBuild } from '../wasm/load.ts';
import { COMPUTE_FLAGS, forTerminal, located, MODEL_FLAGS, openModel, type Command } from './command.ts';
import { filesRead } from './files-read.ts';
import { lastOf, type Values } from './flags.ts';
import { checkOutput, isReplaceable, tell, writeNewFile } from './new-file.ts';
import { parseOnlyFlags } from './parse-flags.ts';
import { progressBar } from './progress.ts';
import { createScorer } from './score.ts';
import {
  checkWindows,
  createEstimate,
  finalLine,
  mustPredict,
  nllOf,
  overWindows,
  showRunning,
  textOf,
  windowCount,
  windowsAtOnce,
  type Estimate,
} from './windows.ts';

const KEYS = [
  ...MODEL_FLAGS,
  'file',
  'prompt',
  'imatrixFile',
  'outputFormat',
  'processOutput',
  'ppl',
  'ctx',
  'chunks',
  'fromChunk',
  'parseText',
  'inFile',
  'outputFrequency',
  'saveFrequency',
  'threads',
  'threadsBatch',
  'batch',
  ...COMPUTE_FLAGS,
  'turbo',
  'verbose',
  'build',
  'json',
  'help',
] as const;

type Flags = Values<(typeof KEYS)[number]>;
/** Adds the sums of --in-file to measured ones. */
type Join = (measured: readonly Measured[]) => ImatrixSums;
type Save = (all: ImatrixSums, copy?: boolean) => Promise<void>;
type Measured = Omit<ImatrixSums, 'chunkCount'>;

const WRITERS: Readonly<Record<string, typeof writeImatrix>> = { gguf: writeImatrix, dat: writeImatrixDat };

export const imatrix: Command = {
  name: 'imatrix',
  llama: 'llama-imatrix',
  synopsis: '-m FILE -f TEXT [-o imatrix.gguf]',
  summary: 'measure which weights matter, for quantize --imatrix',
  flags: KEYS,
  defaults: { ctx: '512' },
  examples: [
    'quantlet imatrix -m model-F16.gguf -f text.txt -o imatrix.gguf --chunks 100',
    'quantlet quantize --imatrix imatrix.gguf model-F16.gguf IQ4_XS',
    'quantlet imatrix --in-file one.gguf --in-file two.gguf -o both.gguf',
  ],
  async run(argv, signal) {
    const values = parseOnlyFlags(argv, KEYS, 'give the text with -f', 'imatrix');
    checkWindows(values);
    const { json = false, ctx: nCtx = 512, imatrixFile: output = 'imatrix.gguf', outputFormat = 'gguf' } = values;
    for (const [key, flag, least] of [
      ['fromChunk', 'chunk', 0],
      ['outputFrequency', 'output-frequency', 1],
      ['saveFrequency', 'save-frequency', 0],
    ] as const) {
      const n = values[key] ?? least;
      if (n < least) throw new QuantletError('ERR_USAGE', `--${flag} is ${n}; expected at least ${least}`);
    }
    if (!Object.hasOwn(WRITERS, outputFormat))
      throw new QuantletError('ERR_USAGE', `--output-format is "${outputFormat}"; expected gguf or dat`);
    const text = await textOf(values);
    const before: ImatrixSums[] = [];
    for (const path of (values.inFile ?? []).flatMap((list) => list.split(','))) before.push(await openSums(path, signal));
    if (text === undefined && before.length === 0)
      throw new QuantletError('ERR_USAGE', 'give the text to measure with -f FILE, or files to join with --in-file');

    const join: Join = (measured) => joinImatrices([...before, ...measured], nCtx);
    const save: Save = async (all, copy = false) => {
      const name = copy ? `${output}.at_${all.chunkCount}` : output;
      await writeNewFile(name, (write) => write(WRITERS[outputFormat](all, nCtx), 0), signal);
    };
    const { all, estimate } =
      text === undefined ? { all: join([]), estimate: undefined } : await measure(values, text, nCtx, output, join, save, signal);
    await save(all);
    const matrices = all.entries.size;
    if (json) {
      const { nll, ppl, tokens, stderr } = estimate ?? {};
      const value = { output, matrices, chunks: all.chunkCount, n_ctx: nCtx, ...(estimate && { ppl, nll, tokens, ppl_stderr: stderr }) };
      tell(`${JSON.stringify(value)}\n`);
    } else {
      const wrote = `wrote ${output}: ${matrices} matrices, ${all.chunkCount} windows of ${nCtx} tokens`;
      tell(`${estimate ? `\n${finalLine(estimate)}\n` : ''}${forTerminal(wrote)}\n`);
    }
    return 0;
  },
};

async function openSums(path: string, signal: AbortSignal): Promise<ImatrixSums> {
  const { bytes, close } = await platform.open(path, signal);
  try {
    return await readImatrixSums(bytes, signal);
  } finally {
    await close();
  }
}

/** Runs the model over the text and writes the file at intervals. */
async function measure(
  values: Flags,
  text: string,
  nCtx: number,
  output: string,
  join: Join,
  save: Save,
  signal: AbortSignal,
): Promise<{ readonly all: ImatrixSums; readonly estimate: Estimate | undefined }> {
  const { json = false, batch = 512, chunks = -1, fromChunk = 0, outputFrequency = 10, saveFrequency = 0 } = values;
  const { processOutput = false, ppl = true, parseText: parseSpecial = false } = values;
  const { hf: _, hfFile: __, ...given } = values;
  const { model: path } = await located(values, signal);
  await checkOutput(output, filesRead(values, path));
  const replaceable = await isReplaceable(output);
  const first = nCtx >> 1;
  const outputsFrom = processOutput ? 0 : ppl ? first : nCtx;
  const parallel = windowsAtOnce(nCtx, batch);
  const model = await openModel({ ...given, model: path, ctx: nCtx }, signal, {
    parallel,
    maxOutputs: Math.max(1, Math.min(batch, parallel * (nCtx - outputsFrom))),
    batchSize: batch,
    warmUp: false, // its tokens would be counted
    inputSums: (name) => name.startsWith('blk.') || (processOutput && name === 'output.weight'),
  });
  const bar = progressBar('measuring');
  try {
    mustPredict(model);
    const ids = model.tokenize(text, { parseSpecial }).slice(fromChunk * nCtx);
    const nChunk = windowCount(ids.length, nCtx, chunks < 0 ? Infinity : chunks);
    const scorer = createScorer(await platform.module(pickBuild(platform.features(), 'simd')), model.internals.engine.hparams.nVocab);
    const estimate = ppl ? createEstimate() : undefined;
    const datasets = lastOf(values, 'file', 'prompt') === 'file' ? [values.file!] : [];
    const windows = overWindows(model, { ids, nCtx, nChunk, parallel, computed: nCtx, outputsFrom, signal }, (window, chunk) => {
      const nll: number[] = [];
      return {
        onLogits(logits, i) {
          if (!ppl || i < first || i === nCtx - 1) return;
          scorer.load(logits);
          nll.push(nllOf(scorer, window, i, chunk));
        },
        result: nll,
      };
    });
    let done = 0;
    const all = async (): Promise<ImatrixSums> => join([{ entries: await sumsOf(model, done * nCtx), datasets }]);
    await all(); // refuses files of another model before anything is computed
    for await (const results of windows) {
      const since = done;
      for (const nll of results) {
        nll.forEach((x) => estimate?.add(x));
        bar.end(); // on a terminal the values stay above the bar
        if (estimate && !json) showRunning(done, estimate.ppl);
        bar.set(++done / nChunk);
      }
      const due = (every: number): boolean => every > 0 && Math.floor(done / every) > Math.floor(since / every);
      if (!replaceable) continue; // a pipe gets only the final result
      if (due(saveFrequency)) await save(await all(), true);
      if (due(outputFrequency)) await save(await all());
    }
    return { all: await all(), estimate };
  } finally {
    bar.end();
    await model.dispose();
  }
}

/**
 * Sums of squares of the matrices' inputs over nTokens tokens.
 * @throws ERR_LOGITS if a sum is not finite
 */
async function sumsOf(model: Model, nTokens: number): Promise<Map<string, InputSums>> {
  const { inputSums, executor } = model.internals.engine;
  const entries = new Map<string, InputSums>();
  const read = async (t: Tensor): Promise<Float32Array> => new Float32Array((await executor.read(t.data, nbytes(t))).slice().buffer);
  for (const [name, into] of inputSums) {
    const sums = await read(into.sums);
    if (!sums.every(Number.isFinite))
      throw new QuantletError(
        'ERR_LOGITS',
        `what "${name}" multiplies adds up to no finite number; the model's weights are damaged or overflow`,
      );
    entries.set(name, { sums, counts: into.counts ? await read(into.counts) : Float32Array.of(nTokens) });
  }
  return entries;
}
