/** Converts LangChain's messages, tools and options to those of chat/run.ts. */
import type { BaseMessage } from '@langchain/core/messages';
import type { BindToolsInput } from '@langchain/core/language_models/chat_models';
import { convertToOpenAITool } from '@langchain/core/utils/function_calling';
import { imageUrl } from '../chat/images.ts';
import { isRecord } from '../chat/json.ts';
import type { ChatMessage, ChatPart, ChatTool, ChatToolCall } from '../chat/messages.ts';
import type { ToolChoice } from '../chat/options.ts';
import { failureText } from '../chat/tools.ts';
import { QuantletError } from '../errors.ts';
import type { ImageSource } from '../run/image-tokens.ts';

const ROLES: Readonly<Record<string, string>> = {
  human: 'user',
  ai: 'assistant',
  system: 'system',
  developer: 'developer',
  tool: 'tool',
  function: 'tool',
};

/** Blocks of an answer that are not its text: reasoning, and calls that `tool_calls` has too. */
const BESIDE_TEXT = ['reasoning', 'thinking', 'tool_call', 'tool_call_chunk', 'tool_use', 'invalid_tool_call'];

/**
 * An image in each of the forms that LangChain has had; undefined for what is no image.
 * @throws QuantletError ERR_INVALID_ARGUMENT for an image that is only named
 */
function imageOf(block: Record<string, unknown>): ImageSource | undefined {
  const { type, image_url: link, data, mimeType, mime_type: mime = mimeType, url } = block;
  if (type !== 'image' && type !== 'image_url') return undefined;
  const base64 = typeof data === 'string' ? imageUrl(data, (mime ?? undefined) as string | undefined) : data;
  const image = type === 'image_url' ? (isRecord(link) ? link.url : link) : (base64 ?? url);
  if (image !== undefined) return image as ImageSource;
  const found = Object.keys(block).join(', ');
  throw new QuantletError('ERR_INVALID_ARGUMENT', `an image of a message has ${found}; expected its data, or its address (data: URL)`);
}

/** The content of a message. Parts that are not read here stay, so that they are refused by name. */
function contentOf(content: BaseMessage['content']): string | ChatPart[] {
  if (typeof content === 'string') return content;
  return content.flatMap((block): ChatPart[] => {
    const { type, text } = block as { readonly type: string; readonly text?: unknown };
    if (BESIDE_TEXT.includes(type)) return [];
    const image = imageOf(block);
    if (image !== undefined) return [{ type: 'image', image }];
    return type === 'text' || type === 'text-plain' ? [{ type: 'text', text: text as string }] : [{ type }];
  });
}

/** The reasoning of an earlier answer, as this package or another model stored it. */
function reasoningOf({ content, additional_kwargs: more }: BaseMessage): string {
  if (typeof more.reasoning_content === 'string') return more.reasoning_content;
  const blocks = Array.isArray(content) ? (content as readonly unknown[]) : [];
  return blocks
    .map((block) => {
      const { type, reasoning, thinking } = isRecord(block) ? block : {};
      return type === 'reasoning' ? reasoning : type === 'thinking' ? thinking : '';
    })
    .filter((text) => typeof text === 'string')
    .join('');
}

interface CallOfMessage {
  readonly id?: string;
  readonly name: string;
  readonly args: object;
}

const callOf = ({ id, name, args }: CallOfMessage): ChatToolCall => ({
  ...(id === undefined ? {} : { id }),
  type: 'function',
  function: { name, arguments: args },
});

/**
 * LangChain's messages as chat messages.
 * @throws QuantletError ERR_INVALID_ARGUMENT for a message without a role
 */
export function messagesOf(messages: readonly BaseMessage[]): ChatMessage[] {
  return messages.map((message) => {
    const type = message.getType();
    const own = message as BaseMessage & { role?: string; tool_calls?: CallOfMessage[]; tool_call_id?: string; status?: string };
    const role = type === 'system' && message.additional_kwargs.__openai_role__ === 'developer' ? 'developer' : (ROLES[type] ?? own.role);
    if (role === undefined)
      throw new QuantletError('ERR_INVALID_ARGUMENT', `a message is of the type "${type}"; expected human, ai, system, tool or generic`);
    const content = contentOf(message.content);
    const name = message.name === undefined ? {} : { name: message.name };
    if (role === 'tool') {
      const failed = own.status === 'error';
      const said = failed ? failureText(typeof content === 'string' ? content : content.map(({ text = '' }) => text).join('\n')) : content;
      return { role, content: said, ...name, ...(own.tool_call_id === undefined ? {} : { tool_call_id: own.tool_call_id }) };
    }
    if (role !== 'assistant') return { role, content, ...name };
    const reasoning = reasoningOf(message);
    const calls = own.tool_calls ?? [];
    return {
      role,
      content,
      ...name,
      ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
      ...(calls.length > 0 ? { tool_calls: calls.map(callOf) } : {}),
    };
  });
}

/** Tools of any kind that LangChain knows, and of Anthropic's form, as functions. */
export const toolOf = (tool: BindToolsInput): ChatTool => {
  if (isRecord(tool) && typeof tool.name === 'string' && isRecord(tool.input_schema))
    return {
      type: 'function',
      function: { name: tool.name, description: tool.description as string | undefined, parameters: tool.input_schema },
    };
  return convertToOpenAITool(tool as Record<string, unknown>) as ChatTool;
};

/**
 * LangChain's choice about calls: `any` means `required`, another word names a tool.
 * @throws QuantletError ERR_INVALID_ARGUMENT
 */
export function toolChoiceOf(choice: unknown): ToolChoice {
  if (choice === undefined || choice === null) return 'auto';
  if (choice === 'any' || choice === 'required' || choice === true) return 'required';
  if (typeof choice === 'string') return choice === 'auto' || choice === 'none' ? choice : { name: choice };
  if (isRecord(choice) && isRecord(choice.function) && typeof choice.function.name === 'string') return { name: choice.function.name };
  if (isRecord(choice) && typeof choice.name === 'string') return { name: choice.name };
  throw new QuantletError('ERR_INVALID_ARGUMENT', 'tool_choice is not known; expected "auto", "none", "any" or the name of a tool');
}
