/** A conversation in the terminal, or with messages from a pipe, one a line. */
import { readFile } from 'node:fs/promises';
import { onAbort } from '../abort.ts';
import type { ChatMessage } from '../chat/messages.ts';
import { checkMessages } from '../chat/messages.ts';
import { exactJson, parseExactJson } from '../chat/exact-json.ts';
import { whyNot } from '../entry/node-platform.ts';
import { QuantletError } from '../errors.ts';
import type { Timings } from '../generate/generate.ts';
import type { Model, ModelChatOptions } from '../model.ts';
import { printable } from '../printable.ts';
import { textLines, withoutLastBreak } from './command.ts';
import { flagNames } from './flags.ts';
import { createMessageInput } from './message-input.ts';
import { mustBeNoInput, writeNewFile } from './new-file.ts';
import { decodeText } from './text-file.ts';
import { CONTEXT_FULL, endAnswer, readingPrompt, showAnswer, speeds, type AnswerStyle } from './show-answer.ts';

export interface ConversationOptions {
  readonly model: Model;
  readonly system: string | undefined;
  /** A message that is answered before the first one is asked for. */
  readonly first: string | undefined;
  readonly chat: ModelChatOptions;
  readonly style: AnswerStyle;
  /** End after one answer. */
  readonly singleTurn: boolean;
  /** Where the context is full, leave out the oldest turns; false: say so and stop there. */
  readonly shift: boolean;
  /** Say after each answer how fast it was. */
  readonly timings: boolean;
  /** Said before the first message is asked for. */
  readonly greeting: string;
  /** Files that the command reads: no conversation is saved over them. */
  readonly inputs: readonly string[];
}

const COMMANDS = {
  help: ['', 'this list'],
  clear: ['', 'forget the conversation'],
  system: ['TEXT', 'set the system message (and forget the conversation); without TEXT: show it'],
  regen: ['', 'answer the last message again'],
  undo: ['', 'take back the last message and its answer'],
  file: ['FILE', 'put the text of a file before the next message'],
  save: ['FILE', 'write the conversation as JSON messages (chat.json)'],
  load: ['FILE', 'go on with a saved conversation (chat.json)'],
  speed: ['', 'the speed of the last answer, and how full the context is'],
  exit: ['', 'leave (Ctrl-D too)'],
} as const satisfies { readonly [name: string]: readonly [argument: string, help: string] };
type CommandName = keyof typeof COMMANDS;
/** Other words for them, llama-cli's among them. */
const ALIASES: ReadonlyMap<string, CommandName> = new Map([
  ['?', 'help'],
  ['quit', 'exit'],
  ['bye', 'exit'],
  ['read', 'file'],
  ['timings', 'speed'],
]);

export const CONVERSATION_HELP = `${Object.entries(COMMANDS)
  .map(([name, [argument, help]]) => `/${`${name} ${argument}`.padEnd(16)}${help}`)
  .join('\n')}
A line that ends in \\ goes on in the next one, and so does Alt-Enter; what is pasted is one message. Ctrl-C stops an answer.
`;

/** The same seed again would give the same answer. */
const seedFor = (seed: number | undefined, again: number): { seed?: number } =>
  seed === undefined || seed < 0 ? {} : { seed: (seed + again) % 2 ** 32 };

/** @returns the exit code */
export async function converse(options: ConversationOptions, signal: AbortSignal): Promise<number> {
  const { model, style } = options;
  let messages: ChatMessage[] = options.system === undefined ? [] : [{ role: 'system', content: options.system }];
  let answering: AbortController | undefined;
  let regenerated = 0;
  /** Texts of /file for the next message. */
  let files = '';
  let last: { readonly timings: Timings; readonly tokens: number } | undefined;
  const say = (text: string): void => void process.stdout.write(`${text}\n`);
  const complain = (error: Error): void =>
    void process.stderr.write(
      `quantlet: ${error instanceof QuantletError ? `${flagNames(error.message)} (${error.code})` : printable(error.message)}\n`,
    );

  const input = createMessageInput({
    commands: Object.keys(COMMANDS),
    pathCommands: ['file', 'read', 'save', 'load'],
    // readline takes Ctrl-C while it reads the terminal; elsewhere it arrives as the command's signal.
    onInterrupt() {
      if (answering) return answering.abort(new DOMException('stopped', 'AbortError'));
      process.stdout.write('\n(Ctrl-D or /exit leaves)\n');
      input.clear();
    },
  });
  const leave = (): void => {
    answering?.abort(signal.reason);
    input.close();
  };
  const unlisten = onAbort(signal, leave);

  /** Leaves out the oldest message and what was answered to it; false where the last one alone is left. */
  function forgetOldest(): boolean {
    const first = messages.findIndex(({ role }) => role !== 'system');
    const next = messages.findIndex(({ role }, i) => i > first && role === 'user');
    if (next < 0) return false;
    messages.splice(first, next - first);
    return true;
  }

  async function answer(again = 0): Promise<void> {
    answering = new AbortController();
    const began = messages.length;
    let soFar: (() => Timings) | undefined;
    const watch = (timings: () => Timings): void => void (soFar = timings);
    last = undefined;
    let content = '';
    let left = 0;
    const reading = readingPrompt(model);
    try {
      for (;;) {
        const generation = model.chat(messages, { ...options.chat, ...seedFor(options.chat.seed, again), watch, signal: answering.signal });
        try {
          await showAnswer(endReading(generation, reading), style, (text) => (content += text));
        } catch (error) {
          if ((error as QuantletError).code !== 'ERR_CONTEXT_FULL' || !options.shift || !forgetOldest()) throw error;
          left++;
          continue;
        }
        const { finishReason, timings, promptIds, ids } = await generation.result();
        last = { timings, tokens: promptIds.length + ids.length };
        const full = last.tokens >= model.contextLength;
        const asked = process.stdout.isTTY ? 'cut: -n' : undefined; // a program that pipes knows what it asked for
        endAnswer(finishReason === 'length' ? (full ? CONTEXT_FULL : asked) : undefined);
        break;
      }
    } catch (error) {
      if (answering.signal.aborted) endAnswer('stopped');
      else if (error instanceof QuantletError) complain(error);
      else throw error;
    } finally {
      reading.end();
      answering = undefined;
    }
    if (left > 0)
      process.stderr.write(`quantlet: the context is full; the oldest ${left === 1 ? 'turn was' : `${left} turns were`} left out\n`);
    // One that was stopped has figures too, as far as it came.
    const timings = last?.timings ?? (content === '' ? undefined : soFar?.());
    if (options.timings && timings) process.stderr.write(`${speeds(timings)}\n`);
    if (input.terminal) process.stdout.write('\n');
    // An answer that was stopped stays in the conversation as far as it came; a message whose answer failed is taken out.
    if (content !== '') messages.push({ role: 'assistant', content: content.trimStart() });
    else if (messages.length === began) messages.pop();
  }

  function forget(kept: ChatMessage[]): void {
    if (messages.some(({ role }) => role !== 'system')) say('The conversation is forgotten.');
    messages = kept;
  }

  const commands: { readonly [name in CommandName]: (rest: string) => void | Promise<void> } = {
    help: () => void process.stdout.write(CONVERSATION_HELP),
    clear: () => forget(messages.filter(({ role }) => role === 'system')),
    system(text) {
      if (text === '') say((messages.find(({ role }) => role === 'system')?.content as string | undefined) ?? '(none)');
      else forget([{ role: 'system', content: text }]);
    },
    async regen() {
      if (messages.at(-1)?.role === 'assistant') messages.pop();
      if (messages.at(-1)?.role === 'user') await answer(++regenerated);
      else say('There is nothing to answer yet.');
    },
    undo() {
      const from = messages.findLastIndex(({ role }) => role === 'user');
      if (from < 0) return say('There is nothing to take back.');
      const text = printable(String(messages[from].content));
      messages.length = from;
      say(`Taken back: ${text.length > 60 ? `${text.slice(0, 60)}...` : text}`);
    },
    async file(path) {
      if (path === '') return say('Which one? /file FILE');
      const text = textLines(decodeText(await readFile(path), path));
      files += `${withoutLastBreak(text)}\n\n`;
      say(`${text.length} characters of ${path} will go before the next message.`);
    },
    async save(path) {
      const bytes = new TextEncoder().encode(`${exactJson(messages, 2)}\n`);
      const output = path || 'chat.json';
      await mustBeNoInput(output, options.inputs);
      await writeNewFile(output, (write) => write(bytes, 0));
      say(`Written to ${output}.`);
    },
    async load(path) {
      const text = decodeText(await readFile(path || 'chat.json'), path || 'chat.json');
      let loaded: unknown;
      try {
        loaded = parseExactJson(text);
        checkMessages(loaded as ChatMessage[]);
      } catch (error) {
        return complain(new Error(`${path || 'chat.json'} holds no conversation: ${(error as Error).message}`));
      }
      messages = loaded as ChatMessage[];
      say(`Read ${messages.length} messages from ${path || 'chat.json'}.`);
    },
    speed: () =>
      say(
        last ? `${speeds(last.timings)}\n${last.tokens} of ${model.contextLength} tokens of context` : 'There is no answer that has ended.',
      ),
    exit() {},
  };

  /** False: the conversation is over. */
  async function command(line: string): Promise<boolean> {
    const [, word, rest] = /^\/(\S*)\s*([^]*)$/.exec(line)!;
    const name = Object.hasOwn(COMMANDS, word) ? (word as CommandName) : ALIASES.get(word);
    if (name === 'exit') return false;
    if (name !== undefined)
      await Promise.resolve(commands[name](rest)).catch((error: NodeJS.ErrnoException) => {
        if (error instanceof QuantletError) return complain(error);
        if (error.syscall === undefined) throw error;
        complain(new Error(`cannot ${name} ${rest || 'chat.json'}: ${whyNot(error)}`));
      });
    else if (/^(image|audio|video)$/.test(word)) say(`There is no ${word} here: models read text only. /file reads a text file.`);
    else say(`There is no command /${word}; /help lists them.`);
    return true;
  }

  if (input.terminal) process.stdout.write(options.greeting);
  let { first } = options;
  try {
    while (!signal.aborted) {
      const line = first ?? (await input.next());
      if (line === undefined) break;
      const text = line.trim();
      const typed = first === undefined;
      first = undefined;
      if (text === '') continue;
      if (typed && text.startsWith('/')) {
        if (!(await command(text))) break;
        continue;
      }
      messages.push({ role: 'user', content: files + text });
      files = '';
      await answer();
      if (options.singleTurn) break;
    }
  } finally {
    input.close();
    unlisten();
  }
  if (input.terminal) process.stdout.write('\n');
  return signal.aborted ? 130 : 0;
}

/** Events as they come; with the first one the prompt has been read. */
async function* endReading<T>(events: AsyncIterable<T>, reading: { end(): void }): AsyncGenerator<T> {
  for await (const event of events) {
    reading.end();
    yield event;
  }
}

/** What the greeting says of a model. */
export const greetingOf = (model: Model): string => `${printable(model.name)}, context ${model.contextLength}. /help lists commands.\n`;
