/** POST /v1/chat/completions. */
import { readImages } from '../../chat/images.ts';
import { isRecord } from '../../chat/json.ts';
import { newCallId, type ChatMessage, type ChatPart, type ChatTool } from '../../chat/messages.ts';
import { collectEvents, type ChatEvent } from '../../chat/parser.ts';
import type { ChatOptions } from '../../chat/options.ts';
import {
  chatPromptWork,
  generationOf,
  prepareChatWork,
  runChat,
  type ChatOutcome,
  type ChatStep,
  type PreparedChat,
} from '../../chat/run.ts';
import { templateFor } from '../../chat/template.ts';
import {
  answer,
  answerId,
  createUsage,
  drained,
  mapped,
  promptProgress,
  relaxedIn,
  timings,
  type Context,
  type UsageCounter,
} from '../context.ts';
import { Reading, withReading } from '../../generate/progress.ts';
import { checkFields } from './field-table.ts';
import { booleanField, invalid, numberField, recordField, stringField, type Body } from './fields.ts';
import { HttpError } from '../http/http-error.ts';
import { JsonList } from '../http/json-pieces.ts';
import { chatEntry } from './logprobs.ts';
import { imageReader } from '../images.ts';
import type { ChatDefaults } from '../options.ts';
import { continuation, withPrefill, type ChatRequest } from './prefill.ts';
import { CHAT_REFUSALS, isHosted } from './protocol.ts';
import { reasoningOptions, wishOf } from './reasoning.ts';
import { lengthField, setFormat, shiftOf, textOptions } from './sampling.ts';

/** Maximum number of answers to one request. They are generated one after another. */
export const maxChoices = 16;

/** A request's conversation and options. */
export const chatRequest = (context: Context, body: Body): ChatRequest => {
  const asked = { continues: continuation(body), header: booleanField(body, 'add_generation_prompt') };
  const given = { messages: messagesOf(body), options: chatOptions(context, body) };
  noteNames(context, given);
  return withPrefill(context, given, asked);
};

/**
 * Reports names of speakers that the model's template does not write. A tool's name is not needed,
 * since its call has it.
 */
function noteNames({ backend, leftOut }: Context, { messages, options }: ChatRequest): void {
  const { names } = templateFor(backend.chatTemplate, options.tools).capabilities;
  messages.forEach(({ role, name }, i) => {
    const written = role === 'tool' || names.some((one) => one === (role === 'developer' ? 'system' : role));
    if (name && !written) leftOut.push(`messages[${i}].name`);
  });
}

const ask =
  (work: typeof prepareChatWork) =>
  async (context: Context, { messages, options }: ChatRequest, param = 'messages'): Promise<PreparedChat> => {
    checkMessageCount(context, messages, param);
    const { backend, signal } = context;
    const { parseSpecial = false } = context.options;
    const read = await readImages(messages, imageReader(context), signal);
    return context.work(work(backend, read, { ...options, parseSpecial, signal }));
  };

/**
 * Prepares a request.
 * @throws HttpError 413 for more messages than are allowed; errors of prepareChat()
 */
export const prepared = ask(prepareChatWork);
const prompted = ask(chatPromptWork);

/** Number of tokens of a request's prompt. */
export const countPrompt = async (context: Context, request: ChatRequest, param?: string): Promise<number> =>
  (await prompted(context, request, param)).promptIds.length;

/** @throws HttpError 413 */
export function checkMessageCount({ maxMessages }: Context, messages: unknown, param: string): void {
  if (!Array.isArray(messages) || messages.length <= maxMessages) return;
  throw new HttpError(413, `'${param}' has ${messages.length} messages; expected at most ${maxMessages}. Leave out the oldest.`, {
    param,
    code: 'too_many_messages',
  });
}

/** POST /v1/chat/completions/input_tokens. */
export async function chatInputTokens(context: Context, body: Body): Promise<Response> {
  return Response.json({ input_tokens: await countPrompt(context, chatRequest(context, body)), object: 'response.input_tokens' });
}

/** POST /v1/chat/completions. */
export async function chatCompletions(context: Context, body: Body): Promise<Response> {
  const { backend } = context;
  const n = numberField(body, 'n', { least: 1, most: maxChoices, integer: true }) ?? 1;
  const withProgress = booleanField(body, 'return_progress') ?? false;
  const includeUsage = booleanField(body, 'stream_options.include_usage') ?? false;
  const chat = await prepared(context, chatRequest(context, body));
  const head = { id: answerId('chatcmpl-'), created: context.created, model: backend.name };
  const usage = createUsage(context.metrics);

  // Equal seeds would give equal answers, so each answer gets the next seed.
  const run = (index: number, onProgress?: ChatOptions['onProgress']) =>
    runChoice(context, usage, {
      ...chat,
      options: {
        ...chat.options,
        ...(chat.options.seed === undefined ? {} : { seed: (chat.options.seed + index) % 2 ** 32 }),
        ...(onProgress ? { onProgress } : {}),
      },
    });

  async function* events(place: Promise<unknown>): AsyncGenerator<object | string, void> {
    const base = { ...head, object: 'chat.completion.chunk', ...(includeUsage ? { usage: null } : {}) };
    const chunk = (index: number, delta: object, finish: string | null = null, logprobs: object | null = null): object => ({
      ...base,
      choices: [{ index, delta, logprobs, finish_reason: finish }],
    });
    for (let index = 0; index < n; index++) {
      let entries: object[] = [];
      const deltaOf = createDeltas();
      const taken = (): object | null => {
        const content = entries;
        entries = [];
        return content.length > 0 ? { content, refusal: null } : null;
      };
      yield { ...chunk(index, { role: 'assistant', content: '' }), ...(index === 0 ? leftOutOf(chat) : {}) };
      await place;
      const steps = withProgress ? withReading((onProgress) => run(index, onProgress)) : run(index);
      const outcome = yield* mapped(steps, (step: ChatStep | Reading) => {
        if (step instanceof Reading) return [{ ...chunk(index, { role: 'assistant', content: null }), ...promptProgress(step) }];
        const { events, part } = step;
        if (part?.logprobs) entries.push(chatEntry(backend, part.logprobs));
        return events.flatMap((event) => {
          const delta = deltaOf(event);
          return delta ? [chunk(index, delta, null, taken())] : [];
        });
      });
      const last = chunk(index, {}, outcome.finishReason, taken());
      yield outcome.result ? { ...last, timings: timings(outcome.result), ...relaxedIn([outcome.result]) } : last;
    }
    if (includeUsage) yield { ...base, choices: [], usage: usage.total() };
    yield '[DONE]';
  }

  async function whole(): Promise<object> {
    const choices: object[] = [];
    const results: ChatOutcome['result'][] = [];
    for (let index = 0; index < n; index++) {
      const events: ChatEvent[] = [];
      const content = new JsonList();
      const outcome = await drained(run(index), (step) => {
        events.push(...step.events);
        if (step.part?.logprobs) context.hold(content.push(chatEntry(backend, step.part.logprobs)));
      });
      results.push(outcome.result);
      const logprobs = chat.options.logprobs === undefined ? null : { content, refusal: null };
      choices.push({ index, message: messageOf(events), logprobs, finish_reason: outcome.finishReason });
    }
    return { ...head, object: 'chat.completion', choices, usage: usage.total(), ...relaxedIn(results, leftOutOf(chat)) };
  }

  return answer(context, { body, generations: [[chat.promptIds, generationOf(backend, chat).options]], events, whole });
}

/** Generates one answer and counts its tokens, even if generation fails. */
export async function* runChoice(context: Context, usage: UsageCounter, chat: PreparedChat): AsyncGenerator<ChatStep, ChatOutcome> {
  let tokens = 0;
  let outcome: ChatOutcome | undefined;
  try {
    outcome = yield* mapped(runChat(context.backend, chat), (step) => {
      if ((step.part?.id ?? -1) >= 0) tokens++;
      return [step];
    });
    return outcome;
  } finally {
    usage.add(0, chat.promptIds.length, tokens, outcome?.result);
  }
}

type CallEvent = ChatEvent & { readonly type: 'toolCall' };

const callOf = ({ call }: CallEvent): { id: string; type: string; function: { name: string; arguments: string } } => ({
  id: call.id ?? newCallId(),
  type: 'function',
  function: { name: call.name, arguments: call.arguments },
});

/**
 * Creates the deltas of one answer. The first delta of a call has its id and name, the others have
 * arguments only. Undefined: everything in the event was sent before.
 */
function createDeltas(): (event: ChatEvent) => object | undefined {
  let calls = 0;
  return (event) => {
    if (event.type === 'toolCall') return undefined;
    if (event.type !== 'toolCallDelta') return event.type === 'reasoning' ? { reasoning_content: event.delta } : { content: event.delta };
    const { index, id = newCallId(), name, delta } = event;
    if (index < calls) return { tool_calls: [{ index, function: { arguments: delta } }] };
    calls = index + 1;
    return { tool_calls: [{ index, id, type: 'function', function: { name, arguments: delta } }] };
  };
}

function messageOf(events: readonly ChatEvent[]): object {
  const { content, reasoning } = collectEvents(events);
  const calls = events.flatMap((event) => (event.type === 'toolCall' ? [callOf(event)] : []));
  return {
    role: 'assistant',
    content: content === '' && calls.length > 0 ? null : content,
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    refusal: null,
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  };
}

/** Options from all fields except the messages. */
function chatOptions(context: Context, body: Body): ChatOptions {
  checkFields(CHAT_REFUSALS, body);
  const options: ChatOptions = { ...textOptions(context, body), tools: toolsOf(context, body), toolChoice: toolChoice(body) };
  const maxTokens = lengthField(body, 'max_completion_tokens');
  if (maxTokens !== undefined) options.maxTokens = maxTokens;
  setFormat(options, body);
  const parallelToolCalls = booleanField(body, 'parallel_tool_calls');
  if (parallelToolCalls !== undefined) options.parallelToolCalls = parallelToolCalls;
  const top = numberField(body, 'top_logprobs', { least: 0, most: 20, integer: true });
  const wanted = booleanField(body, 'logprobs');
  if (top !== undefined && !wanted)
    throw new HttpError(400, "'top_logprobs' needs 'logprobs': true.", { param: 'top_logprobs', code: 'invalid_value' });
  if (wanted) options.logprobs = top ?? 0;
  Object.assign(options, conversationOptions(context, body));
  return options;
}

const roles = ['system', 'developer', 'user', 'assistant', 'tool'];

/**
 * The messages, checked field by field.
 * @throws HttpError 400 naming the first invalid field
 */
export function messagesOf(body: Body): ChatMessage[] {
  const { messages } = body;
  if (!Array.isArray(messages) || messages.length === 0) throw invalid('messages', 'a list of at least one message', messages);
  return messages.map((message: unknown, i) => {
    const at = `messages[${i}]`;
    if (!isRecord(message)) throw invalid(at, 'an object', message);
    if (!roles.includes(message.role as string)) throw invalid(`${at}.role`, `one of ${roles.join(', ')}`, message.role);
    const { content } = message;
    const parts = Array.isArray(content) && content.every((part) => isRecord(part) && typeof part.type === 'string');
    const calls = message.tool_calls ?? undefined;
    const optional = message.role === 'assistant';
    if (typeof content !== 'string' && !parts && !(optional && (content ?? null) === null))
      throw invalid(`${at}.content`, 'a string or a list of parts', content);
    if (calls !== undefined) {
      const fits =
        Array.isArray(calls) &&
        calls.every(
          (call) =>
            isRecord(call) &&
            isRecord(call.function) &&
            typeof call.function.name === 'string' &&
            (typeof call.function.arguments === 'string' || isRecord(call.function.arguments)),
        );
      if (!fits) throw invalid(`${at}.tool_calls`, 'a list of {"id", "type": "function", "function": {"name", "arguments"}}', calls);
    }
    for (const name of ['name', 'tool_call_id', 'reasoning_content']) stringField(message, name);
    const given = Object.fromEntries(Object.entries(message).filter(([, value]) => value !== null));
    return { content: '', ...reasoningOf(message), ...given, ...refusalOf(message, at) } as unknown as ChatMessage;
  });
}

/** Reasoning under the name that vLLM, OpenRouter and Ollama use. */
const reasoningOf = ({ role, reasoning }: Body): { reasoning_content?: string } =>
  role === 'assistant' && typeof reasoning === 'string' ? { reasoning_content: reasoning } : {};

/**
 * A refusal in an assistant's message: in place of content, after it, or as a part of it. It
 * becomes ordinary text, so that the model knows that it said it.
 */
function refusalOf({ content, refusal }: Body, at: string): { content?: string | ChatPart[] } {
  const parts = Array.isArray(content) ? content.map((part: ChatPart, i) => refusalText(part, `${at}.content[${i}]`)) : undefined;
  if (typeof refusal !== 'string' || refusal === '') return parts ? { content: parts } : {};
  if (parts === undefined && (content ?? '') === '') return { content: refusal };
  return { content: [...(parts ?? [{ type: 'text', text: content as string }]), { type: 'text', text: refusal }] };
}

const isRefusal = (part: unknown): boolean => isRecord(part) && part.type === 'refusal';

/**
 * Converts a refusal part to a text part; returns other parts unchanged.
 * @throws HttpError 400 for a refusal without a text
 */
export function refusalText(part: ChatPart, at: string): ChatPart {
  if (!isRefusal(part)) return part;
  const { refusal } = part as { refusal?: unknown };
  if (typeof refusal !== 'string') throw invalid(`${at}.refusal`, 'a string', refusal);
  return { type: 'text', text: refusal };
}

function toolsOf(context: Context, body: Body): ChatTool[] {
  const tools = callable(context, body.tools ?? []);
  return functionTools(tools, body.tools, '{"type": "function", "function": {"name", "parameters"}}');
}

/**
 * The tools of a request without hosted ones, which only a provider's server can run. A header of
 * the answer names the tools left out.
 */
export function callable(context: Context, tools: unknown): unknown {
  if (!Array.isArray(tools)) return tools;
  tools.forEach((tool: unknown, i) => isHosted(tool) && context.leftOut.push(`tools[${i}]`));
  return tools.filter((tool) => !isHosted(tool));
}

/**
 * Checks tools in OpenAI's format.
 * @param given the request's value, for the error message
 * @param shape the expected format, for the error message
 */
export function functionTools(tools: unknown, given: unknown, shape: string): ChatTool[] {
  const fits =
    Array.isArray(tools) &&
    tools.every(
      (tool) =>
        isRecord(tool) &&
        isRecord(tool.function) &&
        typeof tool.function.name === 'string' &&
        tool.function.name !== '' &&
        ((tool.function.parameters ?? undefined) === undefined || isRecord(tool.function.parameters)),
    );
  if (!fits) throw invalid('tools', `a list of ${shape}`, given);
  return tools as ChatTool[];
}

/**
 * Options for the template, for reasoning, and for a full context. They come from the server's
 * defaults, overridden by the protocol's fields, overridden by llama-server's fields.
 */
export function conversationOptions(context: Context, body: Body): ChatDefaults & Pick<ChatOptions, 'answerShift' | 'onContextFull'> {
  const { chatDefaults } = context.options;
  const answerShift = shiftOf(context, body);
  const wished = reasoningOptions(context.backend.chatTemplate, wishOf(body));
  const variables = { ...chatDefaults?.templateVariables, ...wished.templateVariables, ...recordField(body, 'chat_template_kwargs') };
  const templateVariables = Object.fromEntries(Object.entries(variables).filter(([, value]) => value !== undefined));
  const bounds = { least: -1, most: 2 ** 31 - 1, integer: true };
  const reasoningBudget =
    numberField(body, 'reasoning_budget_tokens', bounds) ?? numberField(body, 'thinking_budget_tokens', bounds) ?? wished.reasoningBudget;
  const reasoningBudgetMessage = stringField(body, 'reasoning_budget_message');
  const reasoningFormat = stringField(body, 'reasoning_format');
  const onContextFull = onContextFullOf(body);
  return {
    ...chatDefaults,
    ...(Object.keys(templateVariables).length > 0 ? { templateVariables } : {}),
    ...(reasoningBudget === undefined || reasoningBudget < 0 ? {} : { reasoningBudget }),
    ...(reasoningBudgetMessage === undefined ? {} : { reasoningBudgetMessage }),
    ...(reasoningFormat === undefined ? {} : { reasoning: reasoningFormat !== 'none' }),
    ...(answerShift ? { answerShift } : {}),
    ...(onContextFull ? { onContextFull } : {}),
  };
}

const ON_CONTEXT_FULL = ['error', 'shift', 'truncate-middle'] as const;

/**
 * `quantlet.on_context_full`: handling of a conversation that does not fit. `shift` leaves out the
 * oldest turns.
 */
function onContextFullOf(body: Body): ChatOptions['onContextFull'] {
  const own = recordField(body, 'quantlet') ?? {};
  for (const name of Object.keys(own))
    if (name !== 'on_context_full') throw invalid(`quantlet.${name}`, 'left out: on_context_full is the only field', own[name]);
  const asked = stringField(own, 'on_context_full');
  const how = ON_CONTEXT_FULL.find((one) => one === asked);
  if (asked !== undefined && !how) throw invalid('quantlet.on_context_full', `one of ${ON_CONTEXT_FULL.join(', ')}`, asked);
  return how;
}

/**
 * Field of an answer with the number of messages that were left out because the context was full.
 */
export const leftOutOf = ({ leftOut }: Pick<PreparedChat, 'leftOut'>): { quantlet?: { left_out: number } } =>
  leftOut > 0 ? { quantlet: { left_out: leftOut } } : {};

function toolChoice(body: Body): NonNullable<ChatOptions['toolChoice']> {
  const choice = body.tool_choice ?? 'auto';
  if (choice === 'auto' || choice === 'none' || choice === 'required') return choice;
  if (isRecord(choice) && isRecord(choice.function) && typeof choice.function.name === 'string') return { name: choice.function.name };
  throw invalid('tool_choice', '"auto", "none", "required" or {"type": "function", "function": {"name"}}', choice);
}
