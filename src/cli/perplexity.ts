/** quantlet perplexity: the command line of llama-perplexity. */
import { QuantletError } from '../errors.ts';
import { klDivergence, perplexity as measure, type KlDivergenceProgress, type PerplexityResult } from '../tools/perplexity.ts';
import { COMPUTE_FLAGS, MODEL_FLAGS, openModel, type Command } from './command.ts';
import { filesRead } from './files-read.ts';
import type { KlStatistics } from '../tools/kl-stats.ts';
import { KL_HEAD, klLine, klReport } from './kl-report.ts';
import { checkOutput, tell } from './output.ts';
import { parseOnlyFlags } from './parse-flags.ts';
import { phaseBars } from './progress.ts';
import { snakeCase } from './snake-case.ts';
import { endUnread } from './unread.ts';
import { checkWindows, finalLine, showRunning, textOf, windowOptions } from './window-flags.ts';

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

type Result = PerplexityResult & { readonly kl?: KlStatistics };

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
    const { kl, klBase, json = false } = values;
    if (kl && klBase === undefined)
      throw new QuantletError('ERR_USAGE', '--kl-divergence needs --kl-divergence-base FILE, the logits to compare with');
    checkWindows(values);
    const text = kl ? '' : await textOf(values);
    if (text === undefined) throw new QuantletError('ERR_USAGE', 'give the text to measure with -f FILE');
    if (klBase !== undefined && !kl) await checkOutput(klBase, filesRead(values));
    else endUnread();
    const bars = phaseBars();
    const onProgress = (progress: KlDivergenceProgress): void => {
      const { done, estimate } = progress;
      if (!json && estimate) {
        const { kl: statistics } = progress;
        bars.end(); // on a terminal the values stay above the bar
        if (statistics) tell(`${done === 1 ? KL_HEAD : ''}${klLine(done, statistics)}`);
        else showRunning(done, estimate.ppl);
      }
      bars.set(progress);
    };
    const { contextLength, ...others } = windowOptions(values);
    const options = { ...others, signal, onProgress };
    const load = (needed: object) => openModel(values, signal, needed);
    try {
      const result: Result = kl
        ? await klDivergence(load, klBase!, options)
        : await measure(load, text, { ...options, contextLength, klDivergenceBase: klBase });
      bars.end();
      if (json) tell(`${JSON.stringify(toJson(result))}\n`);
      else tell(`\n${finalLine(result)} over ${result.tokens} tokens\n${result.kl ? `\n${klReport(result.kl)}` : ''}`);
      return 0;
    } finally {
      bars.end();
    }
  },
};

const toJson = ({ ppl, nll, tokens, pplStderr, chunks, contextLength: nCtx, kl }: Result): unknown =>
  snakeCase({ ppl, nll, tokens, pplStderr, chunks, nCtx, ...(kl && { kl }) });
