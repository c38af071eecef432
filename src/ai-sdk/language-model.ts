/** A model as the AI SDK's language model, with whole answers and streams from chat/run.ts. */
import type {
  LanguageModelV3,
  LanguageModelV3CallOptions,
  LanguageModelV3Content,
  LanguageModelV3FinishReason,
  LanguageModelV3StreamPart,
  LanguageModelV3Usage,
} from '@ai-sdk/provider';
import { readImages } from '../chat/images.ts';
import { newCallId } from '../chat/messages.ts';
import type { ChatOptions } from '../chat/options.ts';
import { prepareChatWork, runChat, type ChatOutcome, type ChatStep, type PreparedChat } from '../chat/run.ts';
import type { Backend } from '../server/backend.ts';
import { reasoningOptions } from '../server/protocols/reasoning.ts';
import { inSlices } from '../slices.ts';
import { messagesOf, optionsOf } from './prompt.ts';

function finishOf(outcome: ChatOutcome): LanguageModelV3FinishReason {
  return { unified: outcome.finishReason === 'tool_calls' ? 'tool-calls' : outcome.finishReason, raw: outcome.result?.finishReason };
}

function usageOf(chat: PreparedChat, outcome: ChatOutcome, tokens: number): LanguageModelV3Usage {
  const total = chat.promptIds.length;
  const computed = outcome.result?.timings.promptTokens;
  return {
    inputTokens: { total, noCache: computed, cacheRead: computed === undefined ? undefined : total - computed, cacheWrite: undefined },
    outputTokens: { total: tokens, text: undefined, reasoning: undefined },
  };
}

/**
 * Stream parts of an answer: text, reasoning and the arguments of calls as segments with a start and
 * an end, after these each call as a whole, and the finish last.
 */
async function* partsOf(steps: AsyncGenerator<ChatStep, ChatOutcome>, chat: PreparedChat): AsyncGenerator<LanguageModelV3StreamPart, void> {
  let open: 'text' | 'reasoning' | undefined;
  let segment = 0;
  let tokens = 0;
  /** The call whose arguments are being written. */
  let call: { readonly index: number; readonly id: string } | undefined;
  const close = (): LanguageModelV3StreamPart[] => (open === undefined ? [] : [{ type: `${open}-end`, id: String(segment) }]);
  try {
    for (;;) {
      const step = await steps.next();
      if (step.done) {
        yield* close();
        yield { type: 'finish', finishReason: finishOf(step.value), usage: usageOf(chat, step.value, tokens) };
        return;
      }
      if ((step.value.part?.id ?? -1) >= 0) tokens++;
      for (const event of step.value.events) {
        if (event.type === 'toolCallDelta') {
          const { name: toolName, delta } = event;
          if (call?.index !== event.index) {
            yield* close();
            open = undefined;
            call = { index: event.index, id: event.id ?? newCallId() };
            yield { type: 'tool-input-start', id: call.id, toolName };
          }
          if (delta !== '') yield { type: 'tool-input-delta', id: call.id, delta };
          continue;
        }
        if (event.type === 'toolCall') {
          const { id } = call!;
          yield { type: 'tool-input-end', id };
          yield { type: 'tool-call', toolCallId: id, toolName: event.call.name, input: event.call.arguments };
          continue;
        }
        const type = event.type === 'content' ? 'text' : 'reasoning';
        if (open !== type) {
          yield* close();
          open = type;
          yield { type: `${type}-start`, id: String(++segment) };
        }
        yield { type: `${type}-delta`, id: String(segment), delta: event.delta };
      }
    }
  } finally {
    await steps.return(undefined as never);
  }
}

/**
 * Options for the `reasoning` of a call, which specification v4 has. Settings of
 * `providerOptions.quantlet` have priority.
 */
function reasoningOf(
  backend: Backend,
  options: LanguageModelV3CallOptions,
  { templateVariables, reasoningBudget }: ChatOptions,
): ChatOptions {
  const { reasoning: effort } = options as { readonly reasoning?: string };
  if (effort === undefined || effort === 'provider-default') return {};
  const wished = reasoningOptions(backend.chatTemplate, { effort });
  const variables = { ...wished.templateVariables, ...templateVariables };
  return {
    templateVariables: Object.fromEntries(Object.entries(variables).filter(([, value]) => value !== undefined)),
    reasoningBudget: reasoningBudget ?? wished.reasoningBudget,
  };
}

/**
 * A model as the AI SDK's language model:
 * `generateText({ model: languageModel(backend), prompt })`. Images in messages and in results of
 * tools (if the model was loaded with its projector), tool calls, structured output (schemas
 * constrain sampling), reasoning, stop sequences, seeds and abort signals work.
 * `providerOptions.quantlet` takes minP, repeatPenalty, grammar, reasoning, templateVariables and a
 * few more.
 */
export function languageModel(backend: Backend): LanguageModelV3 {
  const start = async (options: LanguageModelV3CallOptions) => {
    const { chat, warnings } = optionsOf(options);
    Object.assign(chat, reasoningOf(backend, options, chat));
    const messages = await readImages(messagesOf(options.prompt), backend.readImage, options.abortSignal);
    // As with the SDK's other providers, a final assistant message is the beginning of the answer.
    const last = messages.at(-1);
    chat.continueFinalMessage ??= last?.role === 'assistant' && last.tool_calls === undefined;
    const prepared = await inSlices(prepareChatWork(backend, messages, chat), options.abortSignal);
    return { prepared, warnings, parts: partsOf(runChat(backend, prepared), prepared) };
  };
  return {
    specificationVersion: 'v3',
    provider: 'quantlet',
    modelId: backend.name,
    supportedUrls: {},

    async doGenerate(options) {
      const { warnings, parts } = await start(options);
      const content: LanguageModelV3Content[] = [];
      for await (const part of parts) {
        const last = content.at(-1);
        if (part.type === 'text-start') content.push({ type: 'text', text: '' });
        else if (part.type === 'reasoning-start') content.push({ type: 'reasoning', text: '' });
        else if (part.type === 'tool-call') content.push(part);
        else if ((part.type === 'text-delta' || part.type === 'reasoning-delta') && last && 'text' in last)
          content[content.length - 1] = { ...last, text: last.text + part.delta };
        else if (part.type === 'finish')
          return {
            content,
            finishReason: part.finishReason,
            usage: part.usage,
            warnings,
            response: { timestamp: new Date(), modelId: backend.name },
          };
      }
      throw new TypeError('the stream of an answer ended without its finish');
    },

    async doStream(options) {
      const { warnings, parts } = await start(options);
      const stream = new ReadableStream<LanguageModelV3StreamPart>({
        start(controller) {
          controller.enqueue({ type: 'stream-start', warnings });
          controller.enqueue({ type: 'response-metadata', timestamp: new Date(), modelId: backend.name });
        },
        async pull(controller) {
          try {
            const { done, value } = await parts.next();
            if (done) controller.close();
            else controller.enqueue(value);
          } catch (error) {
            if (options.abortSignal?.aborted) controller.error(error);
            else {
              controller.enqueue({ type: 'error', error });
              controller.close();
            }
          }
        },
        async cancel() {
          await parts.return();
        },
      });
      return { stream };
    },
  };
}
