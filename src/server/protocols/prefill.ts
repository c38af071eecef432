/** Conversations that end with the beginning of their answer. */
import { isRecord } from '../../chat/json.ts';
import type { Continuation } from '../../chat/begun.ts';
import type { ChatMessage } from '../../chat/messages.ts';
import type { ChatOptions } from '../../chat/options.ts';
import type { Context } from '../context.ts';
import { invalid, type Body } from './fields.ts';
import { HttpError } from '../http/http-error.ts';

/** A conversation to answer, from any protocol. */
export interface ChatRequest {
  readonly messages: readonly ChatMessage[];
  readonly options: ChatOptions;
}

/** A request's explicit fields about its last message. */
interface Asked {
  /** The part of the last message that the answer continues. */
  readonly continues?: Continuation | undefined;
  /** True if the prompt ends with the header of an answer. */
  readonly header?: boolean | undefined;
}

/**
 * Makes the answer continue a last message of the assistant, unless the server or the request
 * forbids it.
 * @param param name of the field with the messages
 * @throws HttpError 400 if the message cannot be continued
 */
export function withPrefill(context: Context, request: ChatRequest, { continues, header }: Asked = {}, param = 'messages'): ChatRequest {
  const { messages, options } = request;
  const { prefillAssistant = true } = context.options;
  if (continues && header) {
    const found = "'continue_final_message' and 'add_generation_prompt' are both given; expected one of them.";
    throw new HttpError(400, found, { param: 'continue_final_message', code: 'invalid_value' });
  }
  const [before, last] = [messages.at(-2), messages.at(-1)];
  const prefill = continues ?? (prefillAssistant && header !== true && last?.role === 'assistant');
  if (!prefill) return header === undefined ? request : { messages, options: { ...options, addGenerationPrompt: header } };
  if (continues === undefined) {
    if ((last?.tool_calls?.length ?? 0) > 0) throw refused(param, 'calls of tools', 'their results after them');
    if (before?.role === 'assistant') throw refused(param, 'two messages of the assistant', 'at most one');
  }
  return { messages, options: { ...options, continueFinalMessage: prefill } };
}

const refused = (param: string, found: string, expected: string): HttpError =>
  new HttpError(400, `'${param}' ends with ${found}, which no answer can continue; expected ${expected}.`, {
    param,
    code: 'invalid_value',
  });

/** llama-server's names for the parts to continue. */
const CONTINUATIONS: Readonly<Record<string, Continuation>> = { content: 'content', reasoning_content: 'reasoning' };

/** DeepSeek and Mistral mark a message to continue with `prefix`, Moonshot with `partial`. */
function isBegun(messages: unknown): boolean {
  const last: unknown = Array.isArray(messages) ? messages.at(-1) : undefined;
  return isRecord(last) && last.role === 'assistant' && (last.prefix === true || last.partial === true);
}

/** Reads the field `continue_final_message`, or an equivalent mark in the last message. */
export function continuation(body: Body): Continuation | undefined {
  const value = body.continue_final_message ?? undefined;
  if (value === undefined) return isBegun(body.messages) ? true : undefined;
  if (typeof value === 'boolean') return value;
  if (typeof value === 'string' && Object.hasOwn(CONTINUATIONS, value)) return CONTINUATIONS[value];
  throw invalid('continue_final_message', 'true, false, "content" or "reasoning_content"', value);
}
