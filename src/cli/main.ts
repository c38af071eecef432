/**
 * The command line. Exit codes: 0; 1 if a file, model or run failed, with one line that gives the
 * reason; 2 for bad usage; 130 on Ctrl-C, 143 on SIGTERM, 129 if the terminal is closed.
 */
import type { Command } from './command.ts';
import { allCommands, COMMAND_NAMES, loadCommand } from './commands.ts';
import { flagHelp, wrapped } from './flag-help.ts';
import { flagNames } from './flags.ts';
import { enableRelaxedSimd, takeProcess } from '../entry/node-platform.ts';
import { QuantletError } from '../errors.ts';
import { nearest } from '../nearest.ts';
import { printableLines } from '../printable.ts';
import { interrupt } from './interrupt.ts';
import { unread } from './unread.ts';
import { packageVersion } from './version.ts';

/** Width for wrapping. A pipe has no width, so that each flag is on one line, for grep. */
const terminalColumns = (): number => (process.stdout.isTTY ? process.stdout.columns : Infinity);

const overview = (commands: readonly Command[]): string =>
  `quantlet runs GGUF language models on the CPU.\n\nusage: quantlet COMMAND [flags]\n\n${commands.map((c) => `  ${c.name.padEnd(12)}${wrapped(c.summary, terminalColumns(), 14)}`).join('\n')}\n\nquantlet COMMAND --help shows more; quantlet --version shows the version.\n`;

function help(c: Command): string {
  const columns = terminalColumns();
  const lines = (text: string): string =>
    text
      .split('\n')
      .map((line) => wrapped(line, columns, 0))
      .join('\n');
  const notes = c.notes ? `${lines(c.notes)}\n\n` : '';
  const llama = c.llama
    ? `${lines(`The flags of ${c.llama} that have no effect here are accepted: docs/flags.md lists them all.`)}\n\n`
    : '';
  const examples = c.examples.map((e) => `  ${e}`).join('\n');
  return `quantlet ${c.name}: ${lines(c.summary)}\n\nusage: quantlet ${c.name} ${c.synopsis}\n\n${flagHelp(c.flags, c.defaults, columns)}\n\n${notes}${llama}examples:\n${examples}\n`;
}

/** Names that other programs use for these commands. */
const MEANT: Readonly<Record<string, string>> = {
  info: 'inspect',
  show: 'inspect',
  dump: 'inspect',
  server: 'serve',
  start: 'serve',
  generate: 'run',
  complete: 'run',
  prompt: 'run',
  talk: 'chat',
  embedding: 'embed',
  embeddings: 'embed',
  rerank: 'embed',
  benchmark: 'bench',
  ppl: 'perplexity',
  tokens: 'tokenize',
  split: 'gguf-split',
  merge: 'gguf-split',
  hash: 'gguf-hash',
};

/** Finds a command by its name or by the name of the llama.cpp tool that it replaces. */
async function commandOf(name: string): Promise<Command> {
  const command = await loadCommand(name);
  if (command) return command;
  if (name.startsWith('-')) {
    const [flag] = nearest(name, ['--help', '--version'], 2);
    throw new QuantletError(
      'ERR_USAGE',
      flag
        ? `unknown flag ${name}; did you mean ${flag}?`
        : `${name} is not a command; expected quantlet COMMAND ${name} ..., with one of ${COMMAND_NAMES.join(', ')}`,
    );
  }
  if (/\.gguf$|^hf:|^https?:/i.test(name))
    throw new QuantletError(
      'ERR_USAGE',
      `"${name}" is not a command; use quantlet chat -m ${name} to talk with the model, or quantlet run -m ${name} -p TEXT to continue a text`,
    );
  const near = Object.hasOwn(MEANT, name) ? MEANT[name] : nearest(name, COMMAND_NAMES, 2)[0];
  throw new QuantletError(
    'ERR_USAGE',
    `there is no command "${name}"; ${near ? `did you mean ${near}? There are` : 'expected'} ${COMMAND_NAMES.join(', ')}`,
  );
}

async function main(argv: readonly string[]): Promise<number> {
  const [name, ...rest] = argv;
  if (name === '--version' || name === '-v') {
    process.stdout.write(`${packageVersion()}\n`);
    return 0;
  }
  if (name === undefined || name === '--help' || name === '-h' || (name === 'help' && rest.length === 0)) {
    process.stdout.write(overview(await allCommands()));
    return name === undefined ? 2 : 0;
  }
  const command = await commandOf(name === 'help' ? rest[0] : name);
  if (name === 'help' || ['--help', '-h', '--usage'].some((flag) => rest.includes(flag))) {
    process.stdout.write(help(command));
    return 0;
  }
  if (rest.includes('--version')) return main(['--version']);
  takeProcess();
  enableRelaxedSimd();
  return command.run(rest, interrupt.signal);
}

/** Error codes of a pipe or terminal closed at its other end. EOF is from Windows. */
const GONE = ['EPIPE', 'EIO', 'EOF', 'ECONNRESET', 'ERR_STREAM_DESTROYED'];
/**
 * Exit codes of signals that request an end: Ctrl-C, a supervisor, a closed terminal, Ctrl-Break on
 * Windows.
 */
const ENDS = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129, SIGBREAK: 149 } as const;
let exitCode: number = ENDS.SIGINT;
// The listener stays for the whole run, because a signal without a listener ends the process at
// once.
for (const [name, code] of Object.entries(ENDS))
  process.on(name, () => {
    if (interrupt.signal.aborted) process.exit(code); // a second signal does not wait
    exitCode = code;
    interrupt.abort(new DOMException('interrupted', 'AbortError'));
  });
// A failed message on stderr does not end the command.
process.stderr.on('error', () => {});
/** True if output was lost that somebody expected, for example on a full disk. */
let lost = false;
process.stdout.on('error', (e: NodeJS.ErrnoException) => {
  if (interrupt.signal.aborted && unread.end) process.exit(exitCode); // a closed terminal cannot show anything
  if (GONE.includes(e.code ?? '')) return void unread.end?.();
  process.stderr.write(`quantlet: cannot write the output: ${e.code === 'ENOSPC' ? 'there is no space left' : e.message} (ERR_IO)\n`);
  if (unread.end) process.exit(1);
  lost = true; // the command continues, to finish its file
  process.exitCode ||= 1;
});

/** Runs the command of the process's arguments and sets its exit code. */
export async function start(): Promise<void> {
  try {
    const code = await main(process.argv.slice(2));
    process.exitCode = code === ENDS.SIGINT ? exitCode : code || Number(lost); // commands return SIGINT's code for any signal
  } catch (error) {
    if (interrupt.signal.aborted) {
      // Starts a new line after ^C, for the shell's prompt.
      if (process.stdout.isTTY) process.stdout.write('\n');
      else if (process.stderr.isTTY) process.stderr.write('\n');
      process.exitCode = exitCode;
    } else if (error instanceof QuantletError) {
      process.stderr.write(`quantlet: ${flagNames(error.message)} (${error.code})\n`);
      process.exitCode = error.code === 'ERR_USAGE' || error.code === 'ERR_INVALID_ARGUMENT' ? 2 : 1;
    } else {
      process.stderr.write(`quantlet: ${printableLines(error instanceof Error ? (error.stack ?? error.message) : String(error))}\n`);
      process.exitCode = 1;
    }
  }
}
