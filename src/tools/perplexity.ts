/**
 * Perplexity and KL divergence: how well a model predicts a text, and how far it is from another
 * one. The method is that of llama-perplexity.
 */
import { QuantletError } from '../errors.ts';
import type { Model } from '../model.ts';
import { checkOptions, checkValue } from '../options.ts';
import {
  checkText,
  exactKernels,
  filesOf,
  loaderOf,
  MEASURE_OPTIONS,
  PATH,
  pathOf,
  signalOf,
  type FilePath,
  type MeasuredModel,
  type MeasureOptions,
  type ToolProgress,
} from './common.ts';
import { countedOf, createKlBase, openKlBase, type KlBase } from './kl-base.ts';
import { klStatistics, klSummary, klValues, type KlStatistics, type KlSummary } from './kl-stats.ts';
import { checkOutput } from './new-file.ts';
import { createScorer, rowWords } from './score.ts';
import {
  createEstimate,
  mustPredict,
  nllOf,
  overWindows,
  windowCount,
  windowsAtOnce,
  type PerplexityEstimate,
  type WindowReader,
} from './windows.ts';

/** Progress in windows; while the model loads, in bytes. */
export interface PerplexityProgress extends ToolProgress {
  /** The estimate so far, after each window. */
  readonly estimate?: PerplexityEstimate;
}

export interface PerplexityOptions extends MeasureOptions {
  /**
   * File for the model's log probabilities, of llama-perplexity's format. klDivergence() compares
   * other models with it. It takes 2 bytes for each counted token and entry of the vocabulary.
   */
  klDivergenceBase?: FilePath | undefined;
  onProgress?: ((progress: PerplexityProgress) => void) | undefined;
}

export interface PerplexityResult extends PerplexityEstimate {
  /** Number of windows, and the tokens of each. */
  readonly chunks: number;
  readonly contextLength: number;
}

export interface KlDivergenceProgress extends PerplexityProgress {
  /** Statistics so far, computed when they are read. */
  readonly kl?: KlSummary | undefined;
}

export interface KlDivergenceOptions extends Omit<MeasureOptions, 'contextLength'> {
  onProgress?: ((progress: KlDivergenceProgress) => void) | undefined;
}

export interface KlDivergenceResult extends PerplexityResult {
  readonly kl: KlStatistics;
}

/**
 * Measures how well a model predicts a text: in windows of `contextLength` tokens, of which the
 * second halves count. Source: llama.cpp, tools/perplexity.
 * @param model as for loadModel, or a function that loads it
 * @throws QuantletError ERR_INVALID_ARGUMENT for wrong options, a text shorter than a window, or a
 * model that does not generate text; ERR_LOGITS; ERR_IO; as loadModel; `signal.reason`
 */
export async function perplexity(model: MeasuredModel, text: string, options?: PerplexityOptions): Promise<PerplexityResult> {
  const given = checkOptions<PerplexityOptions>('perplexity', options, { ...MEASURE_OPTIONS, klDivergenceBase: PATH });
  checkText('perplexity', text);
  const { klDivergenceBase, ...rest } = given;
  const saveTo = klDivergenceBase && pathOf(klDivergenceBase);
  if (saveTo !== undefined) await checkOutput(saveTo, filesOf(model));
  return measure(model, rest, { text, saveTo });
}

/**
 * Compares a model with the log probabilities of another one, over the text and in the windows that
 * the file was made with.
 * @param base file that perplexity() or llama-perplexity wrote (`klDivergenceBase`)
 * @throws QuantletError ERR_IO for a file that is missing, damaged or of another kind;
 * ERR_INVALID_ARGUMENT for another vocabulary; as perplexity()
 */
export async function klDivergence(model: MeasuredModel, base: FilePath, options?: KlDivergenceOptions): Promise<KlDivergenceResult> {
  const { contextLength: _, ...kinds } = MEASURE_OPTIONS;
  const given = checkOptions<KlDivergenceOptions>('klDivergence', options, kinds);
  checkValue('klDivergence', 'base', base, PATH);
  const opened = await openKlBase(pathOf(base));
  try {
    const { kl, ...result } = await measure(model, given, { base: opened });
    return { ...result, kl: kl! };
  } finally {
    await opened.close();
  }
}

interface Task {
  readonly text?: string;
  readonly saveTo?: string | undefined;
  readonly base?: KlBase;
}

interface Options extends MeasureOptions {
  onProgress?: ((progress: KlDivergenceProgress) => void) | undefined;
}

async function measure(source: MeasuredModel, { chunks = Infinity, onProgress, ...given }: Options, { text = '', saveTo, base }: Task) {
  const { batchSize = 512 } = given;
  const nCtx = base?.nCtx ?? given.contextLength ?? 512;
  const parallel = windowsAtOnce(nCtx, batchSize);
  const needed = { contextLength: nCtx, parallel, maxOutputs: Math.min(batchSize, parallel * countedOf(nCtx)), batchSize };
  const model = await loaderOf(source, given, onProgress)(needed);
  try {
    mustPredict(model);
    const ids = base ? [...base.tokens] : model.tokenize(text);
    const nChunk = windowCount(ids.length, nCtx, Math.min(chunks, base?.nChunk ?? Infinity));
    return await overText({ model, ids, nCtx, nChunk, parallel, base, saveTo, signal: signalOf(given.signal), onProgress });
  } finally {
    await model.dispose();
  }
}

interface Run {
  readonly model: Model;
  readonly ids: readonly number[];
  readonly nCtx: number;
  readonly nChunk: number;
  readonly parallel: number;
  readonly base: KlBase | undefined;
  readonly saveTo: string | undefined;
  readonly signal: AbortSignal;
  readonly onProgress: Options['onProgress'];
}

/** Results of one window, by counted position. */
interface Window {
  readonly nll: Float64Array;
  /** Rows for the base file that is being written. */
  readonly rows: Uint16Array | undefined;
  readonly compared: { readonly kld: number; readonly logProb: number; readonly same: boolean }[];
}

/** Reader of the logits of each window. */
async function windowReader({ model, nCtx, base, saveTo }: Run) {
  const { nVocab } = model.internals.engine.hparams;
  const first = nCtx >> 1;
  const counted = countedOf(nCtx);
  const words = rowWords(nVocab);
  const scorer = createScorer(await exactKernels(), nVocab);
  return async (window: readonly number[], chunk: number): Promise<WindowReader<Window>> => {
    const nll = new Float64Array(counted);
    const rows = saveTo === undefined ? undefined : new Uint16Array(counted * words);
    const compared: Window['compared'] = [];
    const baseRows = await base?.rows(chunk);
    return {
      onLogits(logits, i) {
        const k = i - first;
        scorer.load(logits);
        nll[k] = nllOf(scorer, window, i, chunk);
        if (rows) scorer.pack(rows.subarray(k * words, (k + 1) * words));
        if (baseRows) {
          const { kld, logProb, top } = scorer.compare(baseRows.subarray(k * words, (k + 1) * words), window[i + 1]);
          compared.push({ kld, logProb, same: top === scorer.top() });
        }
      },
      result: { nll, rows, compared },
    };
  };
}

/** Measures all windows, in the order of the text. */
async function overText(run: Run) {
  const { model, ids, nCtx, nChunk, parallel, base, saveTo, signal, onProgress } = run;
  const { nVocab } = model.internals.engine.hparams;
  if (base && base.nVocab !== nVocab)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `the base has a vocabulary of ${base.nVocab} tokens, the model one of ${nVocab}; expected logits of the same family of models`,
    );
  const read = await windowReader(run);
  const file = saveTo === undefined ? undefined : await createKlBase(saveTo, nCtx, nVocab, nChunk, ids, signal);
  const kl = base && klValues();
  const estimate = createEstimate();
  try {
    // A window's last token predicts no counted token, so it is not computed.
    const windows = overWindows(model, { ids, nCtx, nChunk, parallel, computed: nCtx - 1, outputsFrom: nCtx >> 1, signal }, read);
    let done = 0;
    for await (const results of windows)
      for (const { nll, rows, compared } of results) {
        for (const [i, x] of nll.entries()) {
          estimate.add(x);
          if (!kl) continue;
          const { kld, logProb, same } = compared[i];
          kl.nll.push(x);
          kl.nllBase.push(-logProb);
          kl.kld.push(kld);
          kl.dp.push(Math.exp(-x) - Math.exp(logProb));
          if (same) kl.same++;
        }
        if (rows) await file!.write(rows);
        done++;
        onProgress?.({
          phase: 'measuring',
          done,
          total: nChunk,
          estimate: estimate.value(),
          get kl() {
            return kl && klSummary(kl);
          },
        });
        signal.throwIfAborted();
      }
    await file?.finish();
  } finally {
    await file?.close();
  }
  return { ...estimate.value(), chunks: nChunk, contextLength: nCtx, ...(kl && { kl: klStatistics(kl) }) };
}
