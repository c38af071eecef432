/** quantlet chat: a conversation in the terminal. */
import { basename } from 'node:path';
import { QuantletError } from '../errors.ts';
import { draftTimings } from '../generate/generate.ts';
import type { Model, ModelChatOptions } from '../model.ts';
import { printable } from '../printable.ts';
import {
  COMPUTE_FLAGS,
  CHECKPOINT_FLAGS,
  MODEL_FLAGS,
  givenText,
  openModel,
  readStdin,
  shippedModel,
  SPECULATION_FLAGS,
  tellUnreadPipe,
  templateOf,
  textLines,
  unescape,
  withoutLastBreak,
  VISION_FLAGS,
  type Command,
} from './command.ts';
import { CONVERSATION_HELP } from './conversation-commands.ts';
import { greetingOf } from './conversation.ts';
import { converse } from './converse.ts';
import { filesRead } from './files-read.ts';
import { MCP_FLAGS } from './mcp/config.ts';
import { startServers, type McpHost, type StartingServers } from './mcp/host.ts';
import { askOnce } from './message-input.ts';
import { readImageFiles, withMarkedImages } from './image-files.ts';
import { flagNames, lastOf, type FlagKey, type Values } from './flags.ts';
import { parseOnlyFlags } from './parse-flags.ts';
import { GENERATE_FLAGS, generateOptions } from './generate-options.ts';
import { CALLS_LEFT, CONTEXT_FULL, endAnswer, showAnswer, speeds, styleOf, type AnswerStyle } from './show-answer.ts';
import { TEMPLATE_FLAGS, templateOptions } from './template-options.ts';
import { endUnread } from './unread.ts';

const KEYS = [
  ...MODEL_FLAGS,
  ...COMPUTE_FLAGS,
  ...CHECKPOINT_FLAGS,
  ...SPECULATION_FLAGS,
  ...VISION_FLAGS,
  'image',
  'message',
  'file',
  'system',
  'systemFile',
  'conversation',
  'interactive',
  'singleTurn',
  'multilineInput',
  'threads',
  'threadsBatch',
  'ctx',
  'batch',
  ...GENERATE_FLAGS,
  'contextShift',
  'escape',
  ...TEMPLATE_FLAGS,
  ...MCP_FLAGS,
  'color',
  'showTimings',
  'warmup',
  'turbo',
  'verbose',
  'quiet',
  'perf',
  'build',
  'json',
  'help',
] as const satisfies readonly FlagKey[];
type ChatFlags = Values<(typeof KEYS)[number]>;

/** Message of chat if no model is given. */
const noAnswers =
  (): string => `This is ${basename(shippedModel())}, which ships with quantlet to try things out: it continues stories and cannot answer questions.
Models to talk with, from the smallest (they are downloaded once):
  quantlet chat -hf ggml-org/Qwen3-0.6B-GGUF
  quantlet chat -hf ggml-org/gemma-3-1b-it-GGUF
  quantlet chat -hf bartowski/Llama-3.2-3B-Instruct-GGUF
`;

export const chat: Command = {
  name: 'chat',
  llama: 'llama-cli',
  alsoLlama: ['llama-mtmd-cli'],
  synopsis: '[-m FILE] [-p TEXT] [flags]',
  summary: 'talk with a model',
  flags: KEYS,
  defaults: { ctx: '0' },
  notes: `With -p the message is answered and the program ends (with -cnv or -i it goes on); without it the program asks for messages, or takes them from a pipe, one a line (all as one message with -mli); next to -p a pipe is not read, which stderr says. There, commands begin with a slash:\n${CONVERSATION_HELP.trimEnd().replaceAll(/^/gm, '  ')}`,
  examples: [
    'quantlet chat -m llama-3.2-1b.Q4_K_M.gguf',
    'quantlet chat -hf ggml-org/Qwen3-0.6B-GGUF -sys "Answer in one sentence."',
    'quantlet chat -m model.gguf -p "Why is the sky blue?" --temp 0',
    '(echo "Sum this up:"; cat notes.txt) | quantlet chat -m model.gguf -mli',
  ],
  async run(argv, signal) {
    const values = parseOnlyFlags(argv, KEYS, 'give the message with -p and the model with -m', 'chat');
    endUnread();
    if (values.conversation === false)
      throw new QuantletError('ERR_USAGE', '-no-cnv is not supported here: quantlet run continues a text without a conversation');
    const said = await saidBy(values, 'message', 'file', 'the message');
    const once = said ?? (values.multilineInput && !process.stdin.isTTY ? withoutLastBreak(textLines(await readStdin())) : undefined);
    const goesOn = once === undefined || values.conversation || values.interactive;
    if (said !== undefined && !goesOn && !values.quiet) tellUnreadPipe(values);
    if (values.json && once === undefined) throw new QuantletError('ERR_USAGE', '--json is for one answer; give the message with -p or -f');
    const style = styleOf(values);
    const options = { ...(await generateOptions(values)), ...templateOptions(values) };
    const system = await saidBy(values, 'system', 'systemFile', 'the system message');
    const images = await readImageFiles(values, signal);
    const servers = await startServers(values, signal);
    try {
      const model = await openModel({ ...values, mmprojAuto: values.mmprojAuto ?? true }, signal, await templateOf(values));
      try {
        checkModel(model);
        const mcp = await readyHost(servers);
        const tools = mcp?.toolsFor(model);
        const asked = { model, system, once, images, style, mcp, chat: { ...options, ...(tools ? { tools } : {}) } };
        return await (goesOn ? talk(values, asked, signal) : answerOnce(values, asked, signal));
      } finally {
        await model.dispose();
      }
    } finally {
      await servers?.close();
    }
  },
};

/** The conversation that chat answers, and its settings. */
interface Asked {
  readonly model: Model;
  readonly system: string | undefined;
  /** The message of the flags or the pipe. */
  readonly once: string | undefined;
  readonly images: readonly Uint8Array[];
  readonly chat: ModelChatOptions;
  readonly style: AnswerStyle;
  readonly mcp: McpHost | undefined;
}

/** Waits for the MCP servers, and reports their problems. */
async function readyHost(servers: StartingServers | undefined): Promise<McpHost | undefined> {
  const mcp = await servers?.ready;
  for (const warning of mcp?.warnings ?? []) process.stderr.write(`quantlet: ${warning}\n`);
  return mcp;
}

/** @throws ERR_INVALID_ARGUMENT for a model that does not write text */
function checkModel(model: Model): void {
  const { wants } = model.internals.engine;
  if (wants !== 'logits')
    throw new QuantletError('ERR_INVALID_ARGUMENT', `this ${model.architecture} model makes ${wants}, not text; use quantlet embed`);
  for (const warning of model.chatTemplate.warnings) process.stderr.write(`quantlet: ${printable(flagNames(warning))}\n`);
}

/** A conversation. Returns the exit code. */
function talk(values: ChatFlags, { once, ...asked }: Asked, signal: AbortSignal): Promise<number> {
  const greeting = greetingOf(asked.model) + (asked.mcp?.greeting ?? '');
  return converse(
    {
      ...asked,
      first: once,
      singleTurn: values.singleTurn ?? false,
      shift: values.contextShift ?? true,
      timings: values.showTimings ?? false,
      inputs: filesRead(values),
      greeting: (values.model ?? values.hf) === undefined ? noAnswers() + greeting : greeting,
    },
    signal,
  );
}

/** One answer. Returns the exit code. */
async function answerOnce(
  values: ChatFlags,
  { model, system, once, images, chat: options, style, mcp }: Asked,
  signal: AbortSignal,
): Promise<number> {
  if (process.stdin.isTTY && process.stdout.isTTY) mcp?.askWith(askOnce);
  const before = system === undefined ? [] : [{ role: 'system' as const, content: system }];
  const answer = model.chat([...before, { role: 'user', content: withMarkedImages(once!, images) }], { ...options, signal });
  if (values.json) process.stdout.write(`${JSON.stringify(await report(answer))}\n`);
  else {
    await showAnswer(answer, style);
    const { finishReason, promptIds, ids, timings } = await answer.result();
    const full = finishReason === 'length' && promptIds.length + ids.length >= model.contextLength;
    endAnswer(full ? CONTEXT_FULL : finishReason === 'tool_calls' ? CALLS_LEFT : undefined);
    if (values.showTimings) process.stderr.write(`\n${speeds(timings)}\n`);
  }
  return 0;
}

/** The text of a flag with its escapes replaced, or the unchanged text of a file. */
async function saidBy(
  values: ChatFlags,
  text: 'message' | 'system',
  file: 'file' | 'systemFile',
  what: string,
): Promise<string | undefined> {
  const said = await givenText(values, text, file, what);
  return said === undefined || values.escape === false || lastOf(values, text, file) === file ? said : unescape(said);
}

async function report(answer: ReturnType<Model['chat']>): Promise<object> {
  const { content, reasoning, finishReason, ids, timings: t } = await answer.result();
  return {
    content,
    ...(reasoning ? { reasoning } : {}),
    stop_reason: finishReason,
    ids,
    timings: {
      prompt_n: t.promptTokens,
      prompt_ms: t.promptMs,
      predicted_n: t.predictedTokens,
      predicted_ms: t.predictedMs,
      ...draftTimings(t),
    },
  };
}
