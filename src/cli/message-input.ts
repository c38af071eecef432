/**
 * Reads messages that people type, paste or pipe: readline with bracketed paste, multi-line
 * messages, a persistent history and Tab completion.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface, type Interface, type Key } from 'node:readline';
import { onAbort } from '../abort.ts';
import { cacheFolder } from '../hub/cache-folder.ts';

export interface MessageInput {
  /** True if stdin and stdout are a terminal. */
  readonly terminal: boolean;
  /**
   * Waits for the next message; undefined after the end of the input. Lines typed before the call
   * are kept.
   */
  next(): Promise<string | undefined>;
  /**
   * Asks a question, which the next typed line answers. Lines typed before are no answer. A closed
   * input answers no.
   * @throws signal.reason
   */
  ask(question: string, signal: AbortSignal | undefined): Promise<string>;
  /** Discards typed text that has not been sent. */
  clear(): void;
  close(): void;
}

export interface MessageInputOptions {
  /** Slash commands for Tab completion, and those among them that take a path. */
  readonly commands: readonly string[];
  readonly pathCommands: readonly string[];
  /** Called on Ctrl-C while the terminal is read. */
  readonly onInterrupt: () => void;
}

const HISTORY_LINES = 1000;
/** Control sequences that make a terminal mark pasted text (xterm's mode 2004). */
const PASTE_ON = '\x1b[?2004h';
const PASTE_OFF = '\x1b[?2004l';

/** QUANTLET_HISTORY names the history file; if it is empty, no history is kept. */
const historyFile = (): string => process.env.QUANTLET_HISTORY ?? join(cacheFolder(process.env), 'chat-history');

function readHistory(file: string): string[] {
  try {
    return readFileSync(file, 'utf8').split('\n').filter(Boolean).slice(0, HISTORY_LINES);
  } catch {
    return []; // there is no history yet
  }
}

function writeHistory(file: string, lines: readonly string[]): void {
  try {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, `${lines.join('\n')}\n`, { mode: 0o600 });
  } catch {
    // A history that cannot be written must not end the conversation.
  }
}

/**
 * Tab completions of a line: commands, or paths after a command that takes one. On Windows, folders
 * end in / or \.
 */
export function completions(
  line: string,
  { commands, pathCommands }: Pick<MessageInputOptions, 'commands' | 'pathCommands'>,
  platform: string = process.platform,
): [string[], string] {
  const [, command, path] = /^\/(\S+) +(.*)$/.exec(line) ?? [];
  if (command === undefined) return [line.startsWith('/') ? commands.map((c) => `/${c}`).filter((c) => c.startsWith(line)) : [], line];
  if (!pathCommands.includes(command)) return [[], line];
  const [, folder, begun] = (platform === 'win32' ? /^(.*[\\/])?([^\\/]*)$/ : /^(.*\/)?([^/]*)$/).exec(path)!;
  try {
    const found = readdirSync(folder ?? '.', { withFileTypes: true }).filter(
      ({ name }) => name.startsWith(begun) && (begun !== '' || !name.startsWith('.')),
    );
    return [found.map((entry) => `${folder ?? ''}${entry.name}${entry.isDirectory() ? '/' : ''}`), path];
  } catch {
    return [[], path];
  }
}

export function createMessageInput(options: MessageInputOptions): MessageInput {
  const { stdin, stdout } = process;
  const terminal = stdin.isTTY === true && stdout.isTTY === true;
  const file = terminal ? historyFile() : '';
  const input: Interface = createInterface({
    input: stdin,
    output: terminal ? stdout : undefined,
    terminal,
    historySize: HISTORY_LINES,
    history: file ? readHistory(file) : [],
    removeHistoryDuplicates: true,
    completer: (line: string) => completions(line, options),
  });
  const messages: string[] = [];
  let waiting: ((message: string | undefined) => void) | undefined;
  let ended = false;
  let pasting = false;
  /** Earlier lines of an unfinished message. */
  let pending = '';

  /** Receives the answer to a question. */
  let answer: ((line: string) => void) | undefined;

  const show = (): void => {
    if (!terminal) return;
    input.setPrompt(pending === '' ? '> ' : '. ');
    input.prompt(true); // text typed during an answer stays, with the cursor after it
  };
  /** Ctrl-E goes to the end of the line, and Ctrl-U deletes everything before the cursor. */
  const clearLine = (): void => {
    input.write(null, { ctrl: true, name: 'e' });
    input.write(null, { ctrl: true, name: 'u' });
  };
  const send = (message: string): void => {
    if (!waiting) return void messages.push(message);
    const resolve = waiting;
    waiting = undefined;
    resolve(message);
  };
  input.on('line', (line) => {
    if (answer) {
      if (!pasting) answer(line);
    } else if (pasting || line.endsWith('\\')) {
      pending += `${pasting ? line : line.slice(0, -1)}\n`;
      if (waiting) show();
    } else {
      const message = pending + line;
      pending = '';
      send(message);
    }
  });
  input.on('close', () => {
    ended = true;
    answer?.('no');
    if (pending !== '') send(pending);
    waiting?.(undefined);
    waiting = undefined;
  });
  input.on('SIGINT', options.onInterrupt);
  // Resumes after Ctrl-Z and fg. readline has paused its input, and without an open input the
  // program would end.
  input.on('SIGCONT', () => {
    if (terminal) stdout.write(PASTE_ON);
    input.resume();
    if (waiting) show();
  });
  input.on('history', (lines: string[]) => {
    if (answer) lines.shift();
    else if (file) writeHistory(file, lines);
  });
  const onKey = (_: string | undefined, key: Key): void => {
    if (key.name === 'paste-start') pasting = true;
    else if (key.name === 'paste-end') pasting = false;
    else if (key.name === 'return' && key.meta) {
      // Alt-Enter starts another line of the message.
      pending += `${input.line}\n`;
      stdout.write('\n');
      clearLine();
      show();
    }
  };
  if (terminal) {
    stdin.on('keypress', onKey);
    stdout.write(PASTE_ON);
  }
  return {
    terminal,
    next() {
      const message = messages.shift();
      if (message !== undefined || ended) return Promise.resolve(message);
      show();
      return new Promise((resolve) => (waiting = resolve));
    },
    ask(question, signal) {
      if (ended) return Promise.resolve('no');
      clearLine();
      input.setPrompt(question);
      input.prompt();
      return new Promise<string>((resolve, reject) => {
        const unlisten = signal && onAbort(signal, () => settle(() => reject(signal.reason as Error)));
        const settle = (act: () => void): void => {
          answer = undefined;
          unlisten?.();
          act();
        };
        answer = (line) => settle(() => resolve(line));
      });
    },
    clear() {
      pending = '';
      if (!terminal) return;
      clearLine();
      show();
    },
    close() {
      if (terminal) {
        stdin.off('keypress', onKey);
        stdout.write(PASTE_OFF);
      }
      input.close();
    },
  };
}

/** Asks one question at a terminal that is not being read. @throws signal.reason */
export async function askOnce(question: string, signal: AbortSignal | undefined): Promise<string> {
  const input = createInterface({ input: process.stdin, output: process.stdout, historySize: 0 });
  input.on('SIGINT', () => process.kill(process.pid, 'SIGINT'));
  try {
    return await new Promise((resolve, reject) => {
      input.on('close', () => resolve('no'));
      input.question(question, resolve);
      if (signal) onAbort(signal, () => reject(signal.reason as Error));
    });
  } finally {
    input.close();
  }
}
