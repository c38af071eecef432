/** quantlet perplexity: how well a model predicts a text, as llama-perplexity counts it. */
import { readFile } from 'node:fs/promises';
import { QuantletError } from '../errors.ts';
import type { Model } from '../model.ts';
import { openModel, progressBar, type Command } from './command.ts';
import { parseFlags } from './flags.ts';
import { createKlBase, openKlBase, packLogProbs, rowWords, unpackLogProbs, type KlBase } from './kl-base.ts';

const KEYS = ['model', 'file', 'prompt', 'ctx', 'chunks', 'threads', 'batch', 'klBase', 'kl', 'build', 'json', 'help'] as const;

/** Sums over counted tokens. */
interface Sums {
  tokens: number;
  nll: number;
  nll2: number;
}

export const perplexity: Command = {
  name: 'perplexity',
  synopsis: '-m FILE -f TEXT [-c 512] [--json]',
  summary: 'measure how well a model predicts a text',
  flags: KEYS,
  examples: ['quantlet perplexity -m model.gguf -f wiki.test.raw -c 512', 'quantlet perplexity -m f16.gguf -f wiki.test.raw --kl-divergence-base base.kld', 'quantlet perplexity -m q4.gguf --kl-divergence-base base.kld --kl-divergence'],
  async run(argv, signal) {
    const { values, positionals } = parseFlags(argv, KEYS);
    if (positionals.length > 0) throw new QuantletError('ERR_USAGE', `perplexity takes no "${positionals[0]}"; give the text with -f`);
    if (values.kl && values.klBase === undefined) throw new QuantletError('ERR_USAGE', '--kl-divergence needs --kl-divergence-base FILE, the logits to compare with');
    const base = values.kl ? await openKlBase(values.klBase!) : undefined;
    const nCtx = base?.nCtx ?? values.ctx ?? 512, batch = values.batch ?? 512;
    if (nCtx < 4) throw new QuantletError('ERR_USAGE', `-c is ${nCtx}; a window needs at least 4 tokens`);
    // As many windows at once as make a whole batch: small windows would leave the products narrow.
    const parallel = Math.max(1, Math.floor(batch / nCtx));
    const model = await openModel({ ...values, ctx: nCtx }, signal, { parallel, maxOutputs: batch, batchSize: batch });
    try {
      const ids = base ? [...base.tokens] : model.tokenize(await readText(values.file, values.prompt));
      const result = await measure(model, ids, nCtx, Math.min(values.chunks ?? Infinity, base?.nChunk ?? Infinity), parallel, { base, saveTo: values.kl ? undefined : values.klBase, json: values.json ?? false, signal });
      process.stdout.write(values.json ? `${JSON.stringify(result)}\n` : `\nFinal estimate: PPL = ${result.ppl.toFixed(4)} +/- ${result.ppl_stderr.toFixed(5)} over ${result.tokens} tokens\n${klReport(result)}`);
      return 0;
    } finally {
      await model.dispose();
      await base?.close();
    }
  },
};

async function readText(file: string | undefined, prompt: string | undefined): Promise<string> {
  if (file === undefined && prompt === undefined) throw new QuantletError('ERR_USAGE', 'give the text to measure with -f FILE');
  if (file === undefined) return prompt!;
  return readFile(file, 'utf8').catch((cause: Error) => {
    throw new QuantletError('ERR_SOURCE', `cannot read the text ${file}: ${cause.message}`, { cause });
  });
}

interface Options {
  base: KlBase | undefined;
  saveTo: string | undefined;
  json: boolean;
  signal: AbortSignal;
}

/** Windows of nCtx tokens, the first replaced by BOS; the second half of each is counted. */
async function measure(model: Model, ids: readonly number[], nCtx: number, most: number, parallel: number, { base, saveTo, json, signal }: Options) {
  const { scheduler, tokenizer, engine } = model.state;
  const nVocab = engine.hparams.nVocab, first = nCtx >> 1;
  if (base && base.nVocab !== nVocab) throw new QuantletError('ERR_IO', `the base has a vocabulary of ${base.nVocab}, the model one of ${nVocab}: they are not the same kind of model`);
  const nChunk = Math.min(most, Math.floor(ids.length / nCtx));
  if (nChunk < 1) throw new QuantletError('ERR_INVALID_ARGUMENT', `the text has ${ids.length} tokens; expected at least one window of ${nCtx}: give a longer text or a smaller -c`);
  const file = saveTo === undefined ? undefined : await createKlBase(saveTo, nCtx, nVocab, nChunk, ids);
  const bar = progressBar('measuring');
  const sums: Sums = { tokens: 0, nll: 0, nll2: 0 };
  const kl = base && klSums();
  const words = rowWords(nVocab), counted = nCtx - 1 - first;
  const baseLogProbs = new Float32Array(nVocab);

  const oneChunk = async (chunk: number): Promise<() => Promise<void>> => {
    const window = ids.slice(chunk * nCtx, (chunk + 1) * nCtx);
    if (tokenizer.addBos && tokenizer.special.bos !== undefined) window[0] = tokenizer.special.bos;
    const nll = new Float64Array(counted);
    const rows = file && new Uint16Array(counted * words);
    const baseRows = await base?.rows(chunk);
    const klOf: (() => void)[] = [];
    const slot = await scheduler.acquire(signal);
    try {
      // The last token predicts nothing that is counted: it is not computed.
      await scheduler.submit(slot, 0, window.slice(0, nCtx - 1), first, (logits, i) => {
        const k = i - first;
        nll[k] = negativeLogProb(logits, window[i + 1]);
        if (rows) packLogProbs(logits, rows.subarray(k * words, (k + 1) * words));
        if (baseRows && kl) {
          unpackLogProbs(baseRows.subarray(k * words, (k + 1) * words), baseLogProbs);
          klOf.push(kl.compare(logits, baseLogProbs, window[i + 1]));
        }
      }, signal);
    } finally {
      model.state.slots[slot].tokens.length = 0;
      scheduler.release(slot);
    }
    return async () => {
      for (const x of nll) {
        sums.tokens++;
        sums.nll += x;
        sums.nll2 += x * x;
      }
      klOf.forEach((add) => add());
      if (rows) await file!.write(new Uint8Array(rows.buffer));
      if (!json) process.stdout.write(`[${chunk + 1}]${Math.exp(sums.nll / sums.tokens).toFixed(4)},`);
      bar.set((chunk + 1) / nChunk);
    };
  };

  try {
    for (let chunk = 0; chunk < nChunk; chunk += parallel) {
      const some = await Promise.all(Array.from({ length: Math.min(parallel, nChunk - chunk) }, (_, i) => oneChunk(chunk + i)));
      for (const add of some) await add(); // in the text's order, whoever was done first
    }
  } finally {
    bar.end();
    await file?.close();
    engine.executor.rest();
  }
  const nll = sums.nll / sums.tokens, ppl = Math.exp(nll);
  const spread = Math.sqrt(Math.max(0, sums.nll2 / sums.tokens - nll * nll) / Math.max(1, sums.tokens - 1));
  return { ppl, nll, tokens: sums.tokens, ppl_stderr: ppl * spread, chunks: nChunk, n_ctx: nCtx, ...(kl ? { kl: kl.result() } : {}) };
}

function negativeLogProb(logits: Float32Array, id: number): number {
  let max = -Infinity, sum = 0;
  for (let i = 0; i < logits.length; i++) if (logits[i] > max) max = logits[i];
  for (let i = 0; i < logits.length; i++) sum += Math.exp(logits[i] - max);
  return max + Math.log(sum) - logits[id];
}

/** Statistics of a model against the base, over all counted tokens. */
function klSums() {
  const kld: number[] = [], dp: number[] = [];
  let same = 0, logRatio = 0, baseNll = 0;
  return {
    compare(logits: Float32Array, base: Float32Array, id: number): () => void {
      let max = -Infinity, sum = 0, top = 0, baseTop = 0, d = 0;
      for (let i = 0; i < logits.length; i++) {
        if (logits[i] > max) [max, top] = [logits[i], i];
        if (base[i] > base[baseTop]) baseTop = i;
      }
      for (let i = 0; i < logits.length; i++) sum += Math.exp(logits[i] - max);
      const norm = max + Math.log(sum);
      for (let i = 0; i < logits.length; i++) d += Math.exp(base[i]) * (base[i] - logits[i] + norm);
      const p = logits[id] - norm, b = base[id];
      return () => {
        kld.push(d);
        dp.push(Math.exp(p) - Math.exp(b));
        logRatio += b - p;
        baseNll -= b;
        if (top === baseTop) same++;
      };
    },
    result() {
      const n = kld.length, sorted = [...kld].sort((x, y) => x - y), at = (q: number): number => sorted[Math.min(n - 1, Math.floor(q * n))];
      const mean = (a: readonly number[]): number => a.reduce((x, y) => x + y, 0) / a.length;
      return {
        base_ppl: Math.exp(baseNll / n), ln_ppl_ratio: logRatio / n, mean_kld: mean(kld), max_kld: sorted[n - 1], p99_kld: at(0.99), median_kld: at(0.5), min_kld: sorted[0],
        mean_dp: mean(dp), rms_dp: Math.sqrt(mean(dp.map((x) => x * x))), same_top: same / n,
      };
    },
  };
}

const klReport = ({ kl }: Awaited<ReturnType<typeof measure>>): string =>
  kl === undefined ? '' : [
    `Mean PPL(base)       ${kl.base_ppl.toFixed(6)}`, `Mean ln(PPL(Q)/PPL(base)) ${kl.ln_ppl_ratio.toFixed(6)}`, `Mean KLD             ${kl.mean_kld.toFixed(6)}`, `Maximum KLD          ${kl.max_kld.toFixed(6)}`,
    `99.0% KLD            ${kl.p99_kld.toFixed(6)}`, `Median KLD           ${kl.median_kld.toFixed(6)}`, `Minimum KLD          ${kl.min_kld.toFixed(6)}`,
    `Mean Δp              ${(100 * kl.mean_dp).toFixed(3)} %`, `RMS Δp               ${(100 * kl.rms_dp).toFixed(3)} %`, `Same top p           ${(100 * kl.same_top).toFixed(3)} %`,
  ].join('\n') + '\n';
