/** Messages of a conversation in OpenAI's format, and conversion of their parts for templates. */
import type { AudioSource, ImageSource, PromptImage } from '../run/image-tokens.ts';
import { QuantletError, typeName } from '../errors.ts';
import { exactJson, parseExactJson } from './exact-json.ts';
import { isRecord } from './json.ts';

/**
 * A tool call inside an assistant message; `arguments` is JSON text (OpenAI's form) or the object
 * itself.
 */
export interface ChatToolCall {
  readonly id?: string | undefined;
  readonly type?: 'function' | undefined;
  readonly function: { readonly name: string; readonly arguments: string | object };
}

/**
 * One part of a message's content: `{ type: 'text', text }`, `{ type: 'image', image }`,
 * `{ type: 'audio', audio }`, or OpenAI's `{ type: 'image_url', image_url: { url } }` with a data: URL
 * and `{ type: 'input_audio', input_audio: { data } }` with base64.
 */
export interface ChatPart {
  readonly type: string;
  readonly text?: string | undefined;
  readonly image?: ImageSource | PromptImage | undefined;
  readonly image_url?: { readonly url: string } | undefined;
  readonly audio?: AudioSource | undefined;
  readonly input_audio?: { readonly data: string; readonly format?: string | undefined } | undefined;
  /** Text that stands for an image or a sound in the prompt. @internal */
  readonly marker?: string;
}

/** A message in OpenAI's format, which chat templates read as well. */
export interface ChatMessage {
  readonly role: string;
  readonly content?: string | null | readonly ChatPart[] | undefined;
  readonly name?: string | undefined;
  readonly tool_calls?: readonly ChatToolCall[] | undefined;
  readonly tool_call_id?: string | undefined;
  readonly reasoning_content?: string | undefined;
}

/** A function that the model may call; `parameters` is its JSON schema. */
export interface ChatTool {
  readonly type: 'function';
  readonly function: {
    readonly name: string;
    readonly description?: string | undefined;
    readonly parameters?: object | undefined;
    readonly strict?: boolean | undefined;
  };
}

const kindOf = (value: unknown): string => (Array.isArray(value) ? 'a list' : typeName(value));
const bad = (message: string): QuantletError => new QuantletError('ERR_INVALID_ARGUMENT', message);

/** @throws QuantletError ERR_INVALID_ARGUMENT if they are not a conversation */
export function checkMessages(messages: readonly ChatMessage[]): void {
  if (!Array.isArray(messages))
    throw bad(`messages is ${kindOf(messages)}; expected a list of { role, content }: give a text as [{ role: 'user', content: text }]`);
  if (messages.length === 0) throw bad('messages is empty; expected at least one message: add a user message');
  for (const [i, message] of (messages as unknown[]).entries()) {
    if (!isRecord(message) || typeof message.role !== 'string')
      throw bad(
        `message ${i + 1} of ${messages.length} is ${isRecord(message) ? `of the role ${String(message.role)}` : kindOf(message)}; expected { role, content } with a role of system, user, assistant or tool`,
      );
  }
}

/** @throws QuantletError ERR_INVALID_ARGUMENT if a tool has no name */
export function checkTools(tools: readonly ChatTool[]): void {
  if (!Array.isArray(tools))
    throw bad(`tools is ${kindOf(tools)}; expected a list of { type: 'function', function: { name, parameters } }`);
  for (const [i, tool] of (tools as unknown[]).entries()) {
    if (!isRecord(tool) || !isRecord(tool.function) || typeof tool.function.name !== 'string')
      throw bad(`tool ${i + 1} of ${tools.length} has no function.name; expected { type: 'function', function: { name, parameters } }`);
  }
}

/**
 * Adds the optional fields that many templates read without a check: a description, and an empty
 * schema of parameters.
 */
export function completeTool(tool: ChatTool): ChatTool {
  const { name, description, parameters, ...others } = tool.function;
  const none = Object.keys(parameters ?? {}).length === 0;
  return {
    ...tool,
    type: 'function',
    function: { name, description: description ?? '', parameters: none ? { type: 'object', properties: {} } : parameters!, ...others },
  };
}

/**
 * Adds, at every level of a tool's schema, the fields that some templates read without a check.
 * Used only after a template refused the original, because other templates would write the
 * additions.
 */
export const fullTool = (tool: ChatTool): ChatTool => ({
  ...tool,
  function: { ...tool.function, parameters: fullSchema({ properties: {}, ...tool.function.parameters }) },
});

function fullSchema(given: unknown): Record<string, unknown> {
  const { type, ...schema } = Object.fromEntries(Object.entries(isRecord(given) ? given : {}).filter(([, value]) => value !== null));
  const isObject = type === 'object' || isRecord(schema.properties);
  const properties = isRecord(schema.properties) ? schema.properties : {};
  return {
    ...(Array.isArray(type) ? { anyOf: type.map((one: unknown) => ({ type: one })) } : type === undefined ? {} : { type }),
    description: '',
    ...(isObject ? { additionalProperties: {} } : {}),
    ...schema,
    ...(isObject ? { properties: Object.fromEntries(Object.entries(properties).map(([name, value]) => [name, fullSchema(value)])) } : {}),
    ...(isRecord(schema.items) ? { items: fullSchema(schema.items) } : {}),
  };
}

/**
 * A message's content as one string: text parts joined by line breaks, and markers of images and
 * sounds.
 * @throws QuantletError ERR_INVALID_ARGUMENT for other parts
 */
export function contentText(content: ChatMessage['content']): string {
  if (content === undefined || content === null) return '';
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) throw bad(`the content of a message is ${kindOf(content)}; expected a text or a list of text parts`);
  let out = '';
  (content as readonly ChatPart[]).forEach((part, i) => {
    const text = partText(part);
    // As in llama.cpp, texts are joined by line breaks, but nothing is next to an image.
    const gap = i > 0 && ![part, (content as readonly ChatPart[])[i - 1]].some(({ marker }) => marker !== undefined);
    out += (gap ? '\n' : '') + text;
  });
  return out;
}

function partText(part: ChatPart): string {
  if (!isRecord(part)) throw bad(`a message has a content part that is ${kindOf(part)}; expected { type: 'text', text }`);
  if (part.type === 'text') {
    if (typeof part.text === 'string') return part.text;
    throw bad(`a message has a text part whose text is ${kindOf(part.text)}; expected { type: 'text', text }`);
  }
  if (part.type === 'image' && typeof part.marker === 'string') return part.marker;
  throw bad(
    `a message has a content part of type "${part.type}"; expected parts of type "text", or "image" and "audio" where these can be read: leave out files`,
  );
}

/** Returns `prefix` followed by random letters and digits. */
export function newId(prefix: string, length: number): string {
  const letters = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789';
  return prefix + Array.from(crypto.getRandomValues(new Uint8Array(length)), (byte) => letters[byte % letters.length]).join('');
}

/**
 * An id for a call that the model gave none: nine letters and digits, which even the strictest
 * templates (Mistral's) accept.
 */
export const newCallId = (): string => newId('', 9);

/** A call's arguments as the JSON text of an object. */
export function argumentsText(call: ChatToolCall): string {
  const given = call.function.arguments;
  return typeof given === 'string' ? given : exactJson(given);
}

/**
 * A call's arguments as an object. Text that is not a JSON object is put under one key, so that a
 * template still shows it.
 */
export function argumentsObject(call: ChatToolCall): object {
  const given = call.function.arguments;
  if (typeof given !== 'string') return given;
  try {
    const parsed: unknown = parseExactJson(given === '' ? '{}' : given);
    if (typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)) return parsed;
  } catch {
    // Falls through: earlier messages may contain a call whose arguments were cut off.
  }
  return { arguments: given };
}
