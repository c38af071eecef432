/** A transport of the AI SDK's useChat() to a model in the same page, without a server. */
import { orAborted } from '../abort.ts';
import type { Chat, ChatResult, ModelChatEvent, ModelChatOptions } from '../chat/generation.ts';
import type { ChatMessage } from '../chat/messages.ts';
import { messagesOf } from './prompt.ts';
import { promptOf, type UiMessage } from './ui-messages.ts';
import { toolSetOf, type TransportTool } from './ui-tools.ts';

/** The part of a model that the transport needs. Models of loadModel have it. */
export interface ChatModel {
  chat(messages: readonly ChatMessage[], options?: ModelChatOptions): Chat;
}

/** Options of chatTransport(): those of model.chat(), for every answer, and a few more. */
export interface ChatTransportOptions extends Omit<ModelChatOptions, 'tools' | 'signal'> {
  /** Text of a system message before all messages. */
  system?: string | undefined;
  /** Tools by name. Those with `execute` run in the page. */
  tools?: Readonly<Record<string, TransportTool>> | undefined;
  /** Metadata of an answer, once it is complete: `message.metadata` in the page. */
  messageMetadata?: ((result: ChatResult) => unknown) | undefined;
}

/** A piece of an answer, in the form of the AI SDK's UI message streams. */
export type TransportChunk =
  | { type: 'start' | 'start-step' | 'finish-step' | 'abort' }
  | { type: 'text-start' | 'text-end' | 'reasoning-start' | 'reasoning-end'; id: string }
  | { type: 'text-delta' | 'reasoning-delta'; id: string; delta: string }
  | { type: 'tool-input-start'; toolCallId: string; toolName: string }
  | { type: 'tool-input-delta'; toolCallId: string; inputTextDelta: string }
  | { type: 'tool-input-available'; toolCallId: string; toolName: string; input: unknown }
  | { type: 'tool-input-error'; toolCallId: string; toolName: string; input: unknown; errorText: string }
  | { type: 'tool-output-available'; toolCallId: string; output: unknown }
  | { type: 'tool-output-error'; toolCallId: string; errorText: string }
  | { type: 'finish'; finishReason: 'stop' | 'length' | 'tool-calls'; messageMetadata?: unknown }
  | { type: 'error'; errorText: string };

/** The AI SDK's ChatTransport. */
export interface QuantletChatTransport {
  sendMessages(options: {
    readonly messages: readonly UiMessage[];
    readonly abortSignal: AbortSignal | undefined;
  }): Promise<ReadableStream<TransportChunk>>;
  /** Always null: an answer in a page ends with the page. */
  reconnectToStream(): Promise<null>;
}

/**
 * A transport for useChat() of @ai-sdk/react (and of the other packages of the AI SDK):
 * `useChat({ transport: chatTransport(() => loadModel(url, { onProgress })) })`. Messages, images in
 * files, reasoning, tools and stop() work. Errors are those of loadModel and model.chat().
 * @param model a model, or a function that loads it for the first message. After a failure the next
 * message calls it again.
 */
export function chatTransport(
  model: ChatModel | (() => ChatModel | PromiseLike<ChatModel>),
  options: ChatTransportOptions = {},
): QuantletChatTransport {
  let loading: Promise<ChatModel> | undefined;
  const load = (): Promise<ChatModel> => {
    loading ??= Promise.resolve(typeof model === 'function' ? model() : model).catch((error: unknown) => {
      loading = undefined;
      throw error;
    });
    return loading;
  };
  return {
    reconnectToStream: () => Promise.resolve(null),
    sendMessages({ messages, abortSignal }) {
      const chunks = answerChunks(load, messages, options, abortSignal);
      return Promise.resolve(
        new ReadableStream<TransportChunk>({
          async pull(controller) {
            const { done, value } = await chunks.next();
            if (done) controller.close();
            else controller.enqueue(value);
          },
          cancel: async () => void (await chunks.return()),
        }),
      );
    },
  };
}

async function* answerChunks(
  load: () => Promise<ChatModel>,
  messages: readonly UiMessage[],
  { system, tools, messageMetadata, ...chat }: ChatTransportOptions,
  signal: AbortSignal | undefined,
): AsyncGenerator<TransportChunk, void> {
  yield { type: 'start' };
  try {
    const said = messagesOf(promptOf(messages));
    const conversation = system === undefined ? said : [{ role: 'system', content: system }, ...said];
    const outputs = new Map<string, unknown>();
    const offered = tools ? { tools: await toolSetOf(tools, outputs) } : {};
    const model = await orAborted(load(), signal);
    const answer = model.chat(conversation, { ...chat, ...offered, signal });
    yield { type: 'start-step' };
    yield* chunksOf(answer, outputs);
    const result = await answer.result();
    yield { type: 'finish-step' };
    const finishReason = result.finishReason === 'tool_calls' ? 'tool-calls' : result.finishReason;
    yield { type: 'finish', finishReason, ...(messageMetadata ? { messageMetadata: messageMetadata(result) } : {}) };
  } catch (error) {
    yield signal?.aborted ? { type: 'abort' } : { type: 'error', errorText: error instanceof Error ? error.message : String(error) };
  }
}

/** Chunks of the events of an answer, with a step for each round of calls. */
async function* chunksOf(
  events: AsyncIterable<ModelChatEvent>,
  outputs: ReadonlyMap<string, unknown>,
): AsyncGenerator<TransportChunk, void> {
  let segments = 0;
  let open: 'text' | 'reasoning' | undefined;
  let call: string | undefined;
  let answered = false;
  const close = function* (): Generator<TransportChunk> {
    if (open) yield { type: `${open}-end`, id: String(segments) };
    open = undefined;
  };
  for await (const event of events) {
    if (event.type === 'leftOut') continue;
    if (event.type === 'toolResult') {
      answered = true;
      const toolCallId = event.call.id;
      yield event.failed
        ? { type: 'tool-output-error', toolCallId, errorText: event.text }
        : { type: 'tool-output-available', toolCallId, output: outputs.get(toolCallId) ?? event.text };
      continue;
    }
    if (answered) yield* [{ type: 'finish-step' as const }, { type: 'start-step' as const }];
    answered = false;
    if (event.type === 'toolCall') {
      yield inputOf(event.call);
      continue;
    }
    if (event.type === 'toolCallDelta') {
      yield* close();
      if (call !== event.id) yield { type: 'tool-input-start', toolCallId: event.id, toolName: event.name };
      call = event.id;
      if (event.delta !== '') yield { type: 'tool-input-delta', toolCallId: event.id, inputTextDelta: event.delta };
      continue;
    }
    const type = event.type === 'content' ? 'text' : 'reasoning';
    if (open !== type) {
      yield* close();
      open = type;
      yield { type: `${type}-start`, id: String(++segments) };
    }
    yield { type: `${type}-delta`, id: String(segments), delta: event.delta };
  }
  yield* close();
}

function inputOf({
  id: toolCallId,
  name: toolName,
  arguments: text,
  cut,
}: Extract<ModelChatEvent, { type: 'toolCall' }>['call']): TransportChunk {
  try {
    if (cut) throw new Error('the arguments are not complete');
    return { type: 'tool-input-available', toolCallId, toolName, input: JSON.parse(text === '' ? '{}' : text) as unknown };
  } catch (error) {
    return { type: 'tool-input-error', toolCallId, toolName, input: text, errorText: (error as Error).message };
  }
}
