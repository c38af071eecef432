/**
 * POST /v1/responses: OpenAI's protocol for agents. Nothing is stored, so every request contains
 * the whole conversation.
 */
import { isRecord } from '../../chat/json.ts';
import type { ChatMessage, ChatPart, ChatToolCall } from '../../chat/messages.ts';
import type { ChatOptions } from '../../chat/options.ts';
import { generationOf, type ChatOutcome, type ChatStep } from '../../chat/run.ts';
import { createBlocks, type Block, type Blocks, type BlockWriter } from './blocks.ts';
import { countPrompt, leftOutOf, prepared, conversationOptions, refusalText, runChoice } from './chat.ts';
import { answer, answerId, createUsage, drained, mapped, relaxedIn, type Context } from '../context.ts';
import { checkFields, unsupported } from './field-table.ts';
import { booleanField, invalid, metadataField, numberField, recordField, stringField, type Body } from './fields.ts';
import { errorBody, type HttpError } from '../http/http-error.ts';
import { withPrefill, type ChatRequest } from './prefill.ts';
import { RESPONSE_REFUSALS } from './protocol.ts';
import { calledName, responseTools, toolChoice, type ResponseTools } from './response-tools.ts';
import { formatOf, lengthField, setFormat, textOptions } from './sampling.ts';

/** POST /v1/responses. */
export async function responses(context: Context, body: Body): Promise<Response> {
  const { nameOf, ...request } = responseRequest(context, body);
  const chat = await prepared(context, request, 'input');
  const usage = createUsage(context.metrics);
  // Returns only short fields of the request. The tools may have a megabyte and would be sent with
  // several events; the client knows them anyway.
  const head = {
    id: answerId('resp_'),
    object: 'response',
    created_at: context.created,
    model: context.backend.name,
    error: null,
    instructions: null,
    max_output_tokens: body.max_output_tokens ?? null,
    metadata: metadataField(body),
    parallel_tool_calls: request.options.parallelToolCalls ?? true,
    previous_response_id: null,
    store: false,
    temperature: body.temperature ?? null,
    tool_choice: body.tool_choice ?? 'auto',
    tools: [],
    top_p: body.top_p ?? null,
    truncation: 'disabled',
    ...leftOutOf(chat),
  };
  let reasoningTokens = 0;
  const take = <Sent>(blocks: Blocks<Sent>, { events, part }: ChatStep): Sent[] => {
    const sent = events.flatMap((event) => blocks.push(event));
    if ((part?.id ?? -1) >= 0 && blocks.current?.type === 'reasoning') reasoningTokens++;
    return sent;
  };
  const ended = (output: readonly object[], { finishReason, result }: ChatOutcome): object => {
    const { prompt_tokens, completion_tokens, total_tokens, prompt_tokens_details } = usage.total();
    const cut = finishReason === 'length';
    return {
      ...head,
      status: cut ? 'incomplete' : 'completed',
      incomplete_details: cut ? { reason: 'max_output_tokens' } : null,
      completed_at: cut ? null : Math.floor(Date.now() / 1000),
      output,
      usage: {
        input_tokens: prompt_tokens,
        input_tokens_details: { ...prompt_tokens_details, cache_write_tokens: 0 },
        output_tokens: completion_tokens,
        output_tokens_details: { reasoning_tokens: reasoningTokens },
        total_tokens,
      },
      ...relaxedIn([result], head),
    };
  };

  let sequence = 0;
  const event = (type: string, fields: object): object => ({ type, sequence_number: sequence++, ...fields });

  async function* events(place: Promise<unknown>): AsyncGenerator<object, void> {
    const items = createItems(nameOf);
    const blocks = createBlocks(itemWriter(items, event, nameOf));
    const response = { ...head, status: 'in_progress', incomplete_details: null, output: [], usage: null };
    yield event('response.created', { response });
    yield event('response.in_progress', { response });
    await place;
    const outcome = yield* mapped(runChoice(context, usage, chat), (step) => take(blocks, step));
    const cut = outcome.finishReason === 'length';
    yield* blocks.end(cut);
    yield event(cut ? 'response.incomplete' : 'response.completed', { response: ended(blocks.all.map(items), outcome) });
  }

  async function whole(): Promise<object> {
    const blocks = createBlocks();
    const outcome = await drained(runChoice(context, usage, chat), (step) => void take(blocks, step));
    blocks.end(outcome.finishReason === 'length');
    return ended(blocks.all.map(createItems(nameOf)), outcome);
  }

  const generations = [[chat.promptIds, generationOf(context.backend, chat).options]] as const;
  return answer(context, { body, generations, events, whole, streamError: (failure) => errorEvent(failure, sequence++) });
}

/**
 * A failure as an event. Clients read `error`; the documentation puts its fields next to the type.
 */
function errorEvent(failure: HttpError, sequence_number: number): object {
  const { error } = errorBody(failure);
  return { type: 'error', sequence_number, code: error.code, message: error.message, param: error.param, error };
}

/** For a stream that fails before its first event. */
export const RESPONSES_STREAM = { streamError: (failure: HttpError): object => errorEvent(failure, 0) };

/** POST /v1/responses/input_tokens. */
export async function responseInputTokens(context: Context, body: Body): Promise<Response> {
  return Response.json({
    object: 'response.input_tokens',
    input_tokens: await countPrompt(context, responseRequest(context, body), 'input'),
  });
}

type NameOf = ResponseTools['nameOf'];

/** Converts a block to an item of a response's output. A block always gets the same id. */
type Items = (block: Block) => object;

function createItems(nameOf: NameOf): Items {
  const ids = new Map<Block, string>();
  const id = (block: Block, prefix: 'rs_' | 'msg_' | 'fc_'): string => {
    const known = ids.get(block) ?? answerId(prefix);
    ids.set(block, known);
    return known;
  };
  return (block) => {
    const { type, text, call, cut } = block;
    const status = cut ? 'incomplete' : 'completed';
    if (type === 'toolCall')
      return { type: 'function_call', id: id(block, 'fc_'), call_id: call!.id, ...nameOf(call!.name), arguments: text, status };
    const content = [partOf(block)];
    if (type === 'reasoning') return { type, id: id(block, 'rs_'), summary: [], content, status };
    return { type: 'message', id: id(block, 'msg_'), role: 'assistant', content, status };
  };
}

const partOf = ({ type, text }: Block): object =>
  type === 'reasoning' ? { type: 'reasoning_text', text } : { type: 'output_text', annotations: [], logprobs: [], text };

/** The events of each item: added, deltas, done. */
function itemWriter(items: Items, event: (type: string, fields: object) => object, nameOf: NameOf): BlockWriter<object> {
  const names = { content: 'response.output_text', reasoning: 'response.reasoning_text', toolCall: 'response.function_call_arguments' };
  const at = (block: Block): { output_index: number; item_id: string; content_index?: number } => ({
    output_index: block.index,
    item_id: (items(block) as { id: string }).id,
    ...(block.type === 'toolCall' ? {} : { content_index: 0 }),
  });
  const logprobs = ({ type }: Block): object => (type === 'content' ? { logprobs: [] } : {});
  return {
    open(block) {
      const item = { ...items(block), status: 'in_progress', ...(block.type === 'toolCall' ? {} : { content: [] }) };
      const added = event('response.output_item.added', { output_index: block.index, item });
      if (block.type === 'toolCall') return [added];
      return [added, event('response.content_part.added', { ...at(block), part: partOf(block) })];
    },
    delta: (block, delta) => [event(`${names[block.type]}.delta`, { ...at(block), delta, ...logprobs(block) })],
    close(block) {
      const { type, text, call } = block;
      const written = type === 'toolCall' ? { name: nameOf(call!.name).name, arguments: text } : { text, ...logprobs(block) };
      return [
        event(`${names[type]}.done`, { ...at(block), ...written }),
        ...(type === 'toolCall' ? [] : [event('response.content_part.done', { ...at(block), part: partOf(block) })]),
        event('response.output_item.done', { output_index: block.index, item: items(block) }),
      ];
    },
  };
}

function responseRequest(context: Context, body: Body): ChatRequest & { readonly nameOf: NameOf } {
  checkFields(RESPONSE_REFUSALS, body);
  const { tools, nameOf } = responseTools(context, body);
  const options: ChatOptions = { ...textOptions(context, body), tools, toolChoice: toolChoice(body) };
  const maxTokens = numberField(body, 'max_output_tokens', { least: 0, integer: true }) ?? lengthField(body);
  if (maxTokens !== undefined) options.maxTokens = maxTokens;
  setFormat(options, body, formatOf(recordField(body, 'text.format'), 'text.format'));
  const parallelToolCalls = booleanField(body, 'parallel_tool_calls');
  if (parallelToolCalls !== undefined) options.parallelToolCalls = parallelToolCalls;
  Object.assign(options, conversationOptions(context, body));
  const instructions = stringField(body, 'instructions');
  const messages = inputMessages(body);
  const conversation: ChatMessage[] = instructions === undefined ? messages : [{ role: 'system', content: instructions }, ...messages];
  return { ...withPrefill(context, { messages: conversation, options }, {}, 'input'), nameOf };
}

/**
 * Converts input items to messages. Consecutive items of the assistant (reasoning, text, calls)
 * become one message.
 */
function inputMessages(body: Body): ChatMessage[] {
  const { input } = body;
  if (typeof input === 'string') return [{ role: 'user', content: input }];
  if (!Array.isArray(input) || input.length === 0) throw invalid('input', 'a string or a list of at least one item', input);
  const messages: ChatMessage[] = [];
  let parts: ChatPart[] = [];
  let calls: ChatToolCall[] = [];
  let reasoning: string[] = [];
  const flush = (): void => {
    if (parts.length + calls.length + reasoning.length === 0) return;
    messages.push({
      role: 'assistant',
      content: parts.length > 0 ? parts : '',
      ...(reasoning.length > 0 ? { reasoning_content: reasoning.join('\n') } : {}),
      ...(calls.length > 0 ? { tool_calls: calls } : {}),
    });
    [parts, calls, reasoning] = [[], [], []];
  };
  const add = (message: ChatMessage): void => {
    flush();
    messages.push(message);
  };
  input.forEach((item: unknown, i) => {
    const at = `input[${i}]`;
    if (!isRecord(item)) throw invalid(at, 'an object', item);
    const type = item.type ?? 'message';
    if (type === 'message') {
      const { role } = item;
      if (!['user', 'system', 'developer', 'assistant'].includes(role as string))
        throw invalid(`${at}.role`, 'one of user, system, developer, assistant', role);
      const content = contentOf(item.content, `${at}.content`);
      if (role !== 'assistant') add({ role: role as string, content });
      else if (typeof content === 'string') parts.push({ type: 'text', text: content });
      else for (const part of content) parts.push(part);
    } else if (type === 'function_call') {
      const { call_id: id, name, arguments: text } = item;
      if (typeof id !== 'string' || typeof name !== 'string' || typeof text !== 'string')
        throw invalid(at, '{"type": "function_call", "call_id", "name", "arguments"}, all strings', item);
      const called = calledName({ name, namespace: stringField(item, 'namespace') });
      calls.push({ id, type: 'function', function: { name: called, arguments: text } });
    } else if (type === 'function_call_output') {
      if (typeof item.call_id !== 'string') throw invalid(`${at}.call_id`, 'a string', item.call_id);
      add({ role: 'tool', tool_call_id: item.call_id, content: contentOf(item.output, `${at}.output`) });
    } else if (type === 'reasoning') {
      // From another model's reasoning, clients often have only the summary.
      const text = textsOf(item.content, `${at}.content`) || textsOf(item.summary, `${at}.summary`);
      if (text !== '') reasoning.push(text);
    } else if (type === 'item_reference')
      throw unsupported(at, item, {
        remedy:
          'Responses are not stored here: send the item itself. Clients do that with `store: false` (the AI SDK: providerOptions.openai.store).',
      });
    else throw invalid(`${at}.type`, 'one of message, function_call, function_call_output, reasoning', type);
  });
  flush();
  return messages;
}

/** The texts of reasoning parts, joined by line breaks. */
function textsOf(parts: unknown, at: string): string {
  const list = parts ?? [];
  if (!Array.isArray(list)) throw invalid(at, 'a list of {"type", "text"}', list);
  return list.map((part) => (isRecord(part) && typeof part.text === 'string' ? part.text : '')).join('\n');
}

/**
 * A text, or parts of text and images. Other parts (files) keep their type, and are refused when
 * the text is needed.
 */
function contentOf(content: unknown, at: string): NonNullable<ChatMessage['content']> {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) throw invalid(at, 'a string or a list of parts', content);
  return content.map((part: unknown, i) => {
    if (!isRecord(part) || typeof part.type !== 'string') throw invalid(`${at}[${i}]`, 'an object with a type', part);
    if (part.type === 'refusal') return refusalText(part as ChatPart & Body, `${at}[${i}]`);
    if (part.type === 'input_image') return imagePart(part, `${at}[${i}]`);
    if (!/^(?:input_text|output_text|text)$/.test(part.type)) return { type: part.type };
    if (typeof part.text !== 'string') throw invalid(`${at}[${i}].text`, 'a string', part.text);
    return { type: 'text', text: part.text };
  });
}

/** An image by its URL. Files are not stored here, so `file_id` names none. */
function imagePart(part: Body, at: string): ChatPart {
  const url = stringField(part, 'image_url');
  if (url === undefined) throw invalid(`${at}.image_url`, 'a data: URL', part.image_url);
  return { type: 'image_url', image_url: { url } };
}
