/** quantlet imatrix: the command line of llama-imatrix. */
import { QuantletError } from '../errors.ts';
import { KIND, pick } from '../options.ts';
import { imatrix as measure, IMATRIX_OPTIONS, joinImatrix, type ImatrixProgress, type ImatrixResult } from '../tools/imatrix.ts';
import { checkKinds } from './check-kinds.ts';
import { COMPUTE_FLAGS, forTerminal, located, MODEL_FLAGS, openModel, type Command } from './command.ts';
import { filesRead } from './files-read.ts';
import { lastOf } from './flags.ts';
import { checkOutput, tell } from './output.ts';
import { parseOnlyFlags } from './parse-flags.ts';
import { phaseBars } from './progress.ts';
import { checkWindows, finalLine, showRunning, textOf, windowOptions } from './window-flags.ts';

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

const isFormat = (text: string): text is 'gguf' | 'dat' => text === 'gguf' || text === 'dat';

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
    checkKinds(values, { ...pick(IMATRIX_OPTIONS, 'fromChunk', 'saveFrequency'), outputFrequency: KIND.size });
    const { json = false, imatrixFile: output = 'imatrix.gguf', outputFormat = 'gguf', processOutput, ppl } = values;
    if (!isFormat(outputFormat)) throw new QuantletError('ERR_USAGE', `--output-format is "${outputFormat}"; expected gguf or dat`);
    const text = await textOf(values);
    const inFile = (values.inFile ?? []).flatMap((list) => list.split(','));
    if (text === undefined && inFile.length === 0)
      throw new QuantletError('ERR_USAGE', 'give the text to measure with -f FILE, or files to join with --in-file');
    const bars = phaseBars();
    const onProgress = (progress: ImatrixProgress): void => {
      const { done, estimate } = progress;
      bars.end(); // on a terminal the values stay above the bar
      if (estimate && !json) showRunning(done, estimate.ppl);
      bars.set(progress);
    };
    const { fromChunk, outputFrequency, saveFrequency, parseText: parseSpecial } = values;
    const datasets = lastOf(values, 'file', 'prompt') === 'file' ? [values.file!] : [];
    const load = async (needed: object) => {
      const { hf: _, hfFile: __, ...given } = values;
      const { model: path } = await located(values, signal);
      await checkOutput(output, filesRead(values, path));
      return openModel({ ...given, model: path }, signal, needed);
    };
    const common = { outputFormat, signal };
    const measured = { output, inFile, processOutput, ppl, fromChunk, outputFrequency, saveFrequency, parseSpecial, datasets, onProgress };
    try {
      const windows = windowOptions(values);
      const result =
        text === undefined
          ? await joinImatrix(inFile, output, { ...common, contextLength: windows.contextLength })
          : await measure(load, text, { ...common, ...windows, ...measured });
      bars.end();
      report(result, json);
      return 0;
    } finally {
      bars.end();
    }
  },
};

function report({ output, matrices, chunks, contextLength, estimate }: ImatrixResult, json: boolean): void {
  if (json) {
    const { nll, ppl, tokens, pplStderr } = estimate ?? {};
    const value = { output, matrices, chunks, n_ctx: contextLength, ...(estimate && { ppl, nll, tokens, ppl_stderr: pplStderr }) };
    return tell(`${JSON.stringify(value)}\n`);
  }
  const wrote = `wrote ${output}: ${matrices} matrices, ${chunks} windows of ${contextLength} tokens`;
  tell(`${estimate ? `\n${finalLine(estimate)}\n` : ''}${forTerminal(wrote)}\n`);
}
