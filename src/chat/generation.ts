/** model.chat(): a conversation's answer as a stream of events. */
import type { Timings } from '../generate.ts';
import { inSlices } from '../slices.ts';
import { createStream, type Stream } from '../stream.ts';
import type { ParsedCall } from './calls.ts';
import type { ChatMessage } from './messages.ts';
import { collectEvents, type ChatEvent } from './parser.ts';
import { prepareChatWork, runChat, type ChatBackend, type ChatOptions, type ChatOutcome } from './run.ts';

/** A whole answer. */
export interface ChatResult {
  readonly content: string;
  /** What the model thought before it answered; '' where it did not, or where options.reasoning is false. */
  readonly reasoning: string;
  readonly toolCalls: readonly ParsedCall[];
  /** `stop`: the answer is whole; `tool_calls`: it ends in calls, whose results go into the next messages; `length`: it was cut. */
  readonly finishReason: ChatOutcome['finishReason'];
  readonly promptIds: readonly number[];
  readonly ids: readonly number[];
  readonly timings: Timings;
}

/** An answer's events as they come, and the whole. */
export type Chat = Stream<ChatEvent, ChatResult>;

/** Answers a conversation. Errors come with the first event or the result. */
export function createChat(backend: ChatBackend, messages: readonly ChatMessage[], options: ChatOptions): Chat {
  return createStream('chat', async function* () {
    const began = performance.now();
    const chat = await inSlices(prepareChatWork(backend, messages, options), options.signal);
    const answer = runChat(backend, chat);
    const events: ChatEvent[] = [], ids: number[] = [];
    let firstMs = 0;
    try {
      for (;;) {
        const step = await answer.next();
        if (step.done) {
          const { finishReason, result } = step.value;
          // An answer that was cut after its first call has no result: its tokens were counted here.
          const seen = { promptTokens: chat.promptIds.length, promptMs: firstMs, predictedTokens: ids.length, predictedMs: performance.now() - began - firstMs };
          return { ...collectEvents(events), finishReason, promptIds: chat.promptIds, ids, timings: result?.timings ?? seen };
        }
        firstMs ||= performance.now() - began;
        const { part } = step.value;
        if (part && part.id >= 0) ids.push(part.id);
        events.push(...step.value.events);
        yield* step.value.events;
      }
    } finally {
      await answer.return(undefined as never);
    }
  });
}
