/** Converts the AI SDK's messages and call options to those of chat/run.ts. */
import type { LanguageModelV3CallOptions, LanguageModelV3Prompt, LanguageModelV3ToolResultOutput, SharedV3Warning } from '@ai-sdk/provider';
import type { ChatMessage, ChatTool } from '../chat/messages.ts';
import type { ChatOptions } from '../chat/options.ts';
import { failureText } from '../chat/tools.ts';
import { QuantletError } from '../errors.ts';
import { SAMPLER_NUMBERS } from '../sample/options.ts';

/**
 * The AI SDK's messages as chat messages.
 * @throws QuantletError ERR_INVALID_ARGUMENT for files, which no model here reads
 */
export function messagesOf(prompt: LanguageModelV3Prompt): ChatMessage[] {
  return prompt.flatMap((message): ChatMessage[] => {
    if (message.role === 'system') return [{ role: 'system', content: message.content }];
    if (message.role === 'user')
      return [
        {
          role: 'user',
          content: message.content.map((part) => ({ type: part.type, ...(part.type === 'text' ? { text: part.text } : {}) })),
        },
      ];
    if (message.role === 'tool') {
      return message.content.flatMap((part) =>
        part.type === 'tool-result'
          ? [{ role: 'tool', tool_call_id: part.toolCallId, name: part.toolName, content: resultText(part.output) }]
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

function resultText(output: LanguageModelV3ToolResultOutput): string {
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
    case 'content':
      return output.value
        .map((part) => {
          if (part.type === 'text') return part.text;
          throw new QuantletError(
            'ERR_INVALID_ARGUMENT',
            `A tool result has a part of type "${part.type}"; expected text parts only. Leave out images and files.`,
          );
        })
        .join('\n');
  }
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
  for (const name of Object.keys(own)) {
    if (!ownSettings.includes(name))
      warnings.push({ type: 'unsupported', feature: `providerOptions.quantlet.${name}`, details: `Known are ${ownSettings.join(', ')}.` });
  }
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
