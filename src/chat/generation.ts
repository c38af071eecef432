/** model.chat(): a conversation's answer as a stream of events, with tool calls in between. */
import { publicIds } from '../run/image-tokens.ts';
import type { Relaxation } from '../grammar/schema/relaxed.ts';
import type { FinishReason, Timings } from '../generate/generate.ts';
import type { Logprobs } from '../sample/logprobs.ts';
import { createStream, type Stream } from '../generate/stream.ts';
import { checkOptions, KIND, whole, type Kinds } from '../options.ts';
import { plainFormat } from '../grammar/schema-source.ts';
import { inSlices } from '../slices.ts';
import { checkConversation } from './check.ts';
import { readImages } from './images.ts';
import { contentText, newCallId, type ChatMessage, type ChatTool } from './messages.ts';
import { collectEvents, type CallDelta, type ChatEvent } from './parser.ts';
import { partialJson } from './partial-json.ts';
import { CHAT_OPTIONS, type ChatBackend, type ChatOptions } from './options.ts';
import { prepareChatWork, runChat } from './run.ts';
import { templateFor } from './template.ts';
import { offeredTools, runTool, toolsToRun, type ToolCall, type ToolResult, type ToolSet } from './tools.ts';

export interface ModelChatOptions extends Omit<ChatOptions, 'tools'> {
  /**
   * Tools that the model may call. Either an object of tools by name, each with a function to run
   * (execute), or OpenAI's list, whose calls end the answer.
   */
  tools?: readonly ChatTool[] | ToolSet | undefined;
  /**
   * Maximum number of answers when tools are called in between. Default 10. A toolChoice that
   * requires a call applies only to the first answer.
   */
  maxSteps?: number | undefined;
  /**
   * Template for this conversation instead of the model's: Jinja source, or the name of one of
   * llama.cpp's.
   */
  chatTemplate?: string | undefined;
}

const MODEL_CHAT_OPTIONS: Kinds<ModelChatOptions> = { ...CHAT_OPTIONS, maxSteps: whole(1), chatTemplate: KIND.string };
const MAX_STEPS = 10;

/** Log probabilities of the tokens since the previous event, if options.logprobs requests them. */
export interface EventLogprobs {
  readonly logprobs?: readonly Logprobs[];
}

/** The JSON value so far, of arguments or of content that options.responseFormat constrains. */
export interface PartialValue {
  /**
   * The value as far as the text goes: strings end where the text does, and keys and literals that
   * are not complete are left out. Undefined if there is no value yet. Parsed when it is read.
   */
  readonly partial?: unknown;
}

/**
 * Event of model.chat: a part of the answer, or the result of a call. A call comes in pieces
 * (toolCallDelta) while the model writes its arguments, then as a whole (toolCall).
 */
export type ModelChatEvent =
  | ({ readonly type: 'content' | 'reasoning'; readonly delta: string } & EventLogprobs & PartialValue)
  | (Omit<CallDelta, 'id'> & { readonly id: string } & EventLogprobs & PartialValue)
  | ({ readonly type: 'toolCall'; readonly index: number; readonly call: ToolCall } & EventLogprobs)
  | ({ readonly type: 'toolResult' } & ToolResult)
  /** First event of an answer for which options.onContextFull left out `messages` messages. */
  | { readonly type: 'leftOut'; readonly messages: number };

/**
 * A complete answer. If tools were called in between, content, reasoning, calls and ids are those
 * of the last answer.
 */
export interface ChatResult {
  readonly content: string;
  /**
   * The model's reasoning before its answer; '' if it did not reason or if options.reasoning is
   * false.
   */
  readonly reasoning: string;
  /** Calls that have no result yet. */
  readonly toolCalls: readonly ToolCall[];
  /**
   * `stop`: the answer is complete; `tool_calls`: it ends in calls, whose results go into the next
   * messages; `length`: it was cut.
   */
  readonly finishReason: FinishReason;
  /**
   * New messages of the conversation, including calls and their results. The next turn's messages
   * are the given ones, these, and a user's message.
   */
  readonly messages: readonly ChatMessage[];
  /** Number of answers: 1, plus 1 after each round of calls. */
  readonly steps: number;
  /** Messages that were left out because the context is full, see onContextFull. */
  readonly leftOut: number;
  readonly promptIds: readonly number[];
  readonly ids: readonly number[];
  /** One per element of ids, if options.logprobs requests them. */
  readonly logprobs?: readonly Logprobs[];
  /** Sums over all steps. */
  readonly timings: Timings;
  /** Keywords of the schema that were held only in part; absent if there are none. */
  readonly relaxed?: readonly Relaxation[];
}

/** Events of an answer as they arrive, and the complete result. */
export type Chat = Stream<ModelChatEvent, ChatResult>;

type Answer = Omit<ChatResult, 'messages' | 'steps'>;

/**
 * Answers a conversation. Errors are thrown by the first event or the result.
 * @param backendFor receives checked options
 */
export function createChat(
  backendFor: (options: ModelChatOptions) => ChatBackend,
  messages: readonly ChatMessage[],
  given: ModelChatOptions | undefined,
): Chat {
  return createStream('chat', async function* () {
    const options = checkOptions('chat', given, MODEL_CHAT_OPTIONS);
    const { tools, maxSteps = MAX_STEPS, chatTemplate: _, toolChoice, continueFinalMessage = false, ...text } = options;
    const backend = backendFor(options);
    const offered = offeredTools(tools);
    checkConversation(messages, templateFor(backend.chatTemplate, offered).source);
    const added: ChatMessage[] = [];
    let timings: Timings | undefined;
    for (let steps = 1; ; steps++) {
      const conversation = added.length === 0 ? messages : joined(messages, added, continueFinalMessage !== false);
      const choice = steps === 1 || toolChoice === 'none' ? toolChoice : 'auto';
      const answer = yield* answerOnce(backend, conversation, {
        ...text,
        tools: offered,
        ...(choice === undefined ? {} : { toolChoice: choice }),
        ...(steps === 1 ? { continueFinalMessage } : {}),
      });
      timings = timings ? together(timings, answer.timings) : answer.timings;
      added.push(messageOf(answer));
      const execute = answer.finishReason === 'tool_calls' && steps < maxSteps ? toolsToRun(tools, answer.toolCalls) : undefined;
      if (!execute) return { ...answer, messages: added, steps, timings };
      const results = await Promise.all(answer.toolCalls.map((call, i) => runTool(execute[i], call, options.signal)));
      for (const result of results) {
        added.push({ role: 'tool', tool_call_id: result.call.id, name: result.call.name, content: result.parts ?? result.text });
        yield { type: 'toolResult' as const, ...result };
      }
    }
  });
}

/**
 * The conversation with the messages added after it. A continued answer is merged with its
 * continuation.
 */
function joined(messages: readonly ChatMessage[], added: readonly ChatMessage[], goesOn: boolean): readonly ChatMessage[] {
  if (!goesOn) return [...messages, ...added];
  const [begun, answer] = [messages.at(-1)!, added[0]];
  const reasoning = (begun.reasoning_content ?? '') + (answer.reasoning_content ?? '');
  const whole = {
    ...answer,
    content: contentText(begun.content) + contentText(answer.content),
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
  };
  return [...messages.slice(0, -1), whole, ...added.slice(1)];
}

/**
 * Creates the events of one answer from those of its parser: with an id for each call, the same in
 * all of its events, and with partial values.
 * @param isJson the content is JSON
 */
function createTold(isJson: boolean): (event: ChatEvent & EventLogprobs) => ModelChatEvent {
  let id = '';
  let index = -1;
  let text = '';
  const withPartial = <T extends object>(event: T, soFar: string): T & PartialValue => ({
    ...event,
    get partial() {
      return partialJson(soFar);
    },
  });
  return (event) => {
    if (event.type === 'toolCall') return { ...event, call: { ...event.call, id } };
    if (event.type === 'toolCallDelta') {
      if (event.index !== index) [index, id, text] = [event.index, event.id ?? newCallId(), ''];
      return withPartial({ ...event, id }, (text += event.delta));
    }
    if (event.type === 'reasoning' || !isJson) return event;
    return withPartial(event, (text += event.delta));
  };
}

async function* answerOnce(
  backend: ChatBackend,
  messages: readonly ChatMessage[],
  options: ChatOptions,
): AsyncGenerator<ModelChatEvent, Answer> {
  const began = performance.now();
  const read = await readImages(messages, backend.readImage, options.signal);
  const chat = await inSlices(prepareChatWork(backend, read, options), options.signal);
  if (chat.leftOut > 0) yield { type: 'leftOut', messages: chat.leftOut };
  const answer = runChat(backend, chat);
  const told = createTold(options.responseFormat !== undefined && plainFormat(options.responseFormat)?.type !== 'text');
  const events: ModelChatEvent[] = [];
  const ids: number[] = [];
  const logprobs: Logprobs[] = [];
  let since: Logprobs[] = [];
  let firstMs = 0;
  try {
    for (;;) {
      const step = await answer.next();
      if (step.done) {
        const { finishReason, result } = step.value;
        // An answer that was cut after its first call has no result, so its tokens were counted
        // here.
        const seen = {
          promptTokens: chat.promptIds.length,
          promptMs: firstMs,
          predictedTokens: ids.length,
          predictedMs: performance.now() - began - firstMs,
        };
        const { content, reasoning } = collectEvents(
          events.flatMap((event) => (event.type === 'content' || event.type === 'reasoning' ? [event] : [])),
        );
        const toolCalls = events.flatMap((event) => (event.type === 'toolCall' ? [event.call] : []));
        const { leftOut } = chat;
        const promptIds = publicIds(chat.promptIds);
        const made = { content, reasoning, toolCalls, finishReason, leftOut, promptIds, ids };
        const asked = (options.logprobs ?? -1) < 0 ? {} : { logprobs };
        const relaxed = result?.relaxed ? { relaxed: result.relaxed } : {};
        return { ...made, ...asked, timings: result?.timings ?? seen, ...relaxed };
      }
      firstMs ||= performance.now() - began;
      const { part } = step.value;
      if (part && part.id >= 0) ids.push(part.id);
      if (part?.logprobs) {
        logprobs.push(part.logprobs);
        since.push(part.logprobs);
      }
      const [first, ...others] = step.value.events;
      if (!first) continue;
      const sent = [since.length > 0 ? { ...first, logprobs: since } : first, ...others].map(told);
      since = [];
      events.push(...sent);
      yield* sent;
    }
  } finally {
    await answer.return(undefined as never);
  }
}

/** An answer as a message of the conversation. */
const messageOf = ({ content, reasoning, toolCalls }: Answer): ChatMessage => ({
  role: 'assistant',
  content,
  ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
  ...(toolCalls.length === 0
    ? {}
    : {
        tool_calls: toolCalls.map(({ id, name, arguments: text }) => ({
          id,
          type: 'function' as const,
          function: { name, arguments: text },
        })),
      }),
});

function together(a: Timings, b: Timings): Timings {
  const sums = {
    promptTokens: a.promptTokens + b.promptTokens,
    promptMs: a.promptMs + b.promptMs,
    predictedTokens: a.predictedTokens + b.predictedTokens,
    predictedMs: a.predictedMs + b.predictedMs,
    ...(a.neuronBytes !== undefined && { neuronBytes: a.neuronBytes + (b.neuronBytes ?? 0) }),
  };
  if (!a.draft || !b.draft) return { ...sums, ...(a.draft || b.draft ? { draft: a.draft ?? b.draft } : {}) };
  const [longer, shorter] = a.draft.acceptedAt.length > b.draft.acceptedAt.length ? [a.draft, b.draft] : [b.draft, a.draft];
  return {
    ...sums,
    draft: {
      tokens: a.draft.tokens + b.draft.tokens,
      accepted: a.draft.accepted + b.draft.accepted,
      steps: a.draft.steps + b.draft.steps,
      acceptedAt: longer.acceptedAt.map((n, i) => n + (shorter.acceptedAt[i] ?? 0)),
    },
  };
}
