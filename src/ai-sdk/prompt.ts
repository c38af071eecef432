/** Converts the AI SDK's messages and call options to those of chat/run.ts. */
import type { LanguageModelV3CallOptions, LanguageModelV3Prompt, LanguageModelV3ToolResultOutput, SharedV3Warning } from '@ai-sdk/provider';
import { imageUrl } from '../chat/images.ts';
import { isRecord } from '../chat/json.ts';
import type { ChatMessage, ChatPart, ChatTool } from '../chat/messages.ts';
import type { ChatOptions } from '../chat/options.ts';
import { failureText } from '../chat/tools.ts';
import { QuantletError } from '../errors.ts';
import { SAMPLER_NUMBERS } from '../sample/options.ts';

/**
 * A file as the specifications have it: v3 gives bytes, base64 or a URL, and v4 an object with one
 * of these. `mediaType` may be `image/png`, a wildcard or `image` alone.
 */
interface FilePart {
  readonly type: string;
  readonly data: unknown;
  readonly mediaType: string;
}

/** @throws QuantletError ERR_INVALID_ARGUMENT for files that are not images */
function filePart({ data: given, mediaType }: FilePart): ChatPart {
  const tagged = isRecord(given) ? given : {};
  if (tagged.type === 'text' && typeof tagged.text === 'string') return { type: 'text', text: tagged.text };
  const data = tagged.type === 'data' ? tagged.data : tagged.type === 'url' ? tagged.url : given;
  if (!/^image(\/|$)/i.test(mediaType) || !(typeof data === 'string' || data instanceof Uint8Array || data instanceof URL))
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `A message has a file of type "${mediaType}"${tagged.type === 'reference' ? ', by a reference' : ''}; expected the bytes of an image. Leave out other files.`,
    );
  const isBase64 = typeof data === 'string' && !data.includes(':');
  return { type: 'image', image: isBase64 ? imageUrl(data) : data };
}

/**
 * The AI SDK's messages as chat messages.
 * @throws QuantletError ERR_INVALID_ARGUMENT for files that are not images
 */
export function messagesOf(prompt: LanguageModelV3Prompt): ChatMessage[] {
  return prompt.flatMap((message): ChatMessage[] => {
    if (message.role === 'system') return [{ role: 'system', content: message.content }];
    if (message.role === 'user')
      return [
        {
          role: 'user',
          content: message.content.map((part) => (part.type === 'text' ? { type: 'text', text: part.text } : filePart(part))),
        },
      ];
    if (message.role === 'tool') {
      return message.content.flatMap((part) =>
        part.type === 'tool-result'
          ? [{ role: 'tool', tool_call_id: part.toolCallId, name: part.toolName, content: resultContent(part.output) }]
          : [],
      );
    }
    const text = message.content.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('');
    const reasoning = message.content.flatMap((part) => (part.type === 'reasoning' ? [part.text] : [])).join('');
    const calls = message.content.flatMap((part) =>
      part.type === 'tool-call'
        ? [
            {
              id: part.toolCallId,
              type: 'function' as const,
              function: { name: part.toolName, arguments: typeof part.input === 'string' ? part.input : JSON.stringify(part.input ?? {}) },
            },
          ]
        : [],
    );
    return [
      {
        role: 'assistant',
        content: text,
        ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
        ...(calls.length > 0 ? { tool_calls: calls } : {}),
      },
    ];
  });
}

function resultContent(output: LanguageModelV3ToolResultOutput): string | ChatPart[] {
  switch (output.type) {
    case 'text':
      return output.value;
    case 'error-text':
      return failureText(output.value);
    case 'json':
      return JSON.stringify(output.value);
    case 'error-json':
      return failureText(JSON.stringify(output.value));
    case 'execution-denied':
      return output.reason || 'The call was not allowed.';
    case 'content': {
      const parts = output.value.map(resultPart);
      return parts.every(({ type }) => type === 'text') ? parts.map(({ text }) => text).join('\n') : parts;
    }
  }
}

type ResultPart = Extract<LanguageModelV3ToolResultOutput, { type: 'content' }>['value'][number];

function resultPart(part: ResultPart): ChatPart {
  if (part.type === 'text') return { type: 'text', text: part.text };
  if (part.type === 'image-url') return filePart({ type: part.type, data: part.url, mediaType: 'image' });
  if (part.type === 'file-url') return filePart({ type: part.type, data: part.url, mediaType: part.mediaType ?? 'image' });
  // Specification v4 has `file` in place of `file-data` and `image-data`, v2 `media`.
  if ('data' in part) return filePart(part);
  throw new QuantletError(
    'ERR_INVALID_ARGUMENT',
    `A tool result has a part of type "${part.type}"; expected text, or an image with its data. Leave out other files.`,
  );
}

/** Settings under `providerOptions.quantlet`, for options that the AI SDK does not have. */
const ownSettings = [
  ...Object.keys(SAMPLER_NUMBERS).filter(
    (name) => !['temperature', 'topP', 'topK', 'presencePenalty', 'frequencyPenalty', 'seed'].includes(name),
  ),
  'grammar',
  'reasoning',
  'reasoningBudget',
  'reasoningBudgetMessage',
  'parallelToolCalls',
  'continueFinalMessage',
  'templateVariables',
  'ignoreEos',
];

/** Warnings for settings under `providerOptions.quantlet` that do not exist. */
export const unknownSettings = (own: object, known: readonly string[]): SharedV3Warning[] =>
  Object.keys(own)
    .filter((name) => !known.includes(name))
    .map((name) => ({ type: 'unsupported', feature: `providerOptions.quantlet.${name}`, details: `Known are ${known.join(', ')}.` }));

/** Call options as chat options, with warnings for those that have no effect. */
export function optionsOf(options: LanguageModelV3CallOptions): { chat: ChatOptions; warnings: SharedV3Warning[] } {
  const warnings: SharedV3Warning[] = [];
  const tools = (options.tools ?? []).flatMap((tool): ChatTool[] => {
    if (tool.type === 'function')
      return [
        {
          type: 'function',
          function: {
            name: tool.name,
            ...(tool.description === undefined ? {} : { description: tool.description }),
            parameters: tool.inputSchema as object,
          },
        },
      ];
    warnings.push({ type: 'unsupported', feature: `provider tool ${tool.id}`, details: 'Only function tools are offered to the model.' });
    return [];
  });
  const own = options.providerOptions?.quantlet ?? {};
  warnings.push(...unknownSettings(own, ownSettings));
  const choice = options.toolChoice;
  const format = options.responseFormat;
  const chat: ChatOptions = {
    ...Object.fromEntries(ownSettings.flatMap((name) => (own[name] === undefined ? [] : [[name, own[name]]]))),
    tools,
    toolChoice: choice === undefined ? 'auto' : choice.type === 'tool' ? { name: choice.toolName } : choice.type,
    maxTokens: options.maxOutputTokens,
    temperature: options.temperature,
    topP: options.topP,
    topK: options.topK,
    presencePenalty: options.presencePenalty,
    frequencyPenalty: options.frequencyPenalty,
    seed: options.seed,
    stop: options.stopSequences ?? [],
    signal: options.abortSignal,
  };
  if (format?.type === 'json')
    chat.responseFormat = format.schema ? { type: 'json_schema', schema: format.schema as object } : { type: 'json_object' };
  return { chat, warnings };
}
