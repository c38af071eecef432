#!/usr/bin/env node
/** The command line. Exit codes: 0; 1 for a file, model or run that failed, with one line that says why; 2 for bad usage; 130 on Ctrl-C. */
import { createRequire } from 'node:module';
import type { Command } from './cli/command.ts';
import { bench } from './cli/bench.ts';
import { chat } from './cli/chat.ts';
import { embed } from './cli/embed.ts';
import { completionOf } from './cli/completion.ts';
import { flagHelp } from './cli/flags.ts';
import { inspectCommand } from './cli/inspect-command.ts';
import { perplexity } from './cli/perplexity.ts';
import { quantize } from './cli/quantize-command.ts';
import { run } from './cli/run.ts';
import { serve } from './cli/serve.ts';
import { tokenize } from './cli/tokenize.ts';
import { enableRelaxedSimd } from './entry/node-platform.ts';
import { QuantletError } from './errors.ts';
import { printableLines } from './printable.ts';

const COMMANDS: readonly Command[] = [run, chat, serve, embed, bench, perplexity, quantize, tokenize, inspectCommand, completionOf(() => COMMANDS)];

const overview = (): string =>
  `quantlet runs GGUF language models on the CPU.\n\nusage: quantlet COMMAND [flags]\n\n${COMMANDS.map((c) => `  ${c.name.padEnd(12)}${c.summary}`).join('\n')}\n\nquantlet COMMAND --help tells more; quantlet --version the version.\n`;

const help = (c: Command): string => `quantlet ${c.name}: ${c.summary}\n\nusage: quantlet ${c.name} ${c.synopsis}\n\n${flagHelp(c.flags)}\n\n${c.notes ? `${c.notes}\n\n` : ''}examples:\n${c.examples.map((e) => `  ${e}`).join('\n')}\n`;

async function main(argv: readonly string[]): Promise<number> {
  const [name, ...rest] = argv;
  if (name === '--version' || name === '-v') {
    process.stdout.write(`${(createRequire(import.meta.url)('../package.json') as { version: string }).version}\n`);
    return 0;
  }
  if (name === undefined || name === 'help' || name === '--help' || name === '-h') {
    process.stdout.write(overview());
    return name === undefined ? 2 : 0;
  }
  const command = COMMANDS.find((c) => c.name === name);
  if (!command) throw new QuantletError('ERR_USAGE', `there is no command "${name}"; expected ${COMMANDS.map((c) => c.name).join(', ')}`);
  if (rest.includes('--help') || rest.includes('-h')) {
    process.stdout.write(help(command));
    return 0;
  }
  enableRelaxedSimd();
  return command.run(rest, interrupt.signal);
}

const interrupt = new AbortController();
// One listener from beginning to end: in a gap between two, a signal would end the process at once.
process.on('SIGINT', () => {
  if (interrupt.signal.aborted) process.exit(130); // a second Ctrl-C does not wait
  interrupt.abort(new DOMException('interrupted', 'AbortError'));
});
// A reader that went away (quantlet ... | head) is no error of ours.
process.stdout.on('error', (e: NodeJS.ErrnoException) => process.exit(e.code === 'EPIPE' ? 0 : 1));

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  if (interrupt.signal.aborted) {
    process.stdout.write('\n');
    process.exitCode = 130;
  } else if (error instanceof QuantletError) {
    process.stderr.write(`quantlet: ${error.message} (${error.code})\n`);
    process.exitCode = error.code === 'ERR_USAGE' || error.code === 'ERR_INVALID_ARGUMENT' ? 2 : 1;
  } else {
    process.stderr.write(`quantlet: ${printableLines(error instanceof Error ? (error.stack ?? error.message) : String(error))}\n`);
    process.exitCode = 1;
  }
}
