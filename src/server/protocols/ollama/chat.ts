/** POST /api/chat. */
import { isRecord } from '../../../chat/json.ts';
import { generationOf, type PreparedChat } from '../../../chat/run.ts';
import type { Context } from '../../context.ts';
import { chatRequest, leftOutOf, prepared, runChoice } from '../chat.ts';
import { booleanField, invalid, type Body } from '../fields.ts';
import { head, ollamaAnswer, type Part } from './answer.ts';
import { keepAliveOf, modelOf, OLLAMA_CHAT_REFUSALS, translated, contentOf } from './fields.ts';

export const chatPart = ({ content, thinking, calls }: Part): object => ({
  message: {
    role: 'assistant',
    content,
    ...(thinking === undefined ? {} : { thinking }),
    ...(calls === undefined ? {} : { tool_calls: calls }),
  },
});

/** POST /api/chat. Without messages, loads the model, or unloads it with `keep_alive: 0`. */
export async function ollamaChat(context: Context, body: Body): Promise<Response> {
  const { messages } = body;
  if ((messages ?? undefined) === undefined || (Array.isArray(messages) && messages.length === 0))
    return loadOrUnload(context, body, chatPart({ content: '' }));
  const fields = translated(context, body, OLLAMA_CHAT_REFUSALS);
  const tools = Array.isArray(body.tools) ? body.tools.map(withType) : body.tools;
  const request = { ...fields, messages: messagesOf(messages), ...(tools === undefined ? {} : { tools }) };
  return chatAnswer(context, body, await conversation(context, body, request), chatPart);
}

/** Prepares a conversation. With `shift: false` its answer ends when the context is full. */
export function conversation(context: Context, body: Body, fields: Body): Promise<PreparedChat> {
  const { messages, options } = chatRequest(context, fields);
  const { answerShift, ...others } = options;
  const shifts = answerShift && booleanField(body, 'shift') !== false;
  return prepared(context, { messages, options: shifts ? options : others });
}

/** Answers a conversation. */
export function chatAnswer(
  context: Context,
  body: Body,
  chat: PreparedChat,
  write: (part: Part) => object,
  last?: LastOf,
): Promise<Response> {
  const { options } = generationOf(context.backend, chat);
  return ollamaAnswer(context, body, {
    ids: chat.promptIds,
    options,
    run: (usage) => runChoice(context, usage, chat),
    write,
    last: (outcome) => ({ ...leftOutOf(chat), ...last?.(outcome.result?.ids ?? []) }),
  });
}

/** Fields of the last line, from the ids of the answer. */
type LastOf = (ids: readonly number[]) => object;

/** A request without a prompt: the model is loaded by now. With `keep_alive: 0` it is unloaded. */
export async function loadOrUnload(context: Context, body: Body, empty: object): Promise<Response> {
  const ms = keepAliveOf(body);
  const model = modelOf(body);
  if (ms === 0) {
    context.atRest();
    await context.models.unload(model);
  } else if (ms !== undefined) context.models.keep?.(model, ms);
  return Response.json({ ...head(body), ...empty, done: true, done_reason: ms === 0 ? 'unload' : 'load' });
}

/** Ollama's clients may leave out the type of a tool. */
const withType = (tool: unknown): unknown => (isRecord(tool) ? { ...tool, type: tool.type ?? 'function' } : tool);

/**
 * Converts messages to OpenAI's form. Their calls may have no ids; then a result names its tool.
 * @throws HttpError 400 for content that is not a string; chatRequest() checks the rest
 */
function messagesOf(messages: unknown): unknown {
  if (!Array.isArray(messages)) return messages;
  /** Calls without a result so far. */
  let open: { readonly id: unknown; readonly name: unknown }[] = [];
  return messages.map((message: unknown, i) => {
    if (!isRecord(message)) return message;
    const { images, thinking, tool_name: name, content: text = '', ...rest } = message;
    if (text !== null && typeof text !== 'string') throw invalid(`messages[${i}].content`, 'a string', text);
    const content = contentOf(text ?? '', images, `messages[${i}].images`);
    if (Array.isArray(rest.tool_calls)) {
      const calls = rest.tool_calls.map((call: unknown, n) => (isRecord(call) ? { ...call, id: call.id ?? `call_${i}_${n}` } : call));
      open = calls.flatMap((call) => (isRecord(call) && isRecord(call.function) ? [{ id: call.id, name: call.function.name }] : []));
      return { ...rest, content, ...thought(thinking), tool_calls: calls };
    }
    if (rest.role !== 'tool') return { ...rest, content, ...thought(thinking) };
    const call = open.find(({ id }) => id === rest.tool_call_id) ?? (rest.tool_call_id ? undefined : open.find((one) => one.name === name));
    open = open.filter((one) => one !== call);
    return { ...rest, content, ...(call ? { tool_call_id: call.id } : {}), ...((name ?? '') === '' ? {} : { name }) };
  });
}

const thought = (thinking: unknown): object => ((thinking ?? '') === '' ? {} : { reasoning_content: thinking });
