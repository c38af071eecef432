/**
 * Runs one answer of a conversation: render, generate and parse, with the grammar that tools and
 * format require.
 */
import type { PromptImage } from '../run/image-tokens.ts';
import { idsWithImages } from '../generate/parts.ts';
import { withMarkers } from './images.ts';
import type { RenderedPrompt } from './contents.ts';
import { QuantletError } from '../errors.ts';
import { reserved } from '../generate/checked.ts';
import type { FinishReason, GenerateOptions, GenerationPart, GenerationResult } from '../generate/generate.ts';
import { plainFormat } from '../grammar/schema-source.ts';
import { atOnce, type Work } from '../slices.ts';
import type { BreaksIn } from '../tokenize/breaks.ts';
import type { EncodeOptions } from '../tokenize/tokenizer.ts';
import type { ChatFormat } from './formats.ts';
import { begunCalls, holdCalls } from './held-calls.ts';
import { checkTools, type ChatMessage } from './messages.ts';
import { openReasoning } from './markers.ts';
import { createChatParser, type ChatEvent } from './parser.ts';
import { namedTool, type ChatBackend, type ChatOptions } from './options.ts';
import { reasoningLimit, templateExtra } from './reasoning.ts';
import { templateFor, type RenderOptions } from './template.ts';

/** A prepared conversation. All errors of a request are found before it waits in the queue. */
export interface PreparedChat {
  readonly prompt: string;
  /**
   * For a prompt that ends within an answer: the prompt up to the start of that reasoning or
   * content.
   */
  readonly opening?: string;
  readonly promptIds: readonly number[];
  /** Messages that were left out because the context is full, see ChatOptions.onContextFull. */
  readonly leftOut: number;
  readonly options: ChatOptions;
}

/** One generated part, and the events that it completed. */
export interface ChatStep {
  readonly events: readonly ChatEvent[];
  readonly part: GenerationPart | undefined;
}

export interface ChatOutcome {
  readonly finishReason: FinishReason;
  /** Undefined if the answer was cut after its first call. */
  readonly result: GenerationResult | undefined;
}

/** The cause of ERR_CONTEXT_FULL if a prompt alone is too long. */
export interface ContextFull {
  readonly promptTokens: number;
  readonly contextLength: number;
}

/**
 * The number of tokens that may follow a prompt: the context minus the prompt, or all of the
 * context if an encoder reads the prompt.
 * @throws QuantletError ERR_CONTEXT_FULL if there is no room
 */
export function roomFor(promptTokens: number, { contextLength, encoder = false }: Pick<ChatBackend, 'contextLength' | 'encoder'>): number {
  if (promptTokens < contextLength) return encoder ? contextLength : contextLength - promptTokens;
  throw new QuantletError(
    'ERR_CONTEXT_FULL',
    `the prompt has ${promptTokens} tokens, and the context ${contextLength}; expected room for an answer: shorten the prompt, or load the model with a larger contextLength`,
    { cause: { promptTokens, contextLength } satisfies ContextFull },
  );
}

/**
 * Renders and tokenizes a conversation.
 * @throws QuantletError ERR_CHAT_TEMPLATE, ERR_INVALID_ARGUMENT, ERR_CONTEXT_FULL
 */
export function prepareChat(backend: ChatBackend, messages: readonly ChatMessage[], options: ChatOptions): PreparedChat {
  return atOnce(prepareChatWork(backend, messages, options));
}

/** prepareChat() as work that pauses. */
export function* prepareChatWork(backend: ChatBackend, messages: readonly ChatMessage[], options: ChatOptions): Work<PreparedChat> {
  const { render, prepared } = conversationOf(backend, options);
  const { contextLength } = backend;
  const wanted = options.maxTokens === undefined || options.maxTokens === -1 ? Infinity : options.maxTokens;
  const how = options.onContextFull ?? 'error';
  const most = contextLength - reserved(wanted, contextLength);
  let left: Left = { prompt: yield* render(messages), leftOut: 0 };
  if (how !== 'error' && left.prompt.promptIds.length > most) left = yield* leaveOut(messages, how === 'shift' ? 0 : 1, most, render);
  const room = roomFor(left.prompt.promptIds.length, backend);
  const maxTokens = options.answerShift ? wanted : Math.min(room, wanted);
  return prepared(left, { maxTokens });
}

/**
 * The prompt of a conversation of any length: prepareChatWork() without the check of the context.
 */
export function* chatPromptWork(backend: ChatBackend, messages: readonly ChatMessage[], options: ChatOptions): Work<PreparedChat> {
  const { render, prepared } = conversationOf(backend, options);
  return prepared({ prompt: yield* render(messages), leftOut: 0 }, {});
}

/**
 * Evaluates the options that concern the prompt.
 * @throws ERR_INVALID_ARGUMENT
 */
function conversationOf(
  backend: ChatBackend,
  options: ChatOptions,
): {
  render(messages: readonly ChatMessage[]): Work<Prompt>;
  prepared(left: Left, more: ChatOptions): PreparedChat;
} {
  checkTools(options.tools ?? []);
  const choice = options.toolChoice ?? 'auto';
  const responseFormat = options.responseFormat === undefined ? undefined : plainFormat(options.responseFormat);
  const offered = choice === 'none' ? [] : (options.tools ?? []);
  const name = namedTool(choice);
  const tools = name === undefined ? offered : offered.filter((tool) => tool.function.name === name);
  if (choice !== 'auto' && choice !== 'none' && tools.length === 0) {
    const wanted = name === undefined ? 'a tool call' : `a call of the tool "${name}"`;
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `toolChoice asks for ${wanted}; expected one of the tools: add it to tools, or leave the choice to the model`,
    );
  }
  const breaksIn: BreaksIn | undefined =
    options.parseSpecial || !backend.breaksIn ? undefined : (text, keep) => backend.breaksIn!(text, keep);
  return {
    *render(given) {
      const { messages, images } = withMarkers(given);
      const conversation = { ...renderOptions(messages, { ...options, tools: offered }), ...(breaksIn ? { breaksIn } : {}) };
      return yield* promptOf(backend, conversation, images);
    },
    prepared: ({ prompt: { text, promptIds, opening }, leftOut }, more) => ({
      prompt: text,
      promptIds,
      ...(opening === undefined ? {} : { opening }),
      leftOut,
      options: { ...options, ...(responseFormat ? { responseFormat } : {}), tools, toolChoice: choice, ...more },
    }),
  };
}

interface Prompt {
  readonly text: string;
  readonly promptIds: readonly number[];
  readonly opening: string | undefined;
}
/** A prompt, and the number of messages that were left out of it. */
interface Left {
  readonly prompt: Prompt;
  readonly leftOut: number;
}

/**
 * Leaves out as few of the oldest turns as needed for a prompt of at most `most` tokens, or all but
 * the last turn if that is not enough. A turn begins with a user's message. The messages before the
 * first turn (the system message) and the first `keep` turns stay.
 */
function* leaveOut(
  messages: readonly ChatMessage[],
  keep: number,
  most: number,
  render: (some: readonly ChatMessage[]) => Work<Prompt>,
): Work<Left> {
  const starts = messages.flatMap(({ role }, i) => (role === 'user' && messages[i - 1]?.role !== 'user' ? [i] : []));
  const from = starts[keep] ?? messages.length;
  const without = function* (turns: number): Work<Left> {
    const to = starts[keep + turns] ?? from;
    return { prompt: yield* render([...messages.slice(0, from), ...messages.slice(to)]), leftOut: to - from };
  };
  let low = 0;
  let high = Math.max(0, starts.length - 1 - keep);
  let best = yield* without(high);
  if (best.prompt.promptIds.length > most) return best;
  while (low + 1 < high) {
    const turns = (low + high) >> 1;
    const tried = yield* without(turns);
    if (tried.prompt.promptIds.length > most) low = turns;
    else [high, best] = [turns, tried];
  }
  return best;
}

/** A conversation's options in the form that its template takes. */
export const renderOptions = (
  messages: readonly ChatMessage[],
  options: Pick<
    ChatOptions,
    'tools' | 'toolChoice' | 'addGenerationPrompt' | 'continueFinalMessage' | 'reasoningBudget' | 'templateVariables'
  >,
): RenderOptions => ({
  messages,
  tools: options.toolChoice === 'none' ? [] : (options.tools ?? []),
  addGenerationPrompt: options.addGenerationPrompt ?? true,
  continueFinal: options.continueFinalMessage ?? false,
  ...templateExtra(options),
});

/** Renders a conversation and tokenizes it. */
function* promptOf(backend: ChatBackend, conversation: RenderOptions, images: readonly PromptImage[]): Work<Prompt> {
  const { opening, ...rendered } = yield* backend.chatTemplate.renderWork(conversation);
  const after = { addSpecial: false, parseSpecial: true } as const;
  const promptIds =
    images.length === 0
      ? yield* beginning(backend, rendered)
      : yield* idsWithImages(rendered, images, (piece, begins) =>
          begins ? beginning(backend, piece) : encode(backend, piece.text, { ...after, breaks: piece.breaks }),
        );
  return { text: rendered.text, promptIds, opening };
}

/** Ids of the beginning of a prompt, with the token that begins a sequence. */
function* beginning(backend: ChatBackend, { text, breaks }: RenderedPrompt): Work<number[]> {
  // If the template writes the beginning-of-sequence token, the tokenizer must not add another one.
  const { length: bos } = backend.bos;
  const bare = bos > 0 && text.startsWith(backend.bos) ? text.slice(bos) : undefined;
  const withBos = yield* encode(backend, bare ?? text, {
    addSpecial: true,
    parseSpecial: true,
    breaks: bare === undefined ? breaks : breaks.map((at) => at - bos),
  });
  return bare === undefined || startsWithBos(backend, withBos)
    ? withBos
    : yield* encode(backend, text, { addSpecial: false, parseSpecial: true, breaks });
}

/** A backend's tokenize(), with pauses if the backend supports them. */
export function* encode(backend: Pick<ChatBackend, 'tokenize' | 'encodeWork'>, text: string, options: EncodeOptions): Work<number[]> {
  return backend.encodeWork ? yield* backend.encodeWork(text, options) : backend.tokenize(text, options);
}

function startsWithBos(backend: ChatBackend, ids: readonly number[]): boolean {
  const [bos] = backend.tokenize(backend.bos, { addSpecial: false, parseSpecial: true });
  return ids[0] === bos;
}

/** The part of the answer that the prompt already contains. */
const begunText = ({ prompt, opening }: PreparedChat): string => (opening === undefined ? '' : prompt.slice(opening.length));

/** The options of the generation, and the format in which the model writes its answer. */
export function generationOf(
  backend: ChatBackend,
  chat: PreparedChat,
): { readonly options: GenerateOptions; readonly format: ChatFormat; readonly reasoning: boolean } {
  const {
    tools = [],
    toolChoice,
    parallelToolCalls,
    reasoning,
    reasoningBudget = -1,
    reasoningBudgetMessage = '',
    templateVariables: _,
    parseSpecial: __,
    continueFinalMessage: ___,
    addGenerationPrompt: ____,
    onContextFull: _____,
    answerShift,
    responseFormat,
    ...text
  } = chat.options;
  const asked = responseFormat === undefined ? undefined : plainFormat(responseFormat);
  const wanted = asked?.type === 'text' ? undefined : asked;
  const prompt = chat.opening ?? chat.prompt;
  const { format: written } = templateFor(backend.chatTemplate, tools);
  const begun = begunText(chat);
  const required = toolChoice === 'required' || typeof toolChoice === 'object';
  const held =
    tools.length > 0 && (required || wanted)
      ? holdCalls(written, tools, {
          // A required call is one, unless more are asked for.
          several: required ? parallelToolCalls === true : parallelToolCalls !== false,
          section: false,
          answer: required ? undefined : wanted,
          prompt,
          begun,
        })
      : undefined;
  const constrained = held !== undefined || wanted !== undefined;
  const free = !constrained && text.grammar === undefined;
  // A prompt that ends in open reasoning: the grammar or format begins after the reasoning.
  const open = free ? undefined : openReasoning(written.reasoning, prompt);
  const reasons = reasoning !== false && (free || open !== undefined);
  if (open && begun !== '' && !reasons)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      'the last message begins with reasoning, but with "reasoning: false" an answer in a grammar or format has none; expected a message that begins with content: continueFinalMessage "content" ends the reasoning',
    );
  const waits = open !== undefined && reasons;
  const may =
    free && tools.length > 0
      ? begunCalls(written, tools, { prompt, begun, reasoning: reasons, single: parallelToolCalls === false })
      : undefined;
  return {
    format: held?.format ?? written,
    reasoning: reasons,
    options: {
      ...text,
      special: true,
      ...(answerShift ? { onContextFull: 'shift', ...answerShift } : {}),
      ...(held ? { calls: held.calls } : wanted ? { responseFormat: wanted } : may),
      ...(waits ? { grammarAfter: open.end } : {}),
      // Blanks may precede any JSON.
      ...(free || waits || begun === '' ? {} : { begun: constrained ? begun.trimStart() : begun }),
      ...(free || waits ? reasoningLimit(backend, written, prompt, reasoningBudget, reasoningBudgetMessage) : {}),
    },
  };
}

/** Most tokens after the only call of an answer that may close it. */
const MOST_CLOSING = 64;

/**
 * Generates the answer. Each step has the events that its token completed. The return value is the
 * outcome.
 */
export async function* runChat(backend: ChatBackend, chat: PreparedChat): AsyncGenerator<ChatStep, ChatOutcome> {
  const { tools = [], parallelToolCalls } = chat.options;
  const { options, format, reasoning } = generationOf(backend, chat);
  const parser = createChatParser(format, { tools, prompt: chat.opening ?? chat.prompt, reasoning, begun: begunText(chat) });
  const generation = backend.generate(chat.promptIds, options);
  let calls = 0;
  let closing = 0;
  for await (const part of generation) {
    const events = parser.push(part.text);
    calls += events.filter(({ type }) => type === 'toolCall').length;
    if (parallelToolCalls !== false) yield { events, part };
    else {
      yield { events: closing > 0 ? [] : upToFirstCall(events), part };
      // The grammar ends after the call, with the marks that close it. A call that it does not hold has no such end.
      if (calls > 0 && (!options.calls || ++closing > MOST_CLOSING)) return { finishReason: 'tool_calls', result: undefined };
    }
  }
  const rest = parser.end();
  calls += rest.filter(({ type }) => type === 'toolCall').length;
  const left = parallelToolCalls === false ? (closing > 0 ? [] : upToFirstCall(rest)) : rest;
  if (left.length > 0) yield { events: left, part: undefined };
  const result = await generation.result();
  const called = calls > 0 && (result.finishReason === 'stop' || closing > 0);
  return { finishReason: called ? 'tool_calls' : result.finishReason, result };
}

function upToFirstCall(events: readonly ChatEvent[]): readonly ChatEvent[] {
  const first = events.findIndex(({ type }) => type === 'toolCall');
  return first < 0 ? events : events.slice(0, first + 1);
}
