/** Slash commands of a conversation, such as /help. */
import { interrupt } from './interrupt.ts';
import { checkMessages, type ChatMessage } from '../chat/messages.ts';
import { exactJson, parseExactJson } from '../chat/exact-json.ts';
import { whyNot } from '../entry/node-platform.ts';
import { QuantletError } from '../errors.ts';
import { printable } from '../printable.ts';
import { textLines, withoutLastBreak } from './command.ts';
import type { Conversation } from './conversation.ts';
import { mustBeNoInput } from './output.ts';
import { writeNewFile } from '../tools/new-file.ts';
import { readWhole } from '../tools/read-file.ts';
import { speeds } from './show-answer.ts';
import { decodeText } from './text-file.ts';
import { shownText } from './image-files.ts';

export const COMMANDS = {
  help: ['', 'this list'],
  clear: ['', 'forget the conversation'],
  system: ['TEXT', 'set the system message (and forget the conversation); without TEXT: show it'],
  regen: ['', 'answer the last message again'],
  undo: ['', 'take back the last message and its answer'],
  file: ['FILE', 'put the text of a file before the next message'],
  image: ['FILE', 'put an image (PNG or JPEG) before the next message, if the model sees images'],
  audio: ['FILE', 'put a sound (WAV) before the next message'],
  save: ['FILE', 'write the conversation as JSON messages (chat.json)'],
  load: ['FILE', 'continue a saved conversation (chat.json)'],
  mcp: ['', 'list MCP servers and their tools (--mcp-servers-config)'],
  speed: ['', 'the speed of the last answer, and how full the context is'],
  exit: ['', 'leave (Ctrl-D too)'],
} as const satisfies { readonly [name: string]: readonly [argument: string, help: string] };
type CommandName = keyof typeof COMMANDS;
/** Other names of commands, some of them from llama-cli. */
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
A line that ends in \\ continues in the next one, and so does Alt-Enter; what is pasted is one message. Ctrl-C stops an answer.
`;

/** Commands that take a path, with their aliases. */
export const PATH_COMMANDS = ['file', 'read', 'image', 'audio', 'save', 'load'] as const;
/** Verbs of commands whose names do not say what they do with a file. */
const VERBS: { readonly [name in CommandName]?: string } = { file: 'read', image: 'read', audio: 'read' };
const DEFAULT_FILE = 'chat.json';
/** Number of characters that /undo shows of the message it removes. */
const SHOWN = 60;

const say = (text: string): void => void process.stdout.write(`${text}\n`);

const RUN: { readonly [name in CommandName]: (conversation: Conversation, rest: string) => void | Promise<void> } = {
  help: () => void process.stdout.write(CONVERSATION_HELP),
  clear: (conversation) => forget(conversation, conversation.systemMessages()),
  system(conversation, text) {
    if (text === '') say((conversation.systemMessages()[0]?.content as string | undefined) ?? '(none)');
    else forget(conversation, [{ role: 'system', content: text }]);
  },
  regen: (conversation) => conversation.answerAgain(() => say('There is nothing to answer yet.')),
  undo(conversation) {
    const message = conversation.takeBack();
    if (!message) return say('There is nothing to undo.');
    const text = printable(shownText(message));
    say(`Undone: ${text.length > SHOWN ? `${text.slice(0, SHOWN)}...` : text}`);
  },
  async file(conversation, path) {
    if (path === '') return say('Which one? /file FILE');
    const text = textLines(decodeText(await readWhole(path, interrupt.signal), path));
    conversation.addText(`${withoutLastBreak(text)}\n\n`);
    say(`${text.length} characters of ${path} will go before the next message.`);
  },
  image: (conversation, path) => addMedia('image', conversation, path),
  audio: (conversation, path) => addMedia('audio', conversation, path),
  async save(conversation, path) {
    const bytes = new TextEncoder().encode(`${exactJson(conversation.messages, 2)}\n`);
    const output = path || DEFAULT_FILE;
    await mustBeNoInput(output, conversation.inputs);
    await writeNewFile(output, (write) => write(bytes, 0));
    say(`Written to ${output}.`);
  },
  async load(conversation, path) {
    const text = decodeText(await readWhole(path || DEFAULT_FILE, interrupt.signal), path || DEFAULT_FILE);
    let messages: ChatMessage[];
    try {
      messages = parseExactJson(text) as ChatMessage[];
      checkMessages(messages);
    } catch (error) {
      return conversation.complain(new Error(`${path || DEFAULT_FILE} has no conversation: ${(error as Error).message}`));
    }
    conversation.messages = messages;
    say(`Read ${messages.length} messages from ${path || DEFAULT_FILE}.`);
  },
  mcp: ({ mcp }) => say(mcp?.describe() ?? 'There are no MCP servers; start with --mcp-servers-config FILE.'),
  speed({ last, model }) {
    say(last ? `${speeds(last.timings)}\n${last.tokens} of ${model.contextLength} tokens of context` : 'There is no complete answer yet.');
  },
  exit() {},
};

/** Puts a file before the next message. Its bytes say whether it is an image or a sound. */
async function addMedia(name: 'image' | 'audio', conversation: Conversation, path: string): Promise<void> {
  if (path === '') return say(`Which one? /${name} FILE`);
  await conversation.addImage(await readWhole(path, interrupt.signal));
  say(`The ${name === 'image' ? 'image' : 'sound'} ${path} will go before the next message.`);
}

function forget(conversation: Conversation, kept: ChatMessage[]): void {
  if (conversation.messages.some(({ role }) => role !== 'system')) say('The conversation is forgotten.');
  conversation.messages = kept;
}

/** Runs a line that begins with a slash. Returns false for /exit. */
export async function runCommand(conversation: Conversation, line: string): Promise<boolean> {
  const [, word, rest] = /^\/(\S*)\s*([^]*)$/.exec(line)!;
  const name = Object.hasOwn(COMMANDS, word) ? (word as CommandName) : ALIASES.get(word);
  if (name === 'exit') return false;
  if (name !== undefined)
    await Promise.resolve(RUN[name](conversation, rest)).catch((error: NodeJS.ErrnoException) => {
      if (error instanceof QuantletError) return conversation.complain(error);
      if (error.syscall === undefined) throw error;
      conversation.complain(new Error(`cannot ${VERBS[name] ?? name} ${rest || DEFAULT_FILE}: ${whyNot(error)}`));
    });
  else if (word === 'video') say('There is no /video here. /image reads a picture, /audio a sound.');
  else say(`There is no command /${word}; /help lists them.`);
  return true;
}
