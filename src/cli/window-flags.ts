/** Flags and printed lines of the commands that measure a text in windows. */
import { QuantletError } from '../errors.ts';
import { readText, textLines } from './command.ts';
import { lastOf, type Values } from './flags.ts';
import { tell } from './output.ts';

/** @throws ERR_USAGE if the flags describe impossible windows */
export function checkWindows({ ctx, batch, chunks }: Values<'ctx' | 'batch' | 'chunks'>): void {
  const usage = (message: string): never => {
    throw new QuantletError('ERR_USAGE', message);
  };
  if (ctx !== undefined && ctx < 4) usage(`-c is ${ctx}; a window needs at least 4 tokens`);
  if (batch !== undefined && batch < 1) usage(`-b is ${batch}; expected at least 1`);
  if (chunks === 0) usage('--chunks is 0; expected at least 1, or -1 for all');
}

/** Options of the tools for these flags: those that are given. */
export const windowOptions = ({ ctx, batch, chunks = -1 }: Values<'ctx' | 'batch' | 'chunks'>) => ({
  contextLength: ctx,
  batchSize: batch,
  ...(chunks < 0 ? {} : { chunks }),
});

/** The text of -f or -p, whichever was given last; undefined if neither was. */
export async function textOf(values: Values<'file' | 'prompt'>): Promise<string | undefined> {
  const { file, prompt } = values;
  return lastOf(values, 'file', 'prompt') === 'file' ? textLines(await readText(file!, 'the text')) : prompt;
}

/** Shows the running value after `done` windows; on a terminal it has its own line above the bar. */
export const showRunning = (done: number, ppl: number): void => tell(`[${done}]${ppl.toFixed(4)},${process.stdout.isTTY ? '\n' : ''}`);

export const finalLine = ({ ppl, pplStderr }: { readonly ppl: number; readonly pplStderr: number }): string =>
  `Final estimate: PPL = ${ppl.toFixed(4)} +/- ${pplStderr.toFixed(5)}`;
