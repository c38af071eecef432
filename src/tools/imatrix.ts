/**
 * Importance matrices: how much a text uses each input of a model's matrices. The method and the
 * files are those of llama-imatrix.
 */
import { QuantletError } from '../errors.ts';
import { nbytes, type Tensor } from '../graph/tensor.ts';
import type { Model } from '../model.ts';
import { checkOptions, checkValue, KIND, oneOf, or, whole, type Kinds } from '../options.ts';
import { joinImatrices, readImatrixSums, writeImatrix, writeImatrixDat, type ImatrixSums, type InputSums } from '../quantize/imatrix.ts';
import {
  checkText,
  exactKernels,
  filesOf,
  loaderOf,
  MEASURE_OPTIONS,
  PATH,
  PATHS,
  pathOf,
  signalOf,
  TEXTS,
  withFile,
  type FilePath,
  type MeasuredModel,
  type MeasureOptions,
  type ToolProgress,
} from './common.ts';
import { checkOutput, isReplaceable, writeNewFile } from './new-file.ts';
import { createScorer } from './score.ts';
import { createEstimate, mustPredict, nllOf, overWindows, windowCount, windowsAtOnce, type PerplexityEstimate } from './windows.ts';

const WRITERS = { gguf: writeImatrix, dat: writeImatrixDat };

interface OutputOptions {
  /** `gguf`, or llama-imatrix's former `dat`. Default `gguf`. */
  outputFormat?: 'gguf' | 'dat' | undefined;
}

/** Progress in windows; while the model loads, in bytes. */
export interface ImatrixProgress extends ToolProgress {
  /** Perplexity of the tokens so far, if it is measured. */
  readonly estimate?: PerplexityEstimate | undefined;
}

export interface ImatrixOptions extends MeasureOptions, OutputOptions {
  /** File to write. Default `imatrix.gguf`. */
  output?: FilePath | undefined;
  /** Also measures the output matrix. Default false. */
  processOutput?: boolean | undefined;
  /** Also measures the perplexity. Default true. */
  ppl?: boolean | undefined;
  /** Windows of the text to skip. Default 0. */
  fromChunk?: number | undefined;
  /** Reads control tokens in the text as such. Default false: as plain text. */
  parseSpecial?: boolean | undefined;
  /** Earlier measurements of the model to add. */
  inFile?: readonly FilePath[] | undefined;
  /** Writes the output every `outputFrequency` windows; 0: only at the end. Default 10. */
  outputFrequency?: number | undefined;
  /** Keeps a copy `OUTPUT.at_N` every `saveFrequency` windows. Default 0: none. */
  saveFrequency?: number | undefined;
  /** Names of the text, for the file's metadata. */
  datasets?: readonly string[] | undefined;
  onProgress?: ((progress: ImatrixProgress) => void) | undefined;
}

export interface JoinImatrixOptions extends OutputOptions {
  /** Tokens of a window, from which their number is computed. Default 512. */
  contextLength?: number | undefined;
  signal?: AbortSignal | undefined;
}

export interface ImatrixResult {
  readonly output: string;
  /** Number of measured matrices. */
  readonly matrices: number;
  /** Number of windows, those of `inFile` included, and the tokens of each. */
  readonly chunks: number;
  readonly contextLength: number;
  readonly estimate?: PerplexityEstimate | undefined;
}

const FORMAT = or(oneOf('gguf', 'dat'), 'gguf');
export const IMATRIX_OPTIONS: Kinds<ImatrixOptions> = {
  ...MEASURE_OPTIONS,
  output: PATH,
  outputFormat: FORMAT,
  processOutput: KIND.boolean,
  ppl: KIND.boolean,
  fromChunk: KIND.count,
  parseSpecial: KIND.boolean,
  inFile: PATHS,
  outputFrequency: KIND.count,
  saveFrequency: KIND.count,
  datasets: TEXTS,
};
const JOIN_OPTIONS: Kinds<JoinImatrixOptions> = { outputFormat: FORMAT, contextLength: whole(4), signal: KIND.signal };

/** Writes the sums, or a copy of them under the name of its number of windows. */
type Save = (all: ImatrixSums, copy?: boolean) => Promise<void>;

interface Run extends ImatrixOptions {
  readonly path: string;
  readonly nCtx: number;
  readonly before: readonly ImatrixSums[];
  readonly save: Save;
}

const resultOf = (output: string, all: ImatrixSums, contextLength: number): ImatrixResult => ({
  output,
  matrices: all.entries.size,
  chunks: all.chunkCount,
  contextLength,
});

const saver =
  (output: string, format: 'gguf' | 'dat' = 'gguf', nCtx: number, signal: AbortSignal | undefined): Save =>
  (all, copy = false) =>
    writeNewFile(copy ? `${output}.at_${all.chunkCount}` : output, (write) => write(WRITERS[format](all, nCtx), 0), signal);

/**
 * Runs a model over a text and writes the sums of squares of its matrices' inputs, for quantize().
 * After an abort the output is as the last `outputFrequency` left it. Source: llama.cpp,
 * tools/imatrix.
 * @param model as for loadModel, or a function that loads it
 * @throws QuantletError ERR_INVALID_ARGUMENT for wrong options, a text shorter than a window, a
 * model that does not generate text, or sums of another model; ERR_LOGITS; ERR_IO; as loadModel;
 * `signal.reason`
 */
export async function imatrix(model: MeasuredModel, text: string, options?: ImatrixOptions): Promise<ImatrixResult> {
  const given = checkOptions('imatrix', options, IMATRIX_OPTIONS);
  checkText('imatrix', text);
  const { output = 'imatrix.gguf', inFile = [], outputFormat, contextLength: nCtx = 512, signal } = given;
  const path = pathOf(output);
  const before: ImatrixSums[] = [];
  for (const file of inFile) before.push(await readSums(pathOf(file), signal));
  await checkOutput(path, filesOf(model));
  const save = saver(path, outputFormat, nCtx, signal);
  const { all, estimate } = await measure(model, text, { ...given, path, nCtx, before, save });
  await save(all);
  return { ...resultOf(path, all, nCtx), ...(estimate && { estimate }) };
}

/**
 * Joins importance matrices of one model, as if their texts had been measured one after another.
 * @throws QuantletError ERR_INVALID_ARGUMENT for wrong options or sums of different models; as
 * reading and writing do; `signal.reason`
 */
export async function joinImatrix(inFile: readonly FilePath[], output: FilePath, options?: JoinImatrixOptions): Promise<ImatrixResult> {
  const { outputFormat, contextLength = 512, signal } = checkOptions('joinImatrix', options, JOIN_OPTIONS);
  checkValue('joinImatrix', 'inFile', inFile, PATHS);
  checkValue('joinImatrix', 'output', output, PATH);
  const before: ImatrixSums[] = [];
  for (const file of inFile) before.push(await readSums(pathOf(file), signal));
  const all = joinImatrices(before, contextLength);
  await saver(pathOf(output), outputFormat, contextLength, signal)(all);
  return resultOf(pathOf(output), all, contextLength);
}

const readSums = (path: string, signal: AbortSignal | undefined): Promise<ImatrixSums> =>
  withFile(path, signal, (bytes) => readImatrixSums(bytes, signal));

/** Runs the model over the text and writes the file at intervals. */
async function measure(
  source: MeasuredModel,
  text: string,
  run: Run,
): Promise<{ all: ImatrixSums; estimate: PerplexityEstimate | undefined }> {
  const { nCtx, before, save, processOutput = false, ppl = true, fromChunk = 0, chunks = Infinity, onProgress, batchSize = 512 } = run;
  const { outputFrequency = 10, saveFrequency = 0, datasets = [], parseSpecial = false } = run;
  const signal = signalOf(run.signal);
  const replaceable = await isReplaceable(run.path);
  const first = nCtx >> 1;
  const outputsFrom = processOutput ? 0 : ppl ? first : nCtx;
  const parallel = windowsAtOnce(nCtx, batchSize);
  const load = loaderOf(source, run, onProgress);
  const model = await load({
    contextLength: nCtx,
    parallel,
    maxOutputs: Math.max(1, Math.min(batchSize, parallel * (nCtx - outputsFrom))),
    batchSize,
    warmUp: false, // its tokens would be counted
    inputSums: (name) => name.startsWith('blk.') || (processOutput && name === 'output.weight'),
  });
  try {
    mustPredict(model);
    const ids = model.tokenize(text, { parseSpecial }).slice(fromChunk * nCtx);
    const nChunk = windowCount(ids.length, nCtx, chunks);
    const scorer = createScorer(await exactKernels(), model.internals.engine.hparams.nVocab);
    const estimate = ppl ? createEstimate() : undefined;
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
    const all = async (): Promise<ImatrixSums> => joinImatrices([...before, { entries: await sumsOf(model, done * nCtx), datasets }], nCtx);
    await all(); // refuses files of another model before anything is computed
    for await (const results of windows) {
      const since = done;
      for (const nll of results) {
        for (const x of nll) estimate?.add(x);
        done++;
        onProgress?.({ phase: 'measuring', done, total: nChunk, estimate: estimate?.value() });
        signal.throwIfAborted();
      }
      const due = (every: number): boolean => every > 0 && Math.floor(done / every) > Math.floor(since / every);
      if (!replaceable) continue; // a pipe gets only the final result
      if (due(saveFrequency)) await save(await all(), true);
      if (due(outputFrequency)) await save(await all());
    }
    return { all: await all(), estimate: estimate?.value() };
  } finally {
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
      throw new QuantletError('ERR_LOGITS', `the inputs of "${name}" have no finite sum; the model's weights are damaged or overflow`);
    entries.set(name, { sums, counts: into.counts ? await read(into.counts) : Float32Array.of(nTokens) });
  }
  return entries;
}
