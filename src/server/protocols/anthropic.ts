/** POST /v1/messages and /v1/messages/count_tokens: Anthropic's protocol. */
import { exactJson } from '../../chat/exact-json.ts';
import { imageUrl } from '../../chat/images.ts';
import { isRecord } from '../../chat/json.ts';
import { partialJson } from '../../chat/partial-json.ts';
import type { ChatMessage, ChatPart, ChatTool, ChatToolCall } from '../../chat/messages.ts';
import type { ChatOptions } from '../../chat/options.ts';
import { failureText } from '../../chat/tools.ts';
import { generationOf, type ChatOutcome } from '../../chat/run.ts';
import { createBlocks, type Block, type BlockWriter } from './blocks.ts';
import { countPrompt, functionTools, leftOutOf, prepared, runChoice, conversationOptions } from './chat.ts';
import { answer, answerId, createUsage, drained, mapped, relaxedIn, type Context } from '../context.ts';
import { checkFields } from './field-table.ts';
import { booleanField, invalid, recordField, stringField, type Body } from './fields.ts';
import { contextFullOf, errorBody, type HttpError } from '../http/http-error.ts';
import { JsonText } from '../http/json-pieces.ts';
import { withPrefill, type ChatRequest } from './prefill.ts';
import { MESSAGE_REFUSALS } from './protocol.ts';
import { formatOf, lengthField, setFormat, textOptions } from './sampling.ts';

/** Anthropic's streams have their own ping event. */
export const MESSAGES_STREAM = { ping: { type: 'ping' } };

/** POST /v1/messages. */
export async function messages(context: Context, body: Body): Promise<Response> {
  const chat = await prepared(context, messagesRequest(context, body));
  const usage = createUsage(context.metrics);
  const head = { id: answerId('msg_'), type: 'message', role: 'assistant', model: context.backend.name, ...leftOutOf(chat) };
  const counts = (): object => {
    const { prompt_tokens, completion_tokens, prompt_tokens_details } = usage.total();
    const cached = prompt_tokens_details.cached_tokens;
    return {
      input_tokens: prompt_tokens - cached,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: cached,
      output_tokens: completion_tokens,
    };
  };

  async function* events(place: Promise<unknown>): AsyncGenerator<object, void> {
    const blocks = createBlocks(blockWriter);
    // The number of cached tokens is known only at the end; message_delta reports it.
    const first = { input_tokens: chat.promptIds.length, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 0 };
    yield { type: 'message_start', message: { ...head, content: [], stop_reason: null, stop_sequence: null, usage: first } };
    await place;
    const outcome = yield* mapped(runChoice(context, usage, chat), (step) => step.events.flatMap((event) => blocks.push(event)));
    yield* blocks.end();
    yield { type: 'message_delta', delta: stopOf(outcome), usage: counts(), ...relaxedIn([outcome.result]) };
    yield { type: 'message_stop' };
  }

  async function whole(): Promise<object> {
    const blocks = createBlocks();
    const outcome = await drained(runChoice(context, usage, chat), ({ events }) => {
      for (const event of events) blocks.push(event);
    });
    return { ...head, content: blocks.all.map(contentBlock), ...stopOf(outcome), usage: counts(), ...relaxedIn([outcome.result], head) };
  }

  const generations = [[chat.promptIds, generationOf(context.backend, chat).options]] as const;
  return answer(context, { ...MESSAGES_STREAM, body, generations, events, whole });
}

/** POST /v1/messages/count_tokens. */
export async function countMessageTokens(context: Context, body: Body): Promise<Response> {
  return Response.json({ input_tokens: await countPrompt(context, messagesRequest(context, body)) });
}

function stopOf({ finishReason, result }: ChatOutcome): { stop_reason: string; stop_sequence: string | null } {
  const stopText = result?.stopText;
  if (stopText !== undefined) return { stop_reason: 'stop_sequence', stop_sequence: stopText };
  const reasons = { stop: 'end_turn', length: 'max_tokens', tool_calls: 'tool_use' } as const;
  return { stop_reason: reasons[finishReason], stop_sequence: null };
}

/**
 * A block of an answer. Only Anthropic can sign reasoning, so its signature is empty; clients send
 * it back.
 */
function contentBlock({ type, text, call, cut }: Block): object {
  if (type === 'toolCall') {
    const input = cut ? (partialJson(text) ?? {}) : text === '' ? {} : new JsonText(text);
    return { type: 'tool_use', id: call!.id, name: call!.name, input };
  }
  // `citations` is left out. Anthropic sends null for a block without citations, but some clients
  // (the AI SDK) accept only a list.
  return type === 'reasoning' ? { type: 'thinking', thinking: text, signature: '' } : { type: 'text', text };
}

const blockWriter: BlockWriter<object> = {
  open: (block) => [{ type: 'content_block_start', index: block.index, content_block: contentBlock({ ...block, text: '' }) }],
  delta({ type, index }, text) {
    const delta =
      type === 'toolCall'
        ? { type: 'input_json_delta', partial_json: text }
        : type === 'reasoning'
          ? { type: 'thinking_delta', thinking: text }
          : { type: 'text_delta', text };
    return [{ type: 'content_block_delta', index, delta }];
  },
  close({ type, index }) {
    const stop = { type: 'content_block_stop', index };
    if (type !== 'reasoning') return [stop];
    return [{ type: 'content_block_delta', index, delta: { type: 'signature_delta', signature: '' } }, stop];
  },
};

const errorTypes: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
  504: 'timeout_error',
};

/** A failure in Anthropic's format, plus OpenAI's `param` and `code`, which say more. */
export function messagesError(error: HttpError): object {
  const { status, param, code, details } = error;
  const type = errorTypes[status] ?? (status >= 500 ? 'api_error' : 'invalid_request_error');
  const message = tooLong(error) ?? error.message;
  return { type: 'error', error: { type, message, param, code, ...(details ? { details } : {}) }, request_id: null };
}

/**
 * Selects the format of failures for paths that belong to no protocol or to several. All Anthropic
 * clients send the header `anthropic-version`.
 */
export const clientErrorBody = ({ headers }: Request): ((error: HttpError) => object) =>
  headers.has('anthropic-version') ? messagesError : errorBody;

/**
 * Anthropic's words for a prompt that leaves no room. Claude Code shortens its conversation when it
 * reads them.
 */
function tooLong(error: HttpError): string | undefined {
  const full = contextFullOf(error);
  if (!full) return undefined;
  const { promptTokens, contextLength } = full;
  return `prompt is too long: ${promptTokens} tokens > ${Math.min(contextLength, promptTokens - 1)} maximum. ${error.message}`;
}

function messagesRequest(context: Context, body: Body): ChatRequest {
  checkFields(MESSAGE_REFUSALS, body);
  const choice = recordField(body, 'tool_choice') ?? {};
  const options: ChatOptions = { ...textOptions(context, body, 'stop_sequences'), tools: toolsOf(body), toolChoice: toolChoice(choice) };
  const maxTokens = lengthField(body, 'max_tokens');
  if (maxTokens !== undefined) options.maxTokens = maxTokens;
  if (booleanField(choice, 'disable_parallel_tool_use')) options.parallelToolCalls = false;
  const format = formatOf(recordField(body, 'output_config.format'), 'output_config.format');
  setFormat(options, body, format ?? formatOf(recordField(body, 'output_format'), 'output_format'));
  Object.assign(options, conversationOptions(context, body));
  return withPrefill(context, { messages: oneEnd([...systemOf(body), ...conversation(body)]), options });
}

function systemOf(body: Body): ChatMessage[] {
  const system = body.system ?? undefined;
  if (system === undefined) return [];
  const parts = textParts(system, 'system');
  return [{ role: 'system', content: parts.map((part) => ({ ...part, text: steady(part.text!) })) }];
}

/**
 * Removes a checksum of the conversation from the line with which Claude Code begins its system
 * prompt. The checksum changes with every turn, so the cache would never match.
 */
const steady = (text: string): string => text.replace(/^(x-anthropic-billing-header:[^\n]*?\bcch=)\w+/, '$1');

/** A block of text or an image. */
function userPart(block: unknown, at: string): ChatPart {
  if (!isRecord(block) || block.type !== 'image') return textPart(block, at);
  const { type, media_type: media, data, url } = recordField(block, 'source') ?? {};
  if (type === 'base64' && typeof media === 'string' && typeof data === 'string')
    return { type: 'image_url', image_url: { url: imageUrl(data, media) } };
  if (type === 'url' && typeof url === 'string') return { type: 'image_url', image_url: { url } };
  throw invalid(`${at}.source`, '{"type": "base64", "media_type", "data"}', block.source);
}

/** Converts a text, or a list of blocks of text and images, to parts. */
function resultContent(content: unknown, at: string): ChatPart[] {
  return Array.isArray(content) ? content.map((block: unknown, i) => userPart(block, `${at}[${i}]`)) : textParts(content, at);
}

/** Converts a text, or a list of text blocks, to parts. */
function textParts(content: unknown, at: string): ChatPart[] {
  if (typeof content === 'string') return [{ type: 'text', text: content }];
  if (!Array.isArray(content)) throw invalid(at, 'a string or a list of blocks', content);
  return content.map((block: unknown, i) => textPart(block, `${at}[${i}]`));
}

function textPart(block: unknown, at: string): ChatPart {
  if (isRecord(block) && block.type === 'text' && typeof block.text === 'string') return { type: 'text', text: block.text };
  throw invalid(
    at,
    '{"type": "text", "text"}, or in user messages an image: documents and blocks of server tools are not read here',
    block,
  );
}

/**
 * Converts messages and their blocks in order. Results of tools become messages of their own, as
 * templates want them.
 */
function conversation(body: Body): ChatMessage[] {
  const { messages } = body;
  if (!Array.isArray(messages) || messages.length === 0) throw invalid('messages', 'a list of at least one message', messages);
  return messages.flatMap((message: unknown, i): ChatMessage[] => {
    const at = `messages[${i}]`;
    if (!isRecord(message)) throw invalid(at, 'an object', message);
    const { role, content } = message;
    if (role !== 'user' && role !== 'assistant' && role !== 'system') throw invalid(`${at}.role`, '"user" or "assistant"', role);
    if (typeof content === 'string') return [{ role, content }];
    if (!Array.isArray(content)) throw invalid(`${at}.content`, 'a string or a list of blocks', content);
    return role === 'assistant' ? [assistantMessage(content, `${at}.content`)] : userMessages(role, content, `${at}.content`);
  });
}

/**
 * Merges consecutive assistant messages at the end. Anthropic treats them as one turn, which the
 * answer continues.
 */
function oneEnd(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  const last = messages.at(-1);
  const before = messages.at(-2);
  if (last?.role !== 'assistant' || before?.role !== 'assistant' || last.tool_calls || before.tool_calls) return messages;
  const content = [before, last].flatMap(({ content }): ChatPart[] =>
    typeof content === 'string' ? [{ type: 'text', text: content }] : [...(content ?? [])],
  );
  const reasoning = [before, last].flatMap(({ reasoning_content: text }) => text ?? []).join('\n');
  return oneEnd([...messages.slice(0, -2), { role: 'assistant', content, ...(reasoning === '' ? {} : { reasoning_content: reasoning }) }]);
}

function assistantMessage(content: readonly unknown[], at: string): ChatMessage {
  const parts: ChatPart[] = [];
  const reasoning: string[] = [];
  const calls: ChatToolCall[] = [];
  content.forEach((block, i) => {
    const type = isRecord(block) ? block.type : undefined;
    if (type === 'redacted_thinking') return;
    if (type === 'thinking') reasoning.push(stringField(block as Body, 'thinking') ?? '');
    else if (type === 'tool_use') {
      const { id, name, input } = block as Body;
      if (typeof id !== 'string' || typeof name !== 'string' || !isRecord(input))
        throw invalid(`${at}[${i}]`, '{"type": "tool_use", "id", "name", "input"}, the input an object', block);
      calls.push({ id, type: 'function', function: { name, arguments: exactJson(input) } });
    } else parts.push(textPart(block, `${at}[${i}]`));
  });
  return {
    role: 'assistant',
    content: parts.length > 0 ? parts : '',
    ...(reasoning.length > 0 ? { reasoning_content: reasoning.join('\n') } : {}),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  };
}

function userMessages(role: string, content: readonly unknown[], at: string): ChatMessage[] {
  const messages: ChatMessage[] = [];
  let parts: ChatPart[] = [];
  const flush = (): void => {
    if (parts.length > 0) messages.push({ role, content: parts });
    parts = [];
  };
  content.forEach((block, i) => {
    if (!isRecord(block) || block.type !== 'tool_result') return void parts.push(userPart(block, `${at}[${i}]`));
    if (typeof block.tool_use_id !== 'string') throw invalid(`${at}[${i}].tool_use_id`, 'a string', block.tool_use_id);
    flush();
    messages.push({ role: 'tool', tool_call_id: block.tool_use_id, content: resultParts(block, `${at}[${i}]`) });
  });
  flush();
  return messages;
}

/** A tool's result. Templates have no field for failures, so the text says it. */
function resultParts(block: Body, at: string): ChatPart[] {
  const parts = resultContent(block.content ?? '', `${at}.content`);
  if (!booleanField(block, 'is_error')) return parts;
  const first = parts.find(({ text }) => text);
  const others = parts.filter((part) => part !== first && part.text !== '');
  return [{ type: 'text', text: failureText(first?.text ?? '') }, ...others];
}

function toolsOf(body: Body): ChatTool[] {
  const tools = body.tools ?? [];
  const shape = '{"name", "description", "input_schema"}';
  if (!Array.isArray(tools) || !tools.every(isRecord)) throw invalid('tools', `a list of ${shape}`, tools);
  const functions = tools.map(({ name, description, input_schema: parameters, strict }) => ({
    type: 'function',
    function: Object.fromEntries(
      Object.entries({ name, description, parameters, strict }).filter(([, value]) => (value ?? undefined) !== undefined),
    ),
  }));
  return functionTools(functions, tools, shape);
}

function toolChoice(choice: Body): NonNullable<ChatOptions['toolChoice']> {
  const { type = 'auto', name } = choice;
  if (type === 'auto' || type === 'none') return type;
  if (type === 'any') return 'required';
  if (type === 'tool' && typeof name === 'string') return { name };
  throw invalid('tool_choice', '{"type": "auto" | "any" | "none"} or {"type": "tool", "name"}', choice);
}
