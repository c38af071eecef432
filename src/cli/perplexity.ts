/**
 * quantlet perplexity: measures how well a model predicts a text, by the method of
 * llama-perplexity.
 */
import { platform } from '../entry/node-platform.ts';
import { QuantletError } from '../errors.ts';
import type { Model } from '../model.ts';
import { pickBuild } from '../wasm/load.ts';
import { COMPUTE_FLAGS, MODEL_FLAGS, openModel, type Command } from './command.ts';
import { parseOnlyFlags } from './parse-flags.ts';
import { countedOf, createKlBase, openKlBase, type KlBase } from './kl-base.ts';
import { filesRead } from './files-read.ts';
import { checkOutput, tell } from './new-file.ts';
import { KL_HEAD, klLine, klReport, klResult, klValues } from './kl-stats.ts';
import { progressBar } from './progress.ts';
import { createScorer, rowWords, type Scorer } from './score.ts';
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
  type WindowReader,
} from './windows.ts';
import { endUnread } from './unread.ts';

const KEYS = [
  ...MODEL_FLAGS,
  'file',
  'prompt',
  'ctx',
  'chunks',
  'threads',
  'threadsBatch',
  'batch',
  ...COMPUTE_FLAGS,
  'klBase',
  'kl',
  'warmup',
  'turbo',
  'verbose',
  'build',
  'json',
  'help',
] as const;

export const perplexity: Command = {
  name: 'perplexity',
  llama: 'llama-perplexity',
  synopsis: '-m FILE -f TEXT [-c 512] [--json]',
  summary: 'measure how well a model predicts a text',
  flags: KEYS,
  defaults: { ctx: '512' },
  examples: [
    'quantlet perplexity -m model.gguf -f wiki.test.raw -c 512',
    'quantlet perplexity -m f16.gguf -f wiki.test.raw --kl-divergence-base base.kld',
    'quantlet perplexity -m q4.gguf --kl-divergence-base base.kld --kl-divergence',
  ],
  async run(argv, signal) {
    const values = parseOnlyFlags(argv, KEYS, 'give the text with -f', 'perplexity');
    if (values.kl && values.klBase === undefined)
      throw new QuantletError('ERR_USAGE', '--kl-divergence needs --kl-divergence-base FILE, the logits to compare with');
    checkWindows(values);
    const { json = false, batch = 512, chunks = -1 } = values;
    const text = values.kl ? '' : await textOf(values);
    if (text === undefined) throw new QuantletError('ERR_USAGE', 'give the text to measure with -f FILE');
    if (values.klBase !== undefined && !values.kl) await checkOutput(values.klBase, filesRead(values));
    else endUnread();
    const base = values.kl ? await openKlBase(values.klBase!) : undefined;
    try {
      const nCtx = base?.nCtx ?? values.ctx ?? 512;
      const parallel = windowsAtOnce(nCtx, batch);
      const model = await openModel({ ...values, ctx: nCtx }, signal, {
        parallel,
        maxOutputs: Math.min(batch, parallel * countedOf(nCtx)),
        batchSize: batch,
      });
      try {
        mustPredict(model);
        const ids = base ? [...base.tokens] : model.tokenize(text);
        const most = Math.min(chunks < 0 ? Infinity : chunks, base?.nChunk ?? Infinity);
        const scorer = createScorer(await platform.module(pickBuild(platform.features(), 'simd')), model.internals.engine.hparams.nVocab);
        const result = await measure(model, scorer, ids, nCtx, most, parallel, {
          base,
          saveTo: values.kl ? undefined : values.klBase,
          json,
          signal,
        });
        tell(
          json
            ? `${JSON.stringify(result)}\n`
            : `\n${finalLine({ ...result, stderr: result.ppl_stderr })} over ${result.tokens} tokens\n${result.kl ? `\n${klReport(result.kl)}` : ''}`,
        );
        return 0;
      } finally {
        await model.dispose();
      }
    } finally {
      await base?.close();
    }
  },
};

interface Options {
  base: KlBase | undefined;
  saveTo: string | undefined;
  json: boolean;
  signal: AbortSignal;
}

/** Results of one window, by counted position. */
interface Window {
  readonly nll: Float64Array;
  /** Rows for the base file that is being written. */
  readonly rows: Uint16Array | undefined;
  readonly compared: { readonly kld: number; readonly logProb: number; readonly same: boolean }[];
}

/** Measures all windows, in the order of the text. */
async function measure(
  model: Model,
  scorer: Scorer,
  ids: readonly number[],
  nCtx: number,
  most: number,
  parallel: number,
  { base, saveTo, json, signal }: Options,
) {
  const { nVocab } = model.internals.engine.hparams;
  const first = nCtx >> 1;
  const counted = countedOf(nCtx);
  const words = rowWords(nVocab);
  if (base && base.nVocab !== nVocab)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `the base has a vocabulary of ${base.nVocab} tokens, the model one of ${nVocab}: expected logits of the same family of models`,
    );
  const nChunk = windowCount(ids.length, nCtx, most);

  const reader = async (window: readonly number[], chunk: number): Promise<WindowReader<Window>> => {
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

  const file = saveTo === undefined ? undefined : await createKlBase(saveTo, nCtx, nVocab, nChunk, ids, signal);
  const bar = progressBar('measuring');
  const kl = base && klValues();
  const estimate = createEstimate();
  const count = async ({ nll, rows, compared }: Window, chunk: number): Promise<void> => {
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
    if (!json) {
      bar.end(); // on a terminal the values stay above the bar
      if (kl) tell(`${chunk === 0 ? KL_HEAD : ''}${klLine(chunk + 1, kl)}`);
      else showRunning(chunk, estimate.ppl);
    }
    bar.set((chunk + 1) / nChunk);
  };

  try {
    // A window's last token predicts no counted token, so it is not computed.
    const windows = overWindows(model, { ids, nCtx, nChunk, parallel, computed: nCtx - 1, outputsFrom: first, signal }, reader);
    let chunk = 0;
    for await (const done of windows) for (const window of done) await count(window, chunk++);
    await file?.finish();
  } finally {
    bar.end();
    await file?.close();
  }
  const { ppl, nll, tokens, stderr } = estimate;
  return { ppl, nll, tokens, ppl_stderr: stderr, chunks: nChunk, n_ctx: nCtx, ...(kl ? { kl: klResult(kl) } : {}) };
}
