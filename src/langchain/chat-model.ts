/** A model as LangChain's chat model, with whole answers and streams from chat/run.ts. */
import type { CallbackManagerForLLMRun } from '@langchain/core/callbacks/manager';
import type { BaseLanguageModelInput, StructuredOutputMethodOptions } from '@langchain/core/language_models/base';
import {
  BaseChatModel,
  type BaseChatModelParams,
  type BindToolsInput,
  type LangSmithParams,
} from '@langchain/core/language_models/chat_models';
import { AIMessage, AIMessageChunk, type AIMessageChunkFields, type BaseMessage, type UsageMetadata } from '@langchain/core/messages';
import { ChatGenerationChunk, type ChatResult } from '@langchain/core/outputs';
import type { Runnable } from '@langchain/core/runnables';
import { readImages } from '../chat/images.ts';
import { newCallId } from '../chat/messages.ts';
import type { ChatOptions } from '../chat/options.ts';
import { collectEvents, type ChatEvent } from '../chat/parser.ts';
import { prepareChatWork, runChat, type ChatOutcome, type ChatStep, type PreparedChat } from '../chat/run.ts';
import type { Backend } from '../server/backend.ts';
import { inSlices } from '../slices.ts';
import { messagesOf, toolChoiceOf, toolOf } from './messages.ts';
import { generatorIn, lsParams, SETTINGS, settingsIn, type ChatQuantletCallOptions, type Settings } from './settings.ts';
import { structured } from './structured.ts';

/** Settings and callbacks of a ChatQuantlet. */
export interface ChatQuantletInput extends BaseChatModelParams, Settings {
  /** The loaded model: quantlet's Model, or another backend. */
  model: Backend;
}

/** The call of an event as LangChain has it. Arguments that are no object are marked as invalid. */
interface Calls {
  readonly tool_calls: { id: string; name: string; args: Record<string, unknown>; type: 'tool_call' }[];
  readonly invalid_tool_calls: { id: string; name: string; args: string; error: string; type: 'invalid_tool_call' }[];
}

function callsOf(events: readonly ChatEvent[]): Calls {
  const calls: Calls = { tool_calls: [], invalid_tool_calls: [] };
  for (const event of events) {
    if (event.type !== 'toolCall') continue;
    const { id = newCallId(), name, arguments: args } = event.call;
    try {
      calls.tool_calls.push({ id, name, args: JSON.parse(args || '{}') as Record<string, unknown>, type: 'tool_call' });
    } catch (error) {
      calls.invalid_tool_calls.push({ id, name, args, error: (error as Error).message, type: 'invalid_tool_call' });
    }
  }
  return calls;
}

function usageOf({ promptIds }: PreparedChat, { result }: ChatOutcome, tokens: number): UsageMetadata {
  const computed = result?.timings.promptTokens ?? promptIds.length;
  return {
    input_tokens: promptIds.length,
    output_tokens: tokens,
    total_tokens: promptIds.length + tokens,
    input_token_details: { cache_read: promptIds.length - computed },
  };
}

/**
 * A model in this process as LangChain's chat model: `new ChatQuantlet({ model: await loadModel(...) })`.
 * Streams, tools, structured output (schemas constrain sampling), reasoning, usage and abort signals
 * work. Reasoning is in `additional_kwargs.reasoning_content`.
 */
export class ChatQuantlet extends BaseChatModel<ChatQuantletCallOptions, AIMessageChunk> {
  readonly model: Backend;
  readonly settings: Settings;

  /** @throws QuantletError ERR_INVALID_ARGUMENT without a model */
  constructor(fields: ChatQuantletInput) {
    super(fields);
    this.model = generatorIn(fields, 'ChatQuantlet');
    this.settings = settingsIn(fields);
  }

  static override lc_name(): string {
    return 'ChatQuantlet';
  }

  override get callKeys(): string[] {
    return [...super.callKeys, ...SETTINGS, 'tools', 'tool_choice'];
  }

  _llmType(): string {
    return 'quantlet';
  }

  override getLsParams(options: this['ParsedCallOptions']): LangSmithParams {
    return { ...lsParams(this.model.name, { ...this.settings, ...settingsIn(options) }), ls_model_type: 'chat' };
  }

  override invocationParams(options?: this['ParsedCallOptions']): object {
    return { model: this.model.name, ...this.settings, ...settingsIn(options ?? {}) };
  }

  override bindTools(
    tools: BindToolsInput[],
    kwargs?: Partial<ChatQuantletCallOptions>,
  ): Runnable<BaseLanguageModelInput, AIMessageChunk, ChatQuantletCallOptions> {
    return this.withConfig({ tools: tools.map(toolOf), ...kwargs });
  }

  /** Options and prompt of a call. As with other providers, a final AI message begins the answer. */
  async #start(given: readonly BaseMessage[], options: this['ParsedCallOptions']): Promise<PreparedChat> {
    options.signal?.throwIfAborted();
    const messages = await readImages(messagesOf(given), this.model.readImage, options.signal);
    const last = messages.at(-1);
    const chat: ChatOptions = {
      ...this.settings,
      ...settingsIn(options),
      tools: (options.tools ?? []).map(toolOf),
      toolChoice: toolChoiceOf(options.tool_choice),
      continueFinalMessage: last?.role === 'assistant' && last.tool_calls === undefined,
      signal: options.signal,
    };
    return inSlices(prepareChatWork(this.model, messages, chat), options.signal);
  }

  #endOf(outcome: ChatOutcome): object {
    return { model_name: this.model.name, model_provider: 'quantlet', finish_reason: outcome.finishReason };
  }

  override async _generate(
    messages: BaseMessage[],
    options: this['ParsedCallOptions'],
    runManager?: CallbackManagerForLLMRun,
  ): Promise<ChatResult> {
    const chat = await this.#start(messages, options);
    const events: ChatEvent[] = [];
    let tokens = 0;
    const outcome = await each(runChat(this.model, chat), async (step) => {
      if ((step.part?.id ?? -1) >= 0) tokens++;
      events.push(...step.events);
      for (const event of step.events) if (event.type === 'content') await runManager?.handleLLMNewToken(event.delta);
    });
    const { content, reasoning } = collectEvents(events);
    const usage = usageOf(chat, outcome, tokens);
    const message = new AIMessage({
      content,
      ...callsOf(events),
      additional_kwargs: reasoning === '' ? {} : { reasoning_content: reasoning },
      usage_metadata: usage,
      response_metadata: this.#endOf(outcome),
    });
    const { input_tokens: promptTokens, output_tokens: completionTokens, total_tokens: totalTokens } = usage;
    return {
      generations: [{ text: content, message, generationInfo: { finish_reason: outcome.finishReason } }],
      llmOutput: { tokenUsage: { promptTokens, completionTokens, totalTokens } },
    };
  }

  override async *_streamResponseChunks(
    messages: BaseMessage[],
    options: this['ParsedCallOptions'],
    runManager?: CallbackManagerForLLMRun,
  ): AsyncGenerator<ChatGenerationChunk> {
    const chat = await this.#start(messages, options);
    const steps = runChat(this.model, chat);
    const chunkOf = createChunks();
    let tokens = 0;
    try {
      for (;;) {
        const { done, value } = await steps.next();
        if (done) {
          const end = { usage_metadata: usageOf(chat, value, tokens), response_metadata: this.#endOf(value) };
          const generationInfo = { finish_reason: value.finishReason };
          yield new ChatGenerationChunk({ text: '', message: new AIMessageChunk({ content: '', ...end }), generationInfo });
          return;
        }
        if ((value.part?.id ?? -1) >= 0) tokens++;
        for (const event of value.events) {
          const chunk = chunkOf(event);
          if (!chunk) continue;
          yield chunk;
          await runManager?.handleLLMNewToken(chunk.text, undefined, undefined, undefined, undefined, { chunk });
        }
      }
    } finally {
      await steps.return(undefined as never);
    }
  }

  /**
   * The answer as an object of a schema, which constrains sampling (`jsonSchema`, the default), or
   * as the arguments of a call (`functionCalling`).
   */
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- the overloads of the base class
  override withStructuredOutput(schema: any, config?: StructuredOutputMethodOptions<boolean>): any {
    return structured(this, schema as object, config);
  }
}

/**
 * Creates the chunks of one answer. The first chunk of a call has its id and name, the others have
 * arguments only. Undefined: everything in the event was given before.
 */
function createChunks(): (event: ChatEvent) => ChatGenerationChunk | undefined {
  let calls = 0;
  return (event) => {
    if (event.type === 'toolCall') return undefined;
    const { delta } = event;
    if (event.type === 'toolCallDelta') {
      const { index, id = newCallId(), name } = event;
      const first = index < calls ? {} : { id, name };
      calls = index + 1;
      return silent({ tool_call_chunks: [{ ...first, index, args: delta, type: 'tool_call_chunk' }] });
    }
    if (event.type === 'reasoning') return silent({ additional_kwargs: { reasoning_content: delta } });
    return new ChatGenerationChunk({ text: delta, message: new AIMessageChunk({ content: delta }) });
  };
}

/** A chunk without text. */
const silent = (fields: Omit<AIMessageChunkFields, 'content'>): ChatGenerationChunk =>
  new ChatGenerationChunk({ text: '', message: new AIMessageChunk({ content: '', ...fields }) });

/** Runs an answer to its end, with a function for each of its steps. */
async function each(steps: AsyncGenerator<ChatStep, ChatOutcome>, use: (step: ChatStep) => Promise<void>): Promise<ChatOutcome> {
  try {
    for (;;) {
      const { done, value } = await steps.next();
      if (done) return value;
      await use(value);
    }
  } finally {
    await steps.return(undefined as never);
  }
}
