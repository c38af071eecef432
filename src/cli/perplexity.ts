/** quantlet perplexity: how well a model predicts a text, as llama-perplexity counts it. */
import { platform } from '../entry/node-platform.ts';
import { QuantletError } from '../errors.ts';
import { alignUp } from '../gguf/types.ts';
import { KV_SPLIT } from '../graph/layout.ts';
import type { Model } from '../model.ts';
import { pickBuild } from '../wasm/load.ts';
import { CACHE_FLAGS, MODEL_FLAGS, openModel, readText, type Command } from './command.ts';
import { lastOf, type Values } from './flags.ts';
import { parseOnlyFlags } from './parse-flags.ts';
import { countedOf, createKlBase, openKlBase, type KlBase } from './kl-base.ts';
import { KL_HEAD, klLine, klReport, klResult, klValues } from './kl-stats.ts';
import { progressBar } from './progress.ts';
import { createScorer, rowWords, type Scorer } from './score.ts';

const KEYS = [
  ...MODEL_FLAGS,
  'file',
  'prompt',
  'ctx',
  'chunks',
  'threads',
  'threadsBatch',
  'batch',
  ...CACHE_FLAGS,
  'klBase',
  'kl',
  'warmup',
  'turbo',
  'verbose',
  'build',
  'json',
  'help',
] as const;

/** Cells of the cache that windows computed at the same time may take: more would cost memory and gain nothing. */
const MOST_CELLS = 4096;

export const perplexity: Command = {
  name: 'perplexity',
  llama: 'llama-perplexity',
  synopsis: '-m FILE -f TEXT [-c 512] [--json]',
  summary: 'measure how well a model predicts a text',
  flags: KEYS,
  examples: [
    'quantlet perplexity -m model.gguf -f wiki.test.raw -c 512',
    'quantlet perplexity -m f16.gguf -f wiki.test.raw --kl-divergence-base base.kld',
    'quantlet perplexity -m q4.gguf --kl-divergence-base base.kld --kl-divergence',
  ],
  async run(argv, signal) {
    const values = parseOnlyFlags(argv, KEYS, 'give the text with -f', 'perplexity');
    if (values.kl && values.klBase === undefined)
      throw new QuantletError('ERR_USAGE', '--kl-divergence needs --kl-divergence-base FILE, the logits to compare with');
    const { json = false, batch = 512, chunks = -1 } = values;
    if (values.ctx !== undefined && values.ctx < 4)
      throw new QuantletError('ERR_USAGE', `-c is ${values.ctx}; a window needs at least 4 tokens`);
    if (batch < 1) throw new QuantletError('ERR_USAGE', `-b is ${batch}; expected at least 1`);
    if (chunks === 0) throw new QuantletError('ERR_USAGE', '--chunks is 0; expected at least 1, or -1 for all');
    const text = values.kl ? '' : await textOf(values);
    const base = values.kl ? await openKlBase(values.klBase!) : undefined;
    try {
      const nCtx = base?.nCtx ?? values.ctx ?? 512;
      const cells = alignUp(nCtx, KV_SPLIT);
      // As many windows at once as make a whole batch: small windows would leave the products narrow.
      const parallel = Math.max(1, Math.min(Math.floor(batch / nCtx), Math.floor(MOST_CELLS / cells)));
      const model = await openModel({ ...values, ctx: nCtx }, signal, {
        parallel,
        maxOutputs: Math.min(batch, parallel * countedOf(nCtx)),
        batchSize: batch,
      });
      try {
        const { wants } = model.internals.engine;
        if (wants !== 'logits')
          throw new QuantletError(
            'ERR_INVALID_ARGUMENT',
            `this ${model.architecture} model makes ${wants} and does not predict text; expected a model that generates it`,
          );
        const ids = base ? [...base.tokens] : model.tokenize(text);
        const most = Math.min(chunks < 0 ? Infinity : chunks, base?.nChunk ?? Infinity);
        const scorer = createScorer(await platform.module(pickBuild(platform.features(), 'simd')), model.internals.engine.hparams.nVocab);
        const result = await measure(model, scorer, ids, nCtx, most, parallel, {
          base,
          saveTo: values.kl ? undefined : values.klBase,
          json,
          signal,
        });
        process.stdout.write(
          json
            ? `${JSON.stringify(result)}\n`
            : `\nFinal estimate: PPL = ${result.ppl.toFixed(4)} +/- ${result.ppl_stderr.toFixed(5)} over ${result.tokens} tokens\n${result.kl ? `\n${klReport(result.kl)}` : ''}`,
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

async function textOf(values: Values<'file' | 'prompt'>): Promise<string> {
  const { file, prompt } = values;
  const text = lastOf(values, 'file', 'prompt') === 'file' ? await readText(file!, 'the text') : prompt;
  if (text === undefined) throw new QuantletError('ERR_USAGE', 'give the text to measure with -f FILE');
  return text;
}

interface Options {
  base: KlBase | undefined;
  saveTo: string | undefined;
  json: boolean;
  signal: AbortSignal;
}

/** What one window gave, by its counted positions. */
interface Window {
  readonly nll: Float64Array;
  /** For a base file. */
  readonly rows: Uint16Array | undefined;
  readonly compared: { readonly kld: number; readonly logProb: number; readonly same: boolean }[];
}

/** Windows of nCtx tokens, the first replaced by BOS; the second half of each is counted. */
async function measure(
  model: Model,
  scorer: Scorer,
  ids: readonly number[],
  nCtx: number,
  most: number,
  parallel: number,
  { base, saveTo, json, signal }: Options,
) {
  const { scheduler, tokenizer, engine, slots } = model.internals;
  const nVocab = engine.hparams.nVocab;
  const first = nCtx >> 1;
  const counted = countedOf(nCtx);
  const words = rowWords(nVocab);
  if (base && base.nVocab !== nVocab)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `the base has a vocabulary of ${base.nVocab} tokens, the model one of ${nVocab}: expected logits of the same family of models`,
    );
  const nChunk = Math.min(most, Math.floor(ids.length / nCtx));
  if (nChunk < 1)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `the text has ${ids.length} tokens; expected at least one window of ${nCtx}: give a longer text or a smaller -c`,
    );
  const bos = tokenizer.addBos ? tokenizer.special.bos : undefined;

  const oneChunk = async (chunk: number): Promise<Window> => {
    const window = ids.slice(chunk * nCtx, (chunk + 1) * nCtx);
    window[0] = bos ?? window[0];
    const nll = new Float64Array(counted);
    const rows = saveTo === undefined ? undefined : new Uint16Array(counted * words);
    const compared: Window['compared'] = [];
    const baseRows = await base?.rows(chunk);
    const slot = await slots.acquire(signal);
    try {
      // The last token predicts nothing that is counted: it is not computed.
      slot.truncate(0);
      await scheduler.submit(
        slot,
        window.slice(0, nCtx - 1),
        first,
        (logits, i) => {
          const k = i - first;
          const id = window[i + 1];
          scorer.load(logits);
          nll[k] = -scorer.logProb(id);
          if (!Number.isFinite(nll[k]))
            throw new QuantletError(
              'ERR_LOGITS',
              `the logits after token ${i} of window ${chunk + 1} are not finite; the model's weights are damaged or overflow`,
            );
          if (rows) scorer.pack(rows.subarray(k * words, (k + 1) * words));
          if (baseRows) {
            const { kld, logProb, top } = scorer.compare(baseRows.subarray(k * words, (k + 1) * words), id);
            compared.push({ kld, logProb, same: top === scorer.top() });
          }
        },
        signal,
      );
    } finally {
      slots.release(slot);
    }
    return { nll, rows, compared };
  };

  const file = saveTo === undefined ? undefined : await createKlBase(saveTo, nCtx, nVocab, nChunk, ids);
  const bar = progressBar('measuring');
  const kl = base && klValues();
  let tokens = 0;
  let sum = 0;
  let sumOfSquares = 0;
  const count = async ({ nll, rows, compared }: Window, chunk: number): Promise<void> => {
    for (const [i, x] of nll.entries()) {
      tokens++;
      sum += x;
      sumOfSquares += x * x;
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
      bar.end(); // on a terminal the values stand above the bar
      const line = kl ? `${chunk === 0 ? KL_HEAD : ''}${klLine(chunk + 1, kl)}` : `[${chunk + 1}]${Math.exp(sum / tokens).toFixed(4)},`;
      process.stdout.write(kl || !process.stdout.isTTY ? line : `${line}\n`);
    }
    bar.set((chunk + 1) / nChunk);
  };

  try {
    for (let chunk = 0; chunk < nChunk; chunk += parallel) {
      const windows = await Promise.all(Array.from({ length: Math.min(parallel, nChunk - chunk) }, (_, i) => oneChunk(chunk + i)));
      for (const [i, window] of windows.entries()) await count(window, chunk + i); // in the text's order, whoever was done first
    }
    await file?.finish();
  } finally {
    bar.end();
    await file?.close();
    engine.executor.rest();
  }
  const nll = sum / tokens;
  const ppl = Math.exp(nll);
  const spread = Math.sqrt(Math.max(0, sumOfSquares / tokens - nll * nll) / Math.max(1, tokens - 1));
  return { ppl, nll, tokens, ppl_stderr: ppl * spread, chunks: nChunk, n_ctx: nCtx, ...(kl ? { kl: klResult(kl) } : {}) };
}
