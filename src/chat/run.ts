/** One answer of a conversation: rendered, generated, parsed, with the grammar that its tools and format ask for. */
import { QuantletError } from '../errors.ts';
import type { GenerateOptions, Generation, GenerationPart, GenerationResult } from '../generate.ts';
import type { ResponseFormat } from '../grammar/constraint.ts';
import { atOnce, type Work } from '../slices.ts';
import type { BreaksIn } from '../tokenize/breaks.ts';
import type { EncodeOptions } from '../tokenize/tokenizer.ts';
import { jsonCallFormat } from './formats.ts';
import { checkTools, type ChatMessage, type ChatTool } from './messages.ts';
import { createChatParser, type ChatEvent } from './parser.ts';
import type { ChatTemplate } from './template.ts';

/** What chat needs of a model. */
export interface ChatBackend {
  /** Tokens of prompt and answer together. */
  readonly contextLength: number;
  /** @throws QuantletError ERR_CHAT_TEMPLATE where the model's template does not parse */
  readonly chatTemplate: ChatTemplate;
  /** Text of the beginning-of-sequence token, '' where the model has none. */
  readonly bos: string;
  tokenize(text: string, options?: EncodeOptions): number[];
  /** The same as work that pauses. Absent: long texts hold up the event loop. */
  encodeWork?(text: string, options?: EncodeOptions): Work<number[]>;
  /** Absent: what people say in a conversation can forge control tokens, the ends of turns among them. */
  breaksIn?: BreaksIn;
  generate(prompt: readonly number[], options: GenerateOptions): Generation;
}

export interface ChatOptions extends Omit<GenerateOptions, 'special' | 'parseSpecial'> {
  tools?: readonly ChatTool[];
  /** `auto`: the model decides; `none`: no calls; `required`: a call; a name: a call of that tool. */
  toolChoice?: 'auto' | 'none' | 'required' | { readonly name: string };
  /** False: the answer ends after its first call. */
  parallelToolCalls?: boolean;
  /** False leaves reasoning and its markers in the content. */
  reasoning?: boolean;
  /**
   * Read the text of control tokens (`<|im_end|>`) in messages, tools and variables as those tokens, as llama-server does: whoever writes a
   * message can then write turns of others. Default false: they stay text.
   */
  parseSpecial?: boolean;
  /** Further variables of the template, `enable_thinking` for instance. */
  templateVariables?: Readonly<Record<string, unknown>>;
}

/** A conversation made ready: everything that can be wrong with it is found before it waits for a place. */
export interface PreparedChat {
  readonly prompt: string;
  readonly promptIds: readonly number[];
  readonly options: ChatOptions;
}

/** One generated part and what it completed. */
export interface ChatStep {
  readonly events: readonly ChatEvent[];
  readonly part: GenerationPart | undefined;
}

export interface ChatOutcome {
  readonly finishReason: 'stop' | 'length' | 'tool_calls';
  /** Undefined where the answer was cut after its first call. */
  readonly result: GenerationResult | undefined;
}

/** Context minus prompt: how many tokens may still come. @throws QuantletError ERR_CONTEXT_FULL where none may */
export function roomFor(promptTokens: number, contextLength: number): number {
  if (promptTokens < contextLength) return contextLength - promptTokens;
  throw new QuantletError('ERR_CONTEXT_FULL', `The prompt has ${promptTokens} tokens, the context ${contextLength}; expected room for an answer. Shorten the prompt or load the model with a larger contextLength.`);
}

/**
 * Renders and tokenizes a conversation.
 * @throws QuantletError ERR_CHAT_TEMPLATE, ERR_INVALID_ARGUMENT, ERR_CONTEXT_FULL
 */
export function prepareChat(backend: ChatBackend, messages: readonly ChatMessage[], options: ChatOptions): PreparedChat {
  return atOnce(prepareChatWork(backend, messages, options));
}

/** The same as work that pauses. */
export function* prepareChatWork(backend: ChatBackend, messages: readonly ChatMessage[], options: ChatOptions): Work<PreparedChat> {
  checkTools(options.tools ?? []);
  const choice = options.toolChoice ?? 'auto';
  const offered = choice === 'none' ? [] : (options.tools ?? []);
  const tools = typeof choice === 'string' ? offered : offered.filter((tool) => tool.function.name === choice.name);
  if (choice !== 'auto' && choice !== 'none' && tools.length === 0) {
    const wanted = typeof choice === 'string' ? 'a tool call' : `a call of the tool "${choice.name}"`;
    throw new QuantletError('ERR_INVALID_ARGUMENT', `toolChoice asks for ${wanted}, which tools does not offer. Add the tool or leave the choice to the model.`);
  }
  const breaksIn: BreaksIn | undefined = options.parseSpecial || !backend.breaksIn ? undefined : (text, keep) => backend.breaksIn!(text, keep);
  const { text, breaks } = yield* backend.chatTemplate.renderWork({ messages, tools: offered, ...(options.templateVariables ? { extra: options.templateVariables } : {}), ...(breaksIn ? { breaksIn } : {}) });
  // Where the template writes the beginning-of-sequence token, the tokenizer must not add another one.
  const { length: bos } = backend.bos, bare = bos > 0 && text.startsWith(backend.bos) ? text.slice(bos) : undefined;
  const withBos = yield* encode(backend, bare ?? text, { addSpecial: true, parseSpecial: true, breaks: bare === undefined ? breaks : breaks.map((at) => at - bos) });
  const promptIds = bare === undefined || startsWithBos(backend, withBos) ? withBos : yield* encode(backend, text, { addSpecial: false, parseSpecial: true, breaks });
  const room = roomFor(promptIds.length, backend.contextLength);
  const maxTokens = Math.min(room, options.maxTokens === undefined || options.maxTokens < 0 ? room : options.maxTokens);
  return { prompt: text, promptIds, options: { ...options, tools, toolChoice: choice, maxTokens } };
}

/** A backend's tokenize(), with pauses where it knows how. */
export function* encode(backend: Pick<ChatBackend, 'tokenize' | 'encodeWork'>, text: string, options: EncodeOptions): Work<number[]> {
  return backend.encodeWork ? yield* backend.encodeWork(text, options) : backend.tokenize(text, options);
}

function startsWithBos(backend: ChatBackend, ids: readonly number[]): boolean {
  const [bos] = backend.tokenize(backend.bos, { addSpecial: false, parseSpecial: true });
  return ids[0] === bos;
}

/** Generates the answer; each step has the events that its token completed. The return value is the outcome. */
export async function* runChat(backend: ChatBackend, chat: PreparedChat): AsyncGenerator<ChatStep, ChatOutcome> {
  const { tools = [], toolChoice, parallelToolCalls, reasoning, templateVariables: _, parseSpecial: __, responseFormat, ...text } = chat.options;
  const format = constraint(tools, toolChoice, responseFormat);
  const json = format !== undefined && format.type !== 'text';
  const parser = createChatParser(json && tools.length > 0 ? jsonCallFormat : backend.chatTemplate.format, {
    tools,
    prompt: chat.prompt,
    reasoning: reasoning !== false && !json && text.grammar === undefined,
  });
  const generation = backend.generate(chat.promptIds, { ...text, special: true, ...(format ? { responseFormat: format } : {}) });
  let calls = 0;
  for await (const part of generation) {
    const events = parser.push(part.text);
    calls += events.filter(({ type }) => type === 'toolCall').length;
    if (calls > 0 && parallelToolCalls === false) {
      yield { events: upToFirstCall(events), part };
      return { finishReason: 'tool_calls', result: undefined };
    }
    yield { events, part };
  }
  const rest = parser.end();
  calls += rest.filter(({ type }) => type === 'toolCall').length;
  if (rest.length > 0) yield { events: parallelToolCalls === false ? upToFirstCall(rest) : rest, part: undefined };
  const result = await generation.result();
  const ended = result.finishReason === 'eog' || result.finishReason === 'stop';
  return { finishReason: !ended ? 'length' : calls > 0 ? 'tool_calls' : 'stop', result };
}

function upToFirstCall(events: readonly ChatEvent[]): readonly ChatEvent[] {
  const first = events.findIndex(({ type }) => type === 'toolCall');
  return first < 0 ? events : events.slice(0, first + 1);
}

/**
 * The format that a tool choice and a response format ask for together: a call where one is required; a call or the
 * answer's own schema where the model may choose.
 */
function constraint(tools: readonly ChatTool[], choice: ChatOptions['toolChoice'], format: ResponseFormat | undefined): ResponseFormat | undefined {
  const wanted = format?.type === 'text' ? undefined : format;
  const required = choice === 'required' || typeof choice === 'object';
  if (tools.length === 0 || (!required && !wanted)) return wanted;
  const definitions: Record<string, object> = {};
  const schemas: object[] = tools.map((tool, i) => callSchema(tool, i, definitions));
  if (!required && wanted) schemas.push(wanted.type === 'json_schema' ? rooted(wanted.schema, 'answer', definitions) : { type: 'object' });
  const schema = schemas.length === 1 ? schemas[0] : { anyOf: schemas };
  return { type: 'json_schema', schema: Object.keys(definitions).length > 0 ? { ...schema, $defs: definitions } : schema };
}

function callSchema(tool: ChatTool, index: number, definitions: Record<string, object>): object {
  return {
    type: 'object',
    properties: { name: { const: tool.function.name }, arguments: rooted(tool.function.parameters ?? { type: 'object' }, `tool${index}`, definitions) },
    required: ['name', 'arguments'],
    additionalProperties: false,
  };
}

/** A schema put inside another: its references, which start at its own root, are made to start at a definition. */
function rooted(schema: object, name: string, definitions: Record<string, object>): object {
  if (!JSON.stringify(schema).includes('"$ref"')) return schema;
  const move = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(move);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, key === '$ref' && typeof item === 'string' ? item.replace(/^#/, `#/$defs/${name}`) : move(item)]));
  };
  definitions[name] = move(schema) as object;
  return { $ref: `#/$defs/${name}` };
}
