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

export const createMessageInput = (options: MessageInputOptions): MessageInput => new TypedMessages(options);

class TypedMessages implements MessageInput {
  readonly terminal = process.stdin.isTTY === true && process.stdout.isTTY === true;
  readonly #file = this.terminal ? historyFile() : '';
  readonly #input: Interface;
  /** Messages that nobody has waited for yet. */
  readonly #messages: string[] = [];
  /** Receives the next message. */
  #waiting: ((message: string | undefined) => void) | undefined;
  /** Receives the answer to a question. */
  #answer: ((line: string) => void) | undefined;
  #ended = false;
  #pasting = false;
  /** Earlier lines of an unfinished message. */
  #pending = '';

  constructor(options: MessageInputOptions) {
    const { stdin, stdout } = process;
    this.#input = createInterface({
      input: stdin,
      output: this.terminal ? stdout : undefined,
      terminal: this.terminal,
      historySize: HISTORY_LINES,
      history: this.#file ? readHistory(this.#file) : [],
      removeHistoryDuplicates: true,
      completer: (line: string) => completions(line, options),
    });
    this.#input.on('line', (line) => this.#onLine(line));
    this.#input.on('close', () => this.#onClose());
    this.#input.on('SIGINT', options.onInterrupt);
    // Resumes after Ctrl-Z and fg. readline has paused its input, and without an open input the
    // program would end.
    this.#input.on('SIGCONT', () => {
      if (this.terminal) stdout.write(PASTE_ON);
      this.#input.resume();
      if (this.#waiting) this.#show();
    });
    this.#input.on('history', (lines: string[]) => {
      if (this.#answer) lines.shift();
      else if (this.#file) writeHistory(this.#file, lines);
    });
    if (!this.terminal) return;
    stdin.on('keypress', this.#onKey);
    stdout.write(PASTE_ON);
  }

  #show(): void {
    if (!this.terminal) return;
    this.#input.setPrompt(this.#pending === '' ? '> ' : '. ');
    this.#input.prompt(true); // text typed during an answer stays, with the cursor after it
  }

  /** Ctrl-E goes to the end of the line, and Ctrl-U deletes everything before the cursor. */
  #clearLine(): void {
    this.#input.write(null, { ctrl: true, name: 'e' });
    this.#input.write(null, { ctrl: true, name: 'u' });
  }

  #send(message: string): void {
    const resolve = this.#waiting;
    this.#waiting = undefined;
    if (resolve) resolve(message);
    else this.#messages.push(message);
  }

  #onLine(line: string): void {
    if (this.#answer) {
      if (!this.#pasting) this.#answer(line);
    } else if (this.#pasting || line.endsWith('\\')) {
      this.#pending += `${this.#pasting ? line : line.slice(0, -1)}\n`;
      if (this.#waiting) this.#show();
    } else {
      const message = this.#pending + line;
      this.#pending = '';
      this.#send(message);
    }
  }

  #onClose(): void {
    this.#ended = true;
    this.#answer?.('no');
    if (this.#pending !== '') this.#send(this.#pending);
    this.#waiting?.(undefined);
    this.#waiting = undefined;
  }

  readonly #onKey = (_: string | undefined, key: Key): void => {
    if (key.name === 'paste-start') this.#pasting = true;
    else if (key.name === 'paste-end') this.#pasting = false;
    else if (key.name === 'return' && key.meta) {
      // Alt-Enter starts another line of the message.
      this.#pending += `${this.#input.line}\n`;
      process.stdout.write('\n');
      this.#clearLine();
      this.#show();
    }
  };

  next(): Promise<string | undefined> {
    const message = this.#messages.shift();
    if (message !== undefined || this.#ended) return Promise.resolve(message);
    this.#show();
    return new Promise((resolve) => (this.#waiting = resolve));
  }

  ask(question: string, signal: AbortSignal | undefined): Promise<string> {
    if (this.#ended) return Promise.resolve('no');
    this.#clearLine();
    this.#input.setPrompt(question);
    this.#input.prompt();
    return new Promise<string>((resolve, reject) => {
      const unlisten = signal && onAbort(signal, () => settle(() => reject(signal.reason as Error)));
      const settle = (act: () => void): void => {
        this.#answer = undefined;
        unlisten?.();
        act();
      };
      this.#answer = (line) => settle(() => resolve(line));
    });
  }

  clear(): void {
    this.#pending = '';
    if (!this.terminal) return;
    this.#clearLine();
    this.#show();
  }

  close(): void {
    if (this.terminal) {
      process.stdin.off('keypress', this.#onKey);
      process.stdout.write(PASTE_OFF);
    }
    this.#input.close();
  }
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
